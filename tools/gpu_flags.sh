#!/bin/sh
# Prints the flag by which Bazel compiles kernels for the GPUs of this machine alone, as its driver
# tells them; nothing where it tells of none, or of one that is too old to be compiled for.
gpus=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' |
  sort -nu) || exit 0
[ -n "$gpus" ] || exit 0
for gpu in $gpus; do
  case $gpu in
    *[!0-9]*) exit 0 ;;
  esac
  [ "$gpu" -ge 75 ] || exit 0
done
echo "--//third_party/cuda:gpus=$(echo "$gpus" | paste -sd,)"
