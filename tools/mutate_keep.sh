#!/bin/bash
# Stands in the place of a test and keeps what it would be run by, for tools/mutate: the folder, the
# words and the environment, in $TANDEM_MUTATE_TESTS/LABEL.
{
  printf '%s\0%s\0' "$PWD" "$#"
  printf '%s\0' "$@"
  env -0
} > "$TANDEM_MUTATE_TESTS/$(echo "${TEST_TARGET#//}" | tr '/:' '..')"
