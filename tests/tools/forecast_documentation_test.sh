#!/bin/bash
# Runs the forecasts of clusters in docs/forecast.md unchanged, in a folder where bazel-bin has the
# binaries of the test. The output of each equals the one in the document.
set -u
document=$1
work=${TEST_TMPDIR:-/tmp}/forecast_documentation
mkdir -p "$work"
ln -sfn "$PWD" "$work/bazel-bin"
ln -sfn "$PWD/tools" "$work/tools"
mapfile -t commands < <(grep '^bazel-bin/tools/tandem forecast ' "$document")
mapfile -t shown < <(awk '/^```text$/ { on = 1; next } /^```/ { on = 0 } on' "$document")
cd "$work" || exit 1
: > printed
for command in "${commands[@]}"; do
  echo "\$ $command"
  if ! eval "timeout -k 5 240 $command" > output 2>&1; then
    cat output
    exit 1
  fi
  cat output >> printed
done
for line in "${shown[@]}"; do
  grep -qxF -- "$line" printed && continue
  echo "the document shows what is not printed: $line"
  cat printed
  exit 1
done
[ ${#commands[@]} -ge 4 ] && [ ${#shown[@]} -ge 20 ] || { echo "too little was found"; exit 1; }
echo "${#commands[@]} commands passed, ${#shown[@]} lines are those of the document"
