/* The tandem command: one subcommand a tool. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tandem/tandem.h"
#include "tools/devices/devices.h"
#include "tools/doctor/doctor.h"
#include "tools/forecast/forecast.h"
#include "tools/inspect/inspect.h"
#include "tools/launch/launch.h"
#include "tools/manual/manual.h"
#include "tools/options/command_line.h"
#include "tools/options/option_table.h"
#include "tools/plan/plan.h"
#include "tools/trace/trace.h"

enum { BAD_USAGE = 2 };

/* Where `bazel run` was called. */
static bool enter_folder(void) {
  if (enter_working_folder() == TDM_OK) return true;
  fprintf(stderr, "tandem: %s\n", tdm_last_message());
  return false;
}

static const tool *const tools[] = {
    &devices_tool, &doctor_tool, &forecast_tool, &inspect_tool,
    &launch_tool,  &plan_tool,   &trace_tool,
};
enum { TOOLS = sizeof tools / sizeof *tools };

static void print_help(FILE *out) {
  fprintf(out, "tandem COMMAND ...\n\n");
  for (int i = 0; i < TOOLS; i++)
    fprintf(out, "  %-10s %s\n", tools[i]->name, tools[i]->about);
  fprintf(out, "\ntandem COMMAND --help tells more, tandem --version which one this is.\n"
               "tandem --manual prints a page for man, tandem --completion a script for bash.\n");
}

/* argv[0] is the tool's name. */
static int run(const tool *self, int argc, char **argv) {
  void *options = calloc(1, self->table->options_bytes);
  int code = BAD_USAGE;
  if (!options) {
    fprintf(stderr, "tandem %s: out of memory\n", self->name);
  } else if (option_table_read(self->table, argc, argv, options) != TDM_OK) {
    fprintf(stderr, "tandem %s: %s\n", self->name, tdm_last_message());
  } else if (((const tool_options *)options)->help) {
    option_table_print_help(self->table, stdout);
    code = tool_ended(self, TDM_OK);
  } else {
    code = self->run(options);
  }
  free(options);
  return code;
}

int main(int argc, char **argv) {
  const char *wanted = argc > 1 ? argv[1] : "";
  if (!enter_folder()) return 1;
  for (int i = 0; i < TOOLS; i++)
    if (strcmp(wanted, tools[i]->name) == 0) return run(tools[i], argc - 1, argv + 1);
  if (strcmp(wanted, "--help") == 0) {
    print_help(stdout);
    return 0;
  }
  if (strcmp(wanted, "--version") == 0) {
    printf("tandem %s\n", tdm_version());
    return 0;
  }
  if (strcmp(wanted, "--manual") == 0) {
    manual_print(tools, TOOLS, stdout);
    return 0;
  }
  if (strcmp(wanted, "--completion") == 0) {
    completion_print(tools, TOOLS, stdout);
    return 0;
  }
  if (*wanted) fprintf(stderr, "tandem: there is no command %s\n\n", wanted);
  print_help(stderr);
  return BAD_USAGE;
}
