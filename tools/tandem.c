/* The tandem command: one subcommand a tool. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/topology/topology.h"
#include "tandem/tandem.h"
#include "tools/bench/bench.h"
#include "tools/curves/curves.h"
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

/* Returns the exit status for status, after printing the message of a failure. */
static int code_of(tdm_status status) {
  if (status != TDM_OK) fprintf(stderr, "tandem: %s\n", tdm_last_message());
  return status == TDM_OK ? 0 : 1;
}

static const tool *const tools[] = {
    &bench_overhead_tool, &bench_transfer_tool, &curves_tool, &devices_tool, &doctor_tool,
    &forecast_tool,       &inspect_tool,        &launch_tool, &plan_tool,    &trace_tool,
};
enum { TOOLS = sizeof tools / sizeof *tools };

/* Prints the tools whose names begin with word, or all if it is NULL. Returns their number. */
static int print_tools(FILE *out, const char *word) {
  int found = 0;
  for (int i = 0; i < TOOLS; i++) {
    if (word && !tool_begins(tools[i], word)) continue;
    fprintf(out, "  %-16s %s\n", tools[i]->name, tools[i]->about);
    found++;
  }
  return found;
}

static void print_help(FILE *out) {
  fprintf(out, "Usage: tandem COMMAND [OPTIONS]\n\n"
               "Inspect and measure models and devices of the Tandem library.\n\nCommands:\n");
  (void)print_tools(out, NULL);
  fprintf(out, "\nOptions:\n"
               "  --help           Print this help\n"
               "  --version        Print the version\n"
               "  --manual         Print a page for man\n"
               "  --completion     Print a completion script for bash\n\n"
               "Run 'tandem COMMAND --help' for the options of a command.\n");
}

/* argv[0] is the last word of the tool's name. */
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

/* Handles an option of the command itself. Returns the exit status, or -1 for an unknown option. */
static int run_option(const char *wanted) {
  if (strcmp(wanted, "--help") == 0) {
    print_help(stdout);
  } else if (strcmp(wanted, "--version") == 0) {
    printf("tandem %s\n", tdm_version());
  } else if (strcmp(wanted, "--manual") == 0) {
    manual_print(tools, TOOLS, stdout);
  } else if (strcmp(wanted, "--completion") == 0) {
    completion_print(tools, TOOLS, stdout);
  } else {
    return -1;
  }
  return code_of(command_line_written());
}

/* Reports an unknown command, and lists the commands that the user may have meant. */
static int refuse(const char *first, const char *second) {
  bool is_group = false;
  for (int i = 0; i < TOOLS; i++)
    is_group |= tool_begins(tools[i], first);
  if (is_group && strcmp(second, "--help") == 0) {
    (void)print_tools(stdout, first);
    return code_of(command_line_written());
  }
  if (is_group) {
    if (*second) fprintf(stderr, "tandem: unknown command '%s %s'\n\n", first, second);
    (void)print_tools(stderr, first);
    return BAD_USAGE;
  }
  if (*first) fprintf(stderr, "tandem: unknown command '%s'\n\n", first);
  print_help(stderr);
  return BAD_USAGE;
}

int main(int argc, char **argv) {
  const char *first = argc > 1 ? argv[1] : "";
  const char *second = argc > 2 ? argv[2] : "";
  if (code_of(command_line_begin()) != 0) return 1;
  tdm_topology_leave_place(); /* before the doctor reads the affinity and ranks inherit it */
  for (int i = 0; i < TOOLS; i++) {
    if (!tool_begins(tools[i], first)) continue;
    const char *other = tool_second_word(tools[i]);
    const int words = other ? 2 : 1;
    if (!other || strcmp(second, other) == 0) return run(tools[i], argc - words, argv + words);
  }
  const int code = run_option(first);
  return code >= 0 ? code : refuse(first, second);
}
