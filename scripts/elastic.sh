#!/usr/bin/env bash
# usage: scripts/elastic.sh [PAIRS] [KILLS]
# The long form of the test apps.elastic: streams left under random (hosts, workers, queue depth) go
# on under others, and runs are killed at random moments; every ledger must be that of the whole run.
set -eu
cd "$(dirname "$0")/.."
test=build/release/tests/test_apps_elastic
[ -x $test ] || { echo "build first: cmake --preset release && cmake --build build/release"; exit 1; }
MR_ELASTIC_PAIRS=${1:-120} MR_ELASTIC_KILLS=${2:-60} exec $test
