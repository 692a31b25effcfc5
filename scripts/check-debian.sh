#!/usr/bin/env bash
# The Debian packages: built of the tracked files by debhelper into build/debian, read by lintian, installed in a bare Debian 12
# and used there.  Root's; wants debhelper, dh-python, lintian and mmdebstrap.  Not part of .ci/run: it takes ten minutes where
# no object comes from a cache.  DEBFULLNAME and DEBEMAIL: their maintainer.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
there=$root/build/debian
rm -rf "$there"
mkdir -p "$there/millrace"
cd "$root"
git ls-files -z | tar -c --null -T - | tar -x -C "$there/millrace"
cd "$there/millrace"
scripts/make-debian.sh
DEB_BUILD_OPTIONS="parallel=$(nproc)" CCACHE_BASEDIR=$PWD dpkg-buildpackage -b -us -uc >../build.log 2>&1 || { tail -n 40 ../build.log; exit 1; }
cd "$there"
lintian --allow-root --fail-on error,warning ./*.changes
rm -f ./*-dbgsym_*.deb # for debuggers, not for use

# What runs in the bare system, which has nothing else but a compiler.
cat >use.sh <<'SH'
set -eux
cd /packages
apt-get install -y -qq --no-install-recommends ./*.deb gcc libc6-dev pkg-config >/dev/null
cd /tmp
graph='synthetic n=256 ! shuffle seed=1 epochs=2 ! flip ! normalize ! batch 64'
millrace --version
millrace run "$graph ! ledger" 2>/dev/null | tee ledger
python3 - "$graph" <<'PYTHON'
import sys

import millrace as mr

with mr.stream(sys.argv[1]) as stream:
    assert [batch.n for batch in stream] == [64] * 8
    assert stream.ledger in open("ledger").read(), stream.ledger
graph = mr.synthetic(n=64) | mr.batch(16)
assert len(mr.stream(graph)) == 4
print("Python's ledger is the program's")
PYTHON
millrace train --run-dir run --steps 2 model=mlp hidden=16 >/dev/null 2>&1
gcc -O2 -Wall /packages/library.c $(pkg-config --cflags --libs millrace) -o library
./library
ldd library | grep /lib/libmillrace.so.0
bash -c 'source /usr/share/bash-completion/completions/millrace; COMP_WORDS=(millrace tra); COMP_CWORD=1; _millrace; [ "${COMPREPLY[*]}" = train ]'
dpkg-query -L millrace | grep /usr/share/man/man1/millrace.1.gz # a container leaves manual pages out
apt-get purge -y -qq millrace libmillrace0 >/dev/null
test ! -e /usr/bin/millrace
SH
mkdir packages
cp ./*.deb use.sh "$root/tests/install/library.c" packages/
# shellcheck disable=SC2016 # mmdebstrap's own shell knows $1
mmdebstrap --quiet --variant=minbase --format=null --customize-hook='copy-in packages /' \
  --customize-hook='chroot "$1" sh /packages/use.sh' bookworm
echo "debian: $(find . -maxdepth 1 -name '*.deb' | wc -l) packages are built, read by lintian, installed and used in a bare Debian 12"
