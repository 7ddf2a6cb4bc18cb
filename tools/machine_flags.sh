#!/bin/sh
# Prints the flags by which Bazel compiles kernels for this machine alone: of the CPU's, those for
# the least instruction set, which is always there, and for the best that the processor has; of
# those for GPUs, what the driver here tells of. Nothing of what is not known, or too old.
#
#   tools/machine_flags.sh [FILE]    what /proc/cpuinfo is
has() {
  for flag in "$@"; do
    case " $flags " in
      *" $flag "*) ;;
      *) return 1 ;;
    esac
  done
}
flags=$(sed -n '/^flags[[:space:]]*:/{s/^[^:]*: *//;p;q}' "${1:-/proc/cpuinfo}" 2>/dev/null)
sets=--//devices/kernels:instruction_sets
if has avx2 fma avx512f avx512bw avx512cd avx512dq avx512vl; then
  echo "$sets=narrowest_and_widest"
elif has avx2 fma; then
  echo "$sets=narrowest_and_avx2"
fi

gpus=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d ". " |
  sort -nu)
[ -n "$gpus" ] || exit 0
for gpu in $gpus; do
  case $gpu in
    *[!0-9]*) exit 0 ;;
  esac
  [ "$gpu" -ge 75 ] || exit 0
done
echo "--//third_party/cuda:gpus=$(echo "$gpus" | paste -sd,)"
