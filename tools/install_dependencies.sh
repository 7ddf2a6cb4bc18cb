#!/bin/sh
# Installs what Tandem needs on Debian 12 and is not there yet; quick, and without the network, when
# nothing is missing.
#
#   tools/install_dependencies.sh            to build, and to run the examples
#   tools/install_dependencies.sh --test     also for sanitizers, valgrind, style, MPIs, pictures
#   tools/install_dependencies.sh --peers    also PyTorch, which benchmarks are compared with
#   tools/install_dependencies.sh --docs     also Doxygen and Markdown, which make the documentation
#   tools/install_dependencies.sh --plot     also gnuplot, which draws curves and bandwidths
set -eu
if [ "${1:-}" = --help ]; then
  sed -n '2,/^[^#]/{s/^# \{0,1\}//;/^set /d;p}' "$0"
  exit 0
fi

packages="bazel-bootstrap default-jdk-headless g++ git pkg-config python3
  libhwloc-dev libuv1-dev libcmocka-dev libjansson-dev libdnnl-dev
  libhttp-parser-dev libsodium-dev zlib1g-dev dataset-fashion-mnist bible-kjv bible-kjv-text
  wamerican wfrench wngerman wspanish witalian wdutch wportuguese wswedish"

for option in "$@"; do
  case "$option" in
    --test)
      packages="$packages
        clang-14 clang-tidy-14 clang-format-14 libclang-rt-14-dev libomp-14-dev valgrind
        openmpi-bin libopenmpi-dev mpich libmpich-dev graphviz chromium doxygen python3-markdown" ;;
    # Debian's PyTorch multiplies by whichever BLAS is there, and the one it asks for is slow.
    --peers) packages="$packages python3-torch libopenblas0-openmp" ;;
    --docs) packages="$packages doxygen python3-markdown" ;;
    --plot) packages="$packages gnuplot-nox" ;;
    *)
      echo "$0: unknown option $option (known: --docs, --test, --peers, --plot)" >&2
      exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "$0: this is not Debian; what corresponds to these is needed: $packages" >&2
  exit 1
fi

missing=""
for package in $packages; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) || status=absent
  [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "$0: missing:$missing; install them as root, there is no sudo here" >&2
    exit 1
  fi
  as_root=sudo
fi

echo "Installing:$missing"
$as_root apt-get -q update || { sleep 5 && $as_root apt-get -q update; }
# shellcheck disable=SC2086 # both are lists of words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $missing
