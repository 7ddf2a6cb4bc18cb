/* See help.h. */
#include "bench/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_help(int argc, char **argv, const char *text) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") != 0) continue;
    fputs(text, stdout);
    exit(fflush(stdout) == 0 ? 0 : 1);
  }
}
