#!/bin/sh
# Owns: one libFuzzer run: fuzz_one.sh PROGRAM SECONDS [SEED [LONGEST]]. Inputs to start from: test/fuzz/corpus/<name>/, dictionary:
# test/fuzz/<name>.dict; both optional. What it finds stays in build/fuzz/. An input that runs for LONGEST seconds is a finding.
#
# SEED is that of its random numbers. 0 (the default): another one each time, and what earlier runs found is tried first.
# With another one every run tries the same inputs one after the other, as many as the time permits: what comes next also
# depends on addresses, on the order of the inputs, and on a directory that is read again each second, and all of that
# stays as it is. But fuzz_connection and fuzz_tls themselves depend on time and on random numbers.
set -eu
program=$1
seconds=$2
seed=${3:-0}
longest=${4:-10}
name=$(basename "$program")
inputs=test/fuzz/corpus/$name
found=build/fuzz/corpus/$name
fixed=
set -- -max_total_time="$seconds" -timeout="$longest" -rss_limit_mb=2048 -print_final_stats=1 -seed="$seed" \
    -artifact_prefix="build/fuzz/$name-"
[ ! -f "test/fuzz/$name.dict" ] || set -- "$@" -dict="test/fuzz/$name.dict"
if [ "$seed" = 0 ]; then
    mkdir -p "$found"
    set -- "$@" "$found"
    [ ! -d "$inputs" ] || set -- "$@" "$inputs"
else
    ! setarch -R true 2>/dev/null || fixed="setarch -R" # some containers forbid it
    found=build/fuzz/seed-$seed/$name
    rm -rf "$found"
    mkdir -p "$found"
    find "$inputs" -type f 2>/dev/null | LC_ALL=C sort | tr '\n' ',' | sed 's/,$//' >"$found.inputs"
    [ ! -s "$found.inputs" ] || set -- "$@" -seed_inputs="@$found.inputs"
    set -- "$@" -reload=0 "$found"
fi
if ! $fixed "$program" "$@" >"build/fuzz/$name.log" 2>&1; then
    tail -n 60 "build/fuzz/$name.log"
    echo "$name FAILED; $(grep -a '^INFO: Seed' "build/fuzz/$name.log"); again: $program build/fuzz/$name-<input>"
    exit 1
fi
echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log") runs"
