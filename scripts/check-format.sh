#!/bin/sh
# Checks that clang-format would change nothing.
set -eu
cd "$(dirname "$0")/.."
git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror
echo "format: $(git ls-files '*.c' '*.h' | wc -l) files as clang-format wants them"
