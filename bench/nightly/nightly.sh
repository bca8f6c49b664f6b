#!/bin/sh
# Owns: the nightly job: the machine, a run against the baseline, the self-check, the trend and a soak, each kept in
# build/bench/nightly/<time>/. Ends with the gravest exit code: 1, 3, 4, 77, 0 (docs/guide/benchmarking.md).
# Usage: bench/nightly/nightly.sh [--quick]; UVHTTP_BENCH replaces "./dev bench".
set -u
cd "$(dirname "$0")/../.." || exit 1

bench=${UVHTTP_BENCH:-./dev bench}
kept=${UVHTTP_NIGHTLY:-build/bench/nightly}/$(date -u +%Y-%m-%dT%H%M%SZ)
repeats=10 same=4 slowed=2 minutes=30
case ${1-} in
    '') ;;
    --quick) repeats=3 same=1 slowed=1 minutes=0.5 ;;
    *)
        echo "usage: bench/nightly/nightly.sh [--quick]" >&2
        exit 2
        ;;
esac
mkdir -p "$kept" || exit 1
codes=""

# step NAME ARGUMENTS...: data in NAME.json, progress and errors in NAME.log. A failure does not end the night.
step() {
    name=$1
    shift
    # shellcheck disable=SC2086 # a command with its arguments
    $bench "$@" --format json >"$kept/$name.json" 2>"$kept/$name.log"
    code=$?
    [ "$code" != 130 ] || exit 130
    codes="$codes $code"
    echo "$name: exit $code" | tee -a "$kept/summary.txt"
    [ "$code" = 0 ] || tail -n 3 "$kept/$name.log" | sed 's/^/    /' | tee -a "$kept/summary.txt"
}

git rev-parse HEAD >"$kept/revision.txt" 2>/dev/null
step system system
step baseline-check baseline check --run --repeats "$repeats" --output "$kept/regression.json"
step self-check self-check --same "$same" --slowed "$slowed"
step trend trend --fail
step soak soak --minutes "$minutes"

worst=0
for code in 1 3 4 77; do
    case "$codes " in
        *" $code "*)
            worst=$code
            break
            ;;
    esac
done
for code in $codes; do # a usage error, or a signal
    case $code in
        0 | 1 | 3 | 4 | 77) ;;
        *) worst=1 ;;
    esac
done
echo "nightly: exit $worst, in $kept" | tee -a "$kept/summary.txt"
exit "$worst"
