#!/bin/bash
# Runs the commands of docs/several_machines.md that start a job, unchanged, in a folder where
# bazel-bin contains the binaries of the test. Commands for machines of a host file are only
# printed.
set -u
document=$1
for launcher in mpirun.openmpi mpiexec.mpich; do
  command -v "$launcher" > /dev/null && found=$launcher
done
if [ -z "${found-}" ] || ! ls net/libtandem_*.so > /dev/null 2>&1; then
  echo "SKIPPED: no MPI is installed, or its headers are not"
  exit 0
fi
work=${TEST_TMPDIR:-/tmp}/several_machines
mkdir -p "$work"
ln -sfn "$PWD" "$work/bazel-bin"
# A folder for these jobs only: an Open MPI job that ends deletes files of another in the same
# folder.
TMPDIR=$(mktemp -d /tmp/tdm.XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
mapfile -t commands < <(awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 }
                             on && /^bazel-bin\//' "$document")
cd "$work" || exit 1
printf 'alpha slots=1\nbeta slots=1\n' > hosts
count=0
for command in "${commands[@]}"; do
  case $command in *--hostfile*) command=${command/ launch / launch --print } ;; esac
  echo "\$ $command"
  if ! eval "timeout -k 5 240 $command" > output 2>&1; then
    cat output
    exit 1
  fi
  case $command in
    *--print*) grep -q -- '-n 2 .*hosts' output ;;
    *) [ "$(grep -c '^AUC ' output)" = 1 ] ;; # rank 0 reports, once
  esac || { cat output; exit 1; }
  count=$((count + 1))
done
[ $count -ge 5 ] || { echo "only $count commands were found"; exit 1; }
echo "$count commands passed"
