#!/bin/sh
# Prints the flag that lets Bazel keep its sandboxes in memory, where there is enough. They are
# trees of links, one for each action, and making them on a disk takes as long as compiling.
free_kib=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)
if [ "${free_kib:-0}" -ge 2097152 ] && [ -w /dev/shm ]; then
  echo --sandbox_base=/dev/shm
fi
