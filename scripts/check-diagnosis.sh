#!/bin/sh
# The long form of the diagnosis test: a random stage is slowed 40 times; the right one must be named
# at least 38 times, its gain foretold within 15 %.  About four minutes; wants a machine that is at rest.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
DIAGNOSE_TRIALS=${1:-40} "$root/build/release/tests/test_apps_diagnose"
