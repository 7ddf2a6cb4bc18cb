/* See tool.h. */
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/options/command_line.h"

static const option rows[] = {
    {"--help", NULL, "print this help", OPTION_HELP, offsetof(tool_options, help), 0, 0, 0, NULL},
};
const option_table tool_table = {OPTION_ROWS(rows)};

bool tool_begins(const tool *self, const char *word) {
  const size_t length = strcspn(self->name, " ");
  return strlen(word) == length && strncmp(self->name, word, length) == 0;
}

const char *tool_second_word(const tool *self) {
  const char *space = strchr(self->name, ' ');
  return space ? space + 1 : NULL;
}

int tool_ended(const tool *self, tdm_status status) {
  if (status == TDM_OK) status = command_line_written();
  if (status != TDM_OK) fprintf(stderr, "tandem %s: %s\n", self->name, tdm_last_message());
  return status == TDM_OK ? 0 : 1;
}

void tool_log(void *user, tdm_log_level level, const char *message) {
  const tool *self = user;
  if (level != TDM_LOG_INFO) fprintf(stderr, "tandem %s: %s\n", self->name, message);
}

void tool_json_begin(tdm_json_writer *out) {
  tdm_json_writer_init(out, tdm_json_write_stream, stdout);
  out->indent = 2;
  out->lines_depth = 2;
  tdm_json_open(out, NULL, '{');
  tdm_json_put_string(out, "version", tdm_version());
}

tdm_status tool_json_end(tdm_json_writer *out) {
  tdm_json_close(out, '}');
  TDM_TRY(tdm_json_writer_finish(out));
  return tdm_json_write_stream(stdout, "\n", 1);
}

bool tool_colours(void) {
  const char *refused = getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && !(refused && *refused);
}
