#!/bin/sh
# Lets one test keep its counts in a folder of its own (tools/coverage --tests).
GCOV_PREFIX="$GCOV_PREFIX/$(echo "${TEST_TARGET#//}" | tr '/:' '..')"
export GCOV_PREFIX
exec "$@"
