#!/bin/sh
# A real Chromium looks at the live page of a run.  usage: check-web.sh [FOLDER_FOR_SCREENSHOTS]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$root/scripts/check-web.py" "$root/build/release/millrace" "$@"
