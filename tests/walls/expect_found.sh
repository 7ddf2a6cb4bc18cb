#!/bin/sh
# The control for expect_empty.sh: passes when the very same kind of query does find something.
if [ ! -s "$1" ]; then
  echo "The query found nothing, so the walls made of such queries would prove nothing."
  exit 1
fi
