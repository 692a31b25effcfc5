#!/bin/sh
# The long form of the diagnosis test: a random stage is slowed 40 times, in turn by sleeping and by
# computing; the right one must be named at least 38 times, and its gain foretold within 15 % as often.
# About a minute; wants a machine that is at rest.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
DIAGNOSE_TRIALS=${1:-40} "$root/build/release/tests/test_apps_diagnose"
