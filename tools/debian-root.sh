#!/bin/sh
# Creates a minimal Debian below DIR, in which tests install packages.
# Usage: tools/debian-root.sh DIR
set -eu

root=$1
[ -e "$root/etc/debian_version" ] && exit 0
rm -rf "$root" "$root.part"
# Built under a temporary name; only a complete one is renamed.
debootstrap --variant=minbase --include=adduser "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root.part" >"$root.log" 2>&1 || {
    tail -n 5 "$root.log" >&2
    exit 1
}
rm -rf "$root.part/var/cache/apt/archives" "$root.part/var/lib/apt/lists"
mv "$root.part" "$root"
