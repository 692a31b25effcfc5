#!/usr/bin/env bash
# usage: scripts/elastic.sh [PAIRS] [KILLS]
# The long forms of the tests apps.elastic and apps.train_exact: streams left under random (hosts, workers, queue depth) go
# on under others, and streams and training runs are killed at random moments; every ledger (and the
# weights) must be those of the undisturbed run.
set -eu
cd "$(dirname "$0")/.."
tests=build/release/tests
[ -x $tests/test_apps_elastic ] || { echo "build first: cmake --preset release && cmake --build build/release"; exit 1; }
MR_ELASTIC_PAIRS=${1:-120} MR_ELASTIC_KILLS=${2:-60} $tests/test_apps_elastic
MR_TRAIN_KILLS=${2:-60} $tests/test_apps_train_exact
