/* Writes pages. Invariant: the content between the two halves of the template contains no "<"
 * except in its own tags, so that no name of a layer can end a script. */
#define _GNU_SOURCE /* open_memstream */
#include "graph/report/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"

/* The lines of page.html. */
static const char *const lines[] = {
#include "graph/report/page_lines.inc"
};
enum { LINES = sizeof lines / sizeof *lines };
static const char data_line[] = "<!-- data -->\n";

static int find_data(void) {
  int at = 0;
  while (at < LINES && strcmp(lines[at], data_line) != 0)
    at++;
  return at;
}

void tdm_page_begin(FILE *out) {
  for (int i = 0; i < find_data(); i++)
    fputs(lines[i], out);
}

void tdm_page_end(FILE *out) {
  for (int i = find_data() + 1; i < LINES; i++)
    fputs(lines[i], out);
}

void tdm_page_put(FILE *out, const char *part, const char *json, size_t bytes) {
  fprintf(out, "<script type=\"application/json\" id=\"data-%s\">", part);
  for (size_t i = 0; i < bytes; i++) {
    if (json[i] == '<')
      fputs("\\u003c", out); /* occurs only in strings */
    else
      fputc(json[i], out);
  }
  fputs("</script>\n", out);
}

static tdm_status write_string(const void *user, FILE *stream) {
  tdm_json_writer json;
  tdm_json_writer_init(&json, tdm_json_write_stream, stream);
  tdm_json_put_string(&json, NULL, user);
  return tdm_json_writer_finish(&json);
}

tdm_status tdm_page_put_text(FILE *out, const char *part, const char *text) {
  return tdm_page_print(out, part, false, write_string, text);
}

tdm_status tdm_page_print(FILE *out, const char *part, bool is_text,
                          tdm_status (*print)(const void *user, FILE *stream), const void *user) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *stream = open_memstream(&text, &bytes);
  if (!stream) return tdm_fail(TDM_OUT_OF_MEMORY, "a page: %s", strerror(errno));
  tdm_status status = print(user, stream);
  if (fclose(stream) != 0 && status == TDM_OK)
    status = tdm_fail(TDM_OUT_OF_MEMORY, "a page: %s", strerror(errno));
  if (status == TDM_OK && is_text)
    status = tdm_page_put_text(out, part, text);
  else if (status == TDM_OK)
    tdm_page_put(out, part, text, bytes);
  free(text);
  return status;
}
