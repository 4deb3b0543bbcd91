#!/usr/bin/env bash
# Remakes requirements/*.lock from *.in: exact versions with hashes, for Python 3.11 and 3.12.
# Versions already locked stay; pass --upgrade, or --upgrade-package NAME, to move them.
set -euo pipefail
cd "$(dirname "$0")/../requirements"
uv=${UV:-../.venv/bin/uv}

compile() {
    "$uv" pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --custom-compile-command scripts/lock.sh \
        "$@"
}

compile uv.in -o uv.lock "$@"
compile npm.in -o npm.lock "$@"
compile local.in -o local.lock "$@"
# One set of versions for all three: what is added must fit what runs.
compile build.in --constraint local.lock -o build.lock "$@"
compile dev.in --constraint local.lock --constraint build.lock -o dev.lock "$@"
# Environments of their own: other people's clients, and the load generator.
compile clients.in --excludes clients.exclude -o clients.lock "$@"
compile aiperf.in -o aiperf.lock "$@"
# One for each pool of the GPU profile.
for pool in pool-*.in; do
    [ -e "$pool" ] && compile "$pool" -o "${pool%.in}.lock" "$@"
done

for lock in *.lock; do
    if grep -nE 'https?://|file://|--(extra-)?index-url|--find-links| @ ' "$lock"; then
        echo "$lock names an address" >&2
        exit 1
    fi
done
if grep -nE '^(torch|triton|nvidia-|tensorflow|phonemizer|espeakng|piper-tts)' local.lock; then
    echo "local.lock holds what the local profile must not bring" >&2
    exit 1
fi
# What this environment has of them; after an upgrade that brings a new package: make setup, again.
../.venv/bin/python ../scripts/check_licences.py local.lock
