#!/bin/sh
# Prints which of the named tools are missing and how to install them; exits with 1 then.
# Usage: tools/need.sh cargo cc python go node npm
set -u

missing=0

say() {
    echo "missing: $1" >&2
    missing=1
}

for tool in "$@"; do
    case $tool in
    cargo) command -v cargo >/dev/null || say "cargo: install Rust 1.90 or later (https://rustup.rs)" ;;
    cc) command -v cc >/dev/null || say "cc: install a C compiler, which links (Debian: apt-get install gcc libc6-dev)" ;;
    python)
        "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
            say "Python 3.11 or later (Debian: apt-get install python3 python3-venv)"
        ;;
    go) command -v go >/dev/null || say "go: install Go 1.24 or later (https://go.dev/dl)" ;;
    node)
        node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' 2>/dev/null ||
            say "node: install Node.js 20 or later (https://nodejs.org)"
        ;;
    npm) command -v npm >/dev/null || say "npm: it comes with Node.js (https://nodejs.org)" ;;
    *) say "$tool: not known to tools/need.sh" ;;
    esac
done

exit $missing
