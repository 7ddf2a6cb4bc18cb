#!/bin/sh
# clang-tidy and clang-format over the tree, without changing it: tools/tidy.sh [FILE...].
# Without files, all that Bazel compiles. Exits with 1 if there is anything to say.
set -u
if [ "${1:-}" = --help ]; then
  sed -n '2,/^[^#]/{s/^# \{0,1\}//;/^set /d;p}' "$0"
  exit 0
fi
cd "$(dirname "$0")/.." || exit 1
tools/install_dependencies.sh --test || exit 1
# Assertions tell the analyzer what holds, tools/analyzer.h what returns.
tools/compile_commands.py --config=clang --copt=-UNDEBUG --copt=-include \
  --copt=tools/analyzer.h || exit 1

if [ $# -eq 0 ]; then
  # shellcheck disable=SC2046 # the paths of this tree hold no blanks
  set -- $(python3 -c 'import json
print(*sorted({entry["file"] for entry in json.load(open("compile_commands.json"))}))')
fi

status=0
clang-format-14 --dry-run --Werror "$@" || status=1
# One file a process: with several, clang-tidy 14 takes every va_list but the first file's for
# uninitialized.
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 1 clang-tidy-14 -p . --quiet || status=1
exit $status
