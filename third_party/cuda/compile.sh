#!/bin/bash
# Compiles one source by nvcc, and tells Bazel which headers it was given that were not read, so
# that no change of these compiles it again.
#
#   compile.sh FOLDER GIVEN UNUSED COMMAND...
#
# GIVEN lists the headers, one a line; UNUSED is written likewise.
#
# FOLDER, beside the output, is this action's alone: processes of two sandboxes have the same
# numbers, after which nvcc names what it puts into /tmp. Bazel sets a TMPDIR of its own.
set -eu
export TMPDIR="$PWD/$1"
given=$2 unused=$3
shift 3
"$@" -MD -MF "$unused.read"
# One a line, as Bazel names them.
tr -s ' \\\n' '\n' <"$unused.read" | sed 's#^\./##' | sort -u >"$unused.lines"
grep -vxFf "$unused.lines" "$given" >"$unused" || true
