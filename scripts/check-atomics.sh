#!/bin/sh
# Checks that every atomic operation of the tree names its memory order: the C forms without one, and
# plain reads and writes of atomic objects, are seq_cst without a word.
set -eu
cd "$(dirname "$0")/.."
found=$(mktemp)
trap 'rm -f "$found"' EXIT

sources() { git ls-files --cached --others --exclude-standard "$@" ':!tests' ':!examples'; }

short='\batomic_(load|store|exchange|compare_exchange_(weak|strong)|fetch_(add|sub|or|and|xor)|flag_test_and_set|flag_clear)\('
sources '*.[ch]' '*.inc' | xargs grep -nE "$short|__sync_[a-z]|__atomic_[a-z]" >"$found" || true

# clang tells of a plain read or write of an atomic object; what it says of headers that only a build
# makes is no concern here.
sources '*.c' |
  xargs -n 64 -P "$(nproc)" clang -std=gnu17 -D_GNU_SOURCE -fsyntax-only -Wno-everything -Watomic-implicit-seq-cst \
    -I. -I/usr/include/cjson -I/usr/include/libxml2 2>&1 |
  grep -F -- '-Watomic-implicit-seq-cst' >>"$found" || true

if [ -s "$found" ]; then
  cat "$found"
  echo "atomics: name the order (atomic_load_explicit ...) and say with what it pairs"
  exit 1
fi
echo "atomics: every operation names its order"
