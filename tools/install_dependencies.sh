#!/bin/sh
# Installs what Tandem needs on Debian 12 and is not there yet; quick, and without the network, when
# nothing is missing.
#
#   tools/install_dependencies.sh               to build the library, and for ./run_example
#   tools/install_dependencies.sh --examples    also what the other examples read and link
#   tools/install_dependencies.sh --build       that, and what else `bazel build //...` wants
#   tools/install_dependencies.sh --test        that, and sanitizers, valgrind, MPIs, pictures
#   tools/install_dependencies.sh --peers       also PyTorch and oneDNN, for comparing benchmarks
#   tools/install_dependencies.sh --docs        also Doxygen and Markdown, for the documentation
#   tools/install_dependencies.sh --plot        also gnuplot, which draws curves and bandwidths
set -eu
if [ "${1:-}" = --help ]; then
  sed -n '2,/^[^#]/{s/^# \{0,1\}//;/^set /d;p}' "$0"
  exit 0
fi

# docs/building.md says what each is for.
packages="bazel-bootstrap default-jdk-headless g++ pkg-config python3
  libhwloc-dev libuv1-dev libjansson-dev libsodium-dev
  wamerican wfrench wngerman wspanish witalian wdutch wportuguese wswedish"
examples="zlib1g-dev libhttp-parser-dev dataset-fashion-mnist bible-kjv bible-kjv-text"
build="$examples git hwloc-nox libcmocka-dev"

for option in "$@"; do
  case "$option" in
    --examples) packages="$packages $examples" ;;
    --build) packages="$packages $build" ;;
    --test)
      packages="$packages $build abigail-tools debootstrap
        clang-14 clang-tidy-14 clang-format-14 libclang-rt-14-dev libomp-14-dev valgrind
        openmpi-bin libopenmpi-dev mpich libmpich-dev graphviz gnuplot-nox chromium doxygen
        python3-markdown" ;;
    # Debian's PyTorch multiplies by whichever BLAS is there, and the one it asks for is slow.
    --peers) packages="$packages python3-torch libopenblas0-openmp libdnnl-dev" ;;
    --docs) packages="$packages doxygen python3-markdown" ;;
    --plot) packages="$packages gnuplot-nox" ;;
    *)
      echo "$0: unknown option $option (known: --examples, --build, --test, --peers, --docs," \
        "--plot)" >&2
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
