#!/bin/sh
# Creates .venv, or the folder in VENV, and installs the named requirement files. On Debian, the venv module is a separate package.
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
