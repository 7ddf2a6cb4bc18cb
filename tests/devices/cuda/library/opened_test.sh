#!/bin/sh
# A driver where the system looks for one, and its GPUs to be seen, for the program and the tool.
set -eu
LD_LIBRARY_PATH=$(cd "$(dirname "$2")" && pwd) PLUGIN_FOLDER=$(cd "$(dirname "$3")" && pwd)
FOREIGN_FOLDER=$(cd "$(dirname "$4")" && pwd)
export LD_LIBRARY_PATH PLUGIN_FOLDER FOREIGN_FOLDER
told=$(TANDEM_CUDA_PATH=/nowhere "$5" doctor) || true
case $told in
  *"2 GPUs are not offered: no kernels: "*) ;;
  *) echo "tandem doctor does not tell of kernels that are missing: $told" && exit 1 ;;
esac
TANDEM_CUDA_PATH=$PLUGIN_FOLDER "$5" devices | grep -q '^cuda:1 ' ||
  { echo "tandem devices does not show the second GPU" && exit 1; }
# A command that is installed, in bin/, has its plug-ins in lib/, or where Debian has them.
for folder in lib/tandem lib/$(uname -m)-linux-gnu/tandem; do
  there=$TEST_TMPDIR/$folder/there
  mkdir -p "$there/bin" "$there/$folder"
  cp "$5" "$there/bin/tandem" && cp "$3" "$there/$folder/"
  "$there/bin/tandem" devices | grep -q '^cuda:1 ' ||
    { echo "tandem devices does not find the kernels in $folder" && exit 1; }
  "$there/bin/tandem" devices | grep -q '^libtandem_cuda *found' ||
    { echo "tandem devices does not tell of the kernels in $folder" && exit 1; }
done
exec "$1"
