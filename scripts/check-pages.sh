#!/usr/bin/env bash
# Man pages and completions from the tables of build/release: man reads the pages without a warning, the shells read the
# completions, and bash completes by them.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/scripts/make-pages.py" "$root/build/release/millrace" "$work"
for page in "$work"/man/man?/*; do
  warnings=$(LC_ALL=C MANROFFSEQ='' MANWIDTH=100 man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
  [ -z "$warnings" ] || { echo "pages: $(basename "$page"): $warnings"; exit 1; }
done
bash -n "$work/bash-completion/completions/millrace"
zsh -n "$work/zsh/vendor-completions/_millrace"
fish -n "$work/fish/vendor_completions.d/millrace.fish"

# WANT WORD...: what bash offers for the last word.
completes() {
  local want=$1 got
  shift
  got=$(bash -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _millrace; echo "${COMPREPLY[*]}"' \
    "$work/bash-completion/completions/millrace" "$@")
  [ "$got" = "$want" ] || { echo "pages: bash completes \"$*\" by \"$got\", want \"$want\""; exit 1; }
}
completes 'train' millrace tra
completes '--steps' millrace train --st
completes 'normalize' millrace inspect norm
completes 'bf16' millrace bench step --dtype bf
completes '' millrace train --steps 1
got=$(fish -c "source $work/fish/vendor_completions.d/millrace.fish; complete -C 'millrace train --st'" | cut -f 1)
[ "$got" = --steps ] || { echo "pages: fish completes \"millrace train --st\" by \"$got\""; exit 1; }
echo "pages: $(find "$work/man" -type f | wc -l) man pages; completions for bash, zsh and fish"
