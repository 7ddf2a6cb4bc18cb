/* The tandem command: one subcommand a tool. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tandem/tandem.h"
#include "tools/devices/devices.h"
#include "tools/doctor/doctor.h"
#include "tools/forecast/forecast.h"
#include "tools/inspect/inspect.h"
#include "tools/launch/launch.h"

/* `bazel run` starts a program in a folder of its own: back to the user's, so that relative paths
 * mean what they say. False: it cannot be entered. */
static bool enter_working_folder(void) {
  const char *folder = getenv("BUILD_WORKING_DIRECTORY");
  if (!folder || chdir(folder) == 0) return true;
  fprintf(stderr, "tandem: cannot enter %s: %s\n", folder, strerror(errno));
  return false;
}

typedef struct command {
  const char *name;
  int (*run)(int argc, char **argv); /* arguments behind the name -> exit status */
  const char *about;
} command;

static const command commands[] = {
    {"devices", devices_command, "what there is to compute with, and what copies cost"},
    {"doctor", doctor_command, "what would go wrong, or slowly, on this machine"},
    {"forecast", forecast_command,
     "what a training step would take on a machine that is described"},
    {"inspect", inspect_command, "the tensors of a safetensors file"},
    {"launch", launch_command,
     "starts a program as a job of several ranks, by the MPI that is there"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *out) {
  fprintf(out, "tandem COMMAND ...\n\n");
  for (int i = 0; i < COMMANDS; i++)
    fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].about);
  fprintf(out, "\ntandem COMMAND --help tells more, tandem --version which one this is.\n");
}

int main(int argc, char **argv) {
  const char *wanted = argc > 1 ? argv[1] : "";
  if (!enter_working_folder()) return 1;
  for (int i = 0; i < COMMANDS; i++)
    if (strcmp(wanted, commands[i].name) == 0) return commands[i].run(argc - 2, argv + 2);
  if (strcmp(wanted, "--help") == 0) {
    print_help(stdout);
    return 0;
  }
  if (strcmp(wanted, "--version") == 0) {
    printf("tandem %s\n", tdm_version());
    return 0;
  }
  if (*wanted) fprintf(stderr, "tandem: there is no command %s\n\n", wanted);
  print_help(stderr);
  return 2;
}
