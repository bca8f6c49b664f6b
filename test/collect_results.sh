#!/bin/sh
# Collects the records of the last run into docs/performance/data/<date>/baseline.json (or regression.json), the performance
# standard's place for data that is kept. Arguments are passed on to `uvhttp-bench baseline`; alone: set.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- set
exec ./dev bench baseline "$@"
