#!/usr/bin/env bash
# usage: bench/peers/setup.sh DIR [torch|tf|ffcv|photos...]
# Virtual environments of the peers of bench/loader.sh and bench/photos.sh below DIR (4 to 6 GB each,
# Python 3.11); without names torch, tf and ffcv:
#   torch   torchvision and grain             tf  tf.data and DALI     ffcv  FFCV, which is compiled
#   photos  torchvision, grain, WebDataset, MDS, litData and simplejpeg, for pictures
# Then: PEERS=DIR bench/loader.sh DATA, PEERS=DIR bench/photos.sh PHOTOS.  FFCV wants the Debian
# packages libopencv-dev, libturbojpeg0-dev, pkg-config and g++.
set -eu
dir=${1:?usage: bench/peers/setup.sh DIR [torch|tf|ffcv|photos...]}
shift
[ $# -gt 0 ] || set -- torch tf ffcv
mkdir -p "$dir"

make() { # NAME PACKAGE...
  local venv=$dir/$1
  shift
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install -q "$@"
}

for name in "$@"; do
  case $name in
    torch) make torch grain==0.2.18 torch==2.15.0 torchvision==0.29.2 numpy==2.4.6 pillow==13.0.0 absl-py ;;
    tf) make tf tensorflow-cpu==2.21.0 nvidia-dali-cuda120==2.4.0 ;;
    photos)
      make photos torch==2.15.0 torchvision==0.29.2 pillow==13.0.0 numpy==2.1.3 grain==0.2.18 absl-py \
        webdataset==1.0.2 mosaicml-streaming==0.13.0 litdata==0.2.76 simplejpeg==1.9.0
      ;;
    ffcv)
      make ffcv 'setuptools<81' wheel 'numpy<2' numba opencv-python-headless torch==2.15.0 \
        torchvision==0.29.2 pandas tqdm pyyaml psutil terminaltables
      make ffcv --no-build-isolation --no-deps fastargs ffcv==1.0.2 imgcat assertpy
      ;;
    *) echo "setup.sh: $name: want torch, tf, ffcv or photos" >&2; exit 2 ;;
  esac
  echo "$name: $dir/$name"
done
