#!/bin/sh
# Owns: one libFuzzer run: fuzz_one.sh PROGRAM SECONDS [SEED], the seed of its random numbers; 0
# (the default) is another one each time. Inputs to start from: test/fuzz/corpus/<name>/, dictionary:
# test/fuzz/<name>.dict; both optional. What it finds stays in build/fuzz/.
set -eu
program=$1
seconds=$2
seed=${3:-0}
name=$(basename "$program")
found=build/fuzz/corpus/$name
mkdir -p "$found"
set -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -seed="$seed" \
    -artifact_prefix="build/fuzz/$name-" "$found"
[ ! -d "test/fuzz/corpus/$name" ] || set -- "$@" "test/fuzz/corpus/$name"
[ ! -f "test/fuzz/$name.dict" ] || set -- -dict="test/fuzz/$name.dict" "$@"
if ! "$program" "$@" >"build/fuzz/$name.log" 2>&1; then
    tail -n 60 "build/fuzz/$name.log"
    echo "$name FAILED; $(grep -a '^INFO: Seed' "build/fuzz/$name.log"); again: $program build/fuzz/$name-<input>"
    exit 1
fi
echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log") runs"
