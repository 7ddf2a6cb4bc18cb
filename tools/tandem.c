/* The tandem command: one subcommand a tool. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/forecast/forecast.h"
#include "tools/launch/launch.h"

/* `bazel run` starts a program in a folder of its own: back to the user's, so that relative paths
 * mean what they say. False: it cannot be entered. */
static bool enter_working_folder(void) {
  const char *folder = getenv("BUILD_WORKING_DIRECTORY");
  if (!folder || chdir(folder) == 0) return true;
  fprintf(stderr, "tandem: cannot enter %s: %s\n", folder, strerror(errno));
  return false;
}

int main(int argc, char **argv) {
  if (!enter_working_folder()) return 1;
  if (argc > 1 && strcmp(argv[1], "forecast") == 0) return forecast_command(argc - 2, argv + 2);
  if (argc > 1 && strcmp(argv[1], "launch") == 0) return launch_command(argc - 2, argv + 2);
  FILE *out = argc > 1 && strcmp(argv[1], "--help") == 0 ? stdout : stderr;
  fprintf(out, "tandem COMMAND ...\n\n"
               "  forecast   what a training step would take on a machine that is described\n"
               "  launch     starts a program as a job of several ranks, with the MPI that is "
               "there\n\n"
               "tandem COMMAND --help tells more.\n");
  return out == stdout ? 0 : 2;
}
