# Builds fuzz targets, for the scripts in this folder.
# shellcheck shell=bash

host=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-$PWD/target}
coverage=(
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
)

# With --target the flags apply only to the targets, not to build scripts.
build() {
    RUSTFLAGS="${coverage[*]} --cfg fuzzing" CARGO_TARGET_DIR="$folder" \
        cargo build --quiet --locked --release --target "$host" "$@"
}
