#!/bin/sh
# Measures package packets beside other codecs: ROUNDS (6) rounds of all benchmarks by turns, BENCHTIME (200ms) each, on one
# processor. Prints what `go test -bench` does, which benchstat reads.
set -eu
cd "$(dirname "$0")"
binary=$(mktemp)
trap 'rm -f "$binary"' EXIT
go test -c -o "$binary" .
"$binary" -test.run TestAllLibrariesAgree >&2
for round in $(seq "${ROUNDS:-6}"); do
    echo "round $round of ${ROUNDS:-6}" >&2
    "$binary" -test.run '^$' -test.bench . -test.cpu 1 -test.benchtime "${BENCHTIME:-200ms}"
done
