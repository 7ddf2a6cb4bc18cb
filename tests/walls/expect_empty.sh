#!/bin/sh
# Passes if the file that is its argument exists and is empty. Otherwise it prints the contents.
if [ ! -f "$1" ]; then
  echo "no such file: $1"
  exit 1
fi
if [ -s "$1" ]; then
  echo "These targets are behind a wall and must not be reached:"
  cat "$1"
  exit 1
fi
