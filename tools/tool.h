/* Shared by the subcommands of `tandem`: finding a command, its help, its options, its exit status,
 * JSON and colours. */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <stdbool.h>

#include "core/json_writer.h"
#include "tandem/tandem.h"
#include "tools/options/option_table.h"

/* Every tool's struct of options begins with these, and its table extends tool_table. */
typedef struct tool_options {
  bool help;
} tool_options;
extern const option_table tool_table;

typedef struct tool {
  const char *name;  /* one or two words: "devices", "bench transfer" */
  const char *about; /* one-line description */
  const option_table *table;
  int (*run)(const void *options); /* returns the exit status: 0; 1 failed; 2 misused */
} tool;

/* Returns true if the first word of the name is word. */
bool tool_begins(const tool *self, const char *word);
/* Returns the second word, or NULL if there is none. */
const char *tool_second_word(const tool *self);
/* Returns the exit status for a result, after the message of a failure and the rest of stdout were
 * written. */
int tool_ended(const tool *self, tdm_status status);
/* For tdm_context_options.log, with the tool as user: warnings and errors go to stderr. */
void tool_log(void *user, tdm_log_level level, const char *message);

/* Begins a JSON object on stdout with the version as its first member. */
void tool_json_begin(tdm_json_writer *out);
tdm_status tool_json_end(tdm_json_writer *out) TDM_WARN_UNUSED;

/* Returns true if stdout may be coloured: a terminal, unless NO_COLOR is set (no-color.org). */
bool tool_colours(void);

#endif
