#!/bin/sh
# The performance standard's test run: low, medium and high concurrency, five times each. Raw results and a record of each
# run are in test/performance_results/<scenario>_<i>.{txt,json}. Arguments are passed on to `uvhttp-bench run`.
set -eu
cd "$(dirname "$0")/.."
status=0
./dev bench system || status=$?
# 4: figures would be noisy; the runs say so themselves. 77: something is missing, and the table has said what.
[ "$status" = 0 ] || [ "$status" = 4 ] || exit "$status"
exec ./dev bench run basic "$@"
