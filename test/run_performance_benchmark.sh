#!/bin/sh
# The performance standard's whole benchmark: every scenario but the long sustained runs, with the standard's repeats; with
# --quick everything in two minutes. Arguments are passed on to `uvhttp-bench run`.
set -eu
cd "$(dirname "$0")/.."
exec ./dev bench run basic methods bodies 'https*' static pipeline 'websocket*' tcp workloads threads ladder sustained-10 "$@"
