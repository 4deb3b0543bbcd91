#!/usr/bin/env bash
# Makes the environments of other people's clients and of the load generator, each of its own and
# holding exactly what its lock says, beside the .venv that scripts/setup.sh made:
#
#   .venv-clients   requirements/clients.lock   runs the snippets of docs/clients.md
#   .venv-aiperf    requirements/aiperf.lock    runs AIPerf (benchmarks/chat.py)
#
# Nothing is done when the locks have not changed since the last time. Every package is checked against
# its hash.
set -euo pipefail
cd "$(dirname "$0")/.."

make_environment() {
    local name=$1 venv=.venv-$1 lock=requirements/$1.lock
    local stamp=$venv/.installed now
    # Folder and interpreter are part of the stamp: an environment survives no change of them.
    now=$(pwd; .venv/bin/python --version; cksum < "$lock")
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$now" ] && return

    echo "making $venv"
    rm -rf "$venv"
    .venv/bin/python -m venv --without-pip "$venv"
    . scripts/index.sh .venv/bin/python
    # A lock is complete as it stands: nothing that it leaves out on purpose is looked for.
    local -a install=(--quiet --require-hashes --only-binary :all: --no-deps -r "$lock")
    if ! .venv/bin/uv pip install --python "$venv/bin/python" "${install[@]}"; then
        echo "uv could not install the packages; trying pip, which takes longer" >&2
        .venv/bin/python -m pip --disable-pip-version-check --python "$venv/bin/python" \
            install "${install[@]}"
    fi
    echo "$now" > "$stamp"
}

make_environment clients
make_environment aiperf
