#!/bin/sh
# Installs the Debian packages of missing commands if run as root; otherwise prints one line that says how to
# install them.
# Usage: tools/apt.sh COMMAND=PACKAGE[,PACKAGE…]…
# A name with a slash is a file that must exist.
set -u

missing=

for wanted in "$@"; do
    what=${wanted%%=*}
    case $what in
    */*) [ -e "$what" ] && continue ;;
    *) PATH="$PATH:/usr/sbin" command -v "$what" >/dev/null && continue ;;
    esac
    missing="$missing $(echo "${wanted#*=}" | tr ',' ' ')"
done

[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # Another installation may hold the lock for a while.
    set -- -o DPkg::Lock::Timeout=300
    # shellcheck disable=SC2086 # Word splitting is intended.
    if { apt-get "$@" install -y --no-install-recommends $missing ||
        { apt-get "$@" update && apt-get "$@" install -y --no-install-recommends $missing; }; } >/dev/null 2>&1; then
        exit 0
    fi
    echo "missing:$missing; apt-get could not install them" >&2
else
    echo "missing:$missing (Debian: sudo apt-get install$missing)" >&2
fi
exit 1
