#!/bin/sh
# tools/machine_flags.sh with the descriptions of processors and nvidia-smi of several machines.
set -eu
script=$1
folder=${TEST_TMPDIR:-/tmp}/bin
mkdir -p "$folder"
told_of() { # flags of the processor, what nvidia-smi prints; "none": there is none
  printf 'model name : a processor\nflags\t\t: fpu %s sse\n' "$1" >"$folder/cpuinfo"
  printf '#!/bin/sh\nprintf "%s"\n' "$2" >"$folder/nvidia-smi"
  chmod +x "$folder/nvidia-smi"
  [ "$2" != none ] || rm "$folder/nvidia-smi"
  PATH="$folder:/usr/bin:/bin" "$script" "$folder/cpuinfo" | tr '\n' ' '
}
expect() { # the same, and the flags
  told=$(told_of "$1" "$2")
  [ "$told" = "$3" ] || { echo "of '$1' and '$2': '$told', not '$3'" && exit 1; }
}
sets=--//devices/kernels:instruction_sets
gpus=--//third_party/cuda:gpus
best="avx2 fma avx512f avx512bw avx512cd avx512dq avx512vl"
expect "$best" none "$sets=narrowest_and_widest "
expect "avx2 fma avx512f" none "$sets=narrowest_and_avx2 "
expect "avx2" none ""
expect "" '9.0\n' "$gpus=90 "
expect "" '9.0\n8.0\n9.0\n10.0\n' "$gpus=80,90,100 "
expect "" '6.1\n9.0\n' ""
expect "" '[N/A]\n' ""
expect "avx2 fma" '9.0\n' "$sets=narrowest_and_avx2 $gpus=90 "
