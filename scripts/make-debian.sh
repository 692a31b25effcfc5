#!/bin/sh
# Writes debian/control and debian/changelog, which dpkg-buildpackage reads, of their .in: the maintainer is who packs,
# DEBFULLNAME <DEBEMAIL> as of Debian's own tools, and the date today's or SOURCE_DATE_EPOCH.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${DEBFULLNAME:-}" ] || [ -z "${DEBEMAIL:-}" ]; then
  echo "make-debian: DEBFULLNAME and DEBEMAIL: want the name and the address of the packages' maintainer; export both" >&2
  exit 2
fi
python3 - <<'PYTHON'
import os
import time

words = {
    "@MAINTAINER@": f"{os.environ['DEBFULLNAME']} <{os.environ['DEBEMAIL']}>",
    "@DATE@": time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(float(os.environ.get("SOURCE_DATE_EPOCH") or time.time()))),
}
for name in ("control", "changelog"):
    with open(f"debian/{name}.in", encoding="utf-8") as f:
        text = f.read()
    for word, value in words.items():
        text = text.replace(word, value)
    with open(f"debian/{name}", "w", encoding="utf-8") as f:
        f.write(text)
PYTHON
