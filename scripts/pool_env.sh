#!/usr/bin/env bash
# Makes the environment of one pool of the GPU profile, holding exactly what its lock says: the heavy
# pins of the engines disagree, so each pool has its own, as each has its own image.
#
#   scripts/pool_env.sh speech     .venv-pool-speech from requirements/pool-speech.lock
#
# e3rg itself is not installed in it: tests run with PYTHONPATH=serve. Nothing is done when the lock has
# not changed since the last time.
set -euo pipefail
cd "$(dirname "$0")/.."

pool=$1
venv=.venv-pool-$pool lock=requirements/pool-$pool.lock
stamp=$venv/.installed
now=$(pwd; .venv/bin/python --version; cksum < "$lock")
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$now" ] && exit 0

echo "making $venv"
rm -rf "$venv"
.venv/bin/python -m venv --without-pip "$venv"
. scripts/index.sh .venv/bin/python
.venv/bin/uv pip install --quiet --python "$venv/bin/python" --require-hashes --no-deps -r "$lock"
echo "$now" > "$stamp"
