/* The tandem command: one subcommand a tool. */
#include <stdio.h>
#include <string.h>

#include "tools/forecast/forecast.h"

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "forecast") == 0) return forecast_command(argc - 2, argv + 2);
  FILE *out = argc > 1 && strcmp(argv[1], "--help") == 0 ? stdout : stderr;
  fprintf(out, "tandem COMMAND ...\n\n"
               "  forecast   what a training step would take on a machine that is described\n\n"
               "tandem COMMAND --help tells more.\n");
  return out == stdout ? 0 : 2;
}
