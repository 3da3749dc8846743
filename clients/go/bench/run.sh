#!/bin/sh
# Measures package packets beside other codecs: ROUNDS (6) rounds of all benchmarks by turns, BENCHTIME (200ms) each, on one
# processor. Raw results and their summary go to bench/results/go. Exit code 1: a bar has been missed.
set -eu
cd "$(dirname "$0")"
results=${RESULTS:-../../../bench/results/go}
mkdir -p "$results"
binary=$(mktemp)
raw=$(mktemp)
trap 'rm -f "$binary" "$raw"' EXIT
go test -c -o "$binary" .
"$binary" -test.run TestEverybodyWritesAndReadsTheSame
for round in $(seq "${ROUNDS:-6}"); do
    echo "round $round" >&2
    "$binary" -test.run '^$' -test.bench . -test.cpu 1 -test.benchtime "${BENCHTIME:-200ms}" >>"$raw"
done
grep -v '^PASS$' "$raw" | tr -s ' \t' ' ' >"$results/packets.txt"
go tool benchstat -col /lib "$results/packets.txt" | sed 's/ *$//' >"$results/packets.benchstat.txt"
exec go run ./summary <"$results/packets.txt" "$results/packets.json"
