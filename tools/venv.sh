#!/bin/sh
# Makes .venv, or the folder in VENV, and installs the requirement files that are named. Debian keeps the module for it in a package of its own.
# Usage: tools/venv.sh FILE...
set -eu

python=${PYTHON:-python3}
venv=${VENV:-.venv}

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        { apt-get update && apt-get install -y --no-install-recommends python3-venv; } >/dev/null
    else
        echo "missing: the Python module venv (Debian: sudo apt-get install python3-venv)" >&2
        exit 1
    fi
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"

for requirements in "$@"; do
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements"
done
