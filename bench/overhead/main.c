/* overhead: the cost of Tandem without the arithmetic. Arguments select "runs" or "planning"; none:
 * both. */
#include <stdio.h>
#include <string.h>

#include "bench/help.h"
#include "bench/overhead/rows.h"

static void begins(void *user, const char *what) {
  (void)user, (void)what;
}

static void print_row(void *user, const char *name, double ns) {
  (void)user;
  bench_print(name, ns);
}

int main(int argc, char **argv) {
  bench_help(
      argc, argv,
      "overhead_rows [runs] [planning]: what runs and planning cost beside the arithmetic.\n");
  const bool all = argc < 2;
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "runs") != 0 && strcmp(argv[i], "planning") != 0) {
      fprintf(stderr, "overhead: unknown argument %s (known: runs, planning)\n", argv[i]);
      return 2;
    }
  const overhead_listener to = {begins, print_row, NULL};
  if (all || strcmp(argv[1], "runs") == 0) bench_check(rows_of_runs(&to), "runs");
  if (all || strcmp(argv[argc - 1], "planning") == 0)
    bench_check(rows_of_planning(&to, OVERHEAD_LAYERS), "planning");
  return 0;
}
