#!/bin/sh
# tools/gpu_flags.sh beside an nvidia-smi that tells of several machines, and without one.
set -eu
script=$1
folder=${TEST_TMPDIR:-/tmp}/bin
mkdir -p "$folder"
expect() { # what nvidia-smi prints, what the script prints
  printf '#!/bin/sh\nprintf "%s"\n' "$1" >"$folder/nvidia-smi"
  chmod +x "$folder/nvidia-smi"
  told=$(PATH="$folder:/usr/bin:/bin" "$script")
  [ "$told" = "$2" ] || { echo "of '$1': '$told', not '$2'" && exit 1; }
}
expect '9.0\n' '--//third_party/cuda:gpus=90'
expect '9.0\n8.0\n9.0\n10.0\n' '--//third_party/cuda:gpus=80,90,100'
expect '6.1\n9.0\n' ''
expect '[N/A]\n' ''
expect '' ''
rm "$folder/nvidia-smi"
told=$(PATH="$folder:/usr/bin:/bin" "$script")
[ -z "$told" ] || { echo "without nvidia-smi: '$told'" && exit 1; }
