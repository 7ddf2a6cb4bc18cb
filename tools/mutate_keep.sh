#!/bin/bash
# Runs one test and, if it passes, keeps what it is run by for tools/mutate: the folder, the words,
# the environment and the seconds that it took, in $TANDEM_MUTATE_TESTS/LABEL.
begun=$EPOCHREALTIME
"$@" || exit
ended=$EPOCHREALTIME
{
  printf '%s\0%s\0%s\0%s\0' "$begun" "$ended" "$PWD" "$#"
  printf '%s\0' "$@"
  env -0
} > "$TANDEM_MUTATE_TESTS/$(echo "${TEST_TARGET#//}" | tr '/:' '..')"
