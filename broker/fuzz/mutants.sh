#!/usr/bin/env bash
# Verifies that a fuzz target finds faults: enables each of them in the durable broker, and runs `durable` for at most SECONDS (60):
# mutants.sh [SECONDS [FAULT…]]
#
# The other faults of the simulations are not used here. Each of them has a test that fails unless the fault is found:
#   CompletesAtOnce, ConnectsAtOnce, DeliversAtOnce, ForgetsRetained, ForgetsTaken, ForgetsTakenIdentifiers, ResendsFromSecond,
#   SendsBeforeItPosts
#       responses to clients that are too early, or missing after a reconnect: broker/engine/tests/simulation/mutants.rs
#   ResumesBeforeItSends, SleepsOnBatches, SleepsOnBegunBatches, SleepsOnFanOuts
#       a shard that sleeps although there is work: broker/engine/tests/simulation/turns.rs
#   BeginsOneFrameLate, ReleasesTooMuch, TakesOtherEpochs, TakesWhatWasCutOff
#       the log on its own: broker/journal/tests/crash/mutants.rs
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:-60}
shift || true
faults=("$@")
[[ ${#faults[@]} -gt 0 ]] || faults=(AcknowledgesOneFrameEarly ForgetsHanded ForgetsTook SnapshotForgetsHandovers
    SnapshotEndsOneFrameEarly ForgetsToSync)

# shellcheck source=broker/fuzz/build.sh
source build.sh
build --features mutants --bin durable

missed=0
for fault in "${faults[@]}"; do
    found="$folder/mutants/$fault"
    rm -rf "$found"
    mkdir -p "$found/corpus"
    begun=$SECONDS
    if TAUTWIRE_MUTANT=$fault "$folder/$host/release/durable" "$found/corpus" corpus/durable \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 -artifact_prefix="$found/" >"$found/log" 2>&1; then
        echo "$fault: not found in $seconds s" >&2
        missed=1
    elif ! ls "$found"/crash-* >/dev/null 2>&1; then
        tail -n 20 "$found/log" >&2
        exit 1
    else
        echo "$fault: found in $((SECONDS - begun)) s"
    fi
done
exit "$missed"
