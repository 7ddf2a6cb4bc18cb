#!/bin/bash
# README's program prints the same as C11 and as C++17, is examples/first_model.c, and is short.
set -eu
c=$("$1")
cxx=$("$2")
[ "$(grep -c '^word ' <<<"$c")" = 3 ] || { echo "not three words: $c"; exit 1; }
[ "$c" = "$cxx" ] || { echo "as C11: $c; as C++17: $cxx"; exit 1; }
diff "$3" <(sed '1,/\*\/$/d' "$4") || { echo "README and examples/first_model.c differ"; exit 1; }
[ "$(wc -l <"$3")" -lt 40 ] || { echo "the program has 40 lines or more"; exit 1; }
