#!/usr/bin/env bash
# Runs every fuzz target, or the given ones, for SECONDS (60) each: run.sh [SECONDS [TARGET…]]
#
# Coverage is enabled by flags that every compiler accepts, so stable Rust is enough and nothing has to be installed. Findings are written
# to artifacts/ here; new inputs stay in the build folder and do not change the committed corpus.
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:-60}
shift || true
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(decode tls websocket proxy_header payload schema access users scram jwt hook journal snapshot replay mosquitto_db broker durable)

# shellcheck source=broker/fuzz/build.sh
source build.sh
build

for target in "${targets[@]}"; do
    printf '== fuzz %s for %s s\n' "$target" "$seconds"
    mkdir -p "artifacts/$target" "$folder/fuzz-corpus/$target"
    log="$folder/fuzz-$target.log"
    if ! "$folder/$host/release/$target" "$folder/fuzz-corpus/$target" "corpus/$target" \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 \
        -artifact_prefix="$PWD/artifacts/$target/" >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        echo "$target: a finding, see broker/fuzz/artifacts/$target" >&2
        exit 1
    fi
    grep -E 'stat::(number_of_executed_units|peak_rss_mb)' "$log"
done
