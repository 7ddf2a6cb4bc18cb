/* See cache_support.h. */
#include "tests/devices/links/cache_support.h"
#include "tests/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[LINKS_PATH_BYTES - 128];

bool make_links_folder(void) {
  const char *temporary = getenv("TEST_TMPDIR");
  (void)snprintf(folder, sizeof folder, "%s/links.XXXXXX", temporary ? temporary : "/tmp");
  return mkdtemp(folder) != NULL;
}

const char *links_folder(void) {
  return folder;
}

static void record_log(void *user, tdm_log_level level, const char *text) {
  links_log *log = user;
  assert_int_equal(level, TDM_LOG_WARNING);
  log->count++;
  (void)snprintf(log->last, sizeof log->last, "%s", text);
}

links_log record;

static tdm_context *make(tdm_context_options options) {
  record = (links_log){0};
  options.log = record_log;
  options.log_user = &record;
  options.cpu_devices = 1;
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

tdm_context *make_context(const char *sim) {
  return make(OPTIONS(tdm_context_options, o.sim_devices = 1, o.sim = sim));
}

tdm_context *make_default_context(void) {
  return make(tdm_context_options_default());
}

const char *path_of(const char *name) {
  static char path[LINKS_PATH_BYTES];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

void write_file(const char *path, const char *text, size_t bytes) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

size_t read_file(const char *path, char *text) {
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s is not there", path);
  const size_t bytes = fread(text, 1, LINKS_TEXT_BYTES - 1, file);
  (void)fclose(file);
  text[bytes] = '\0';
  return bytes;
}

tdm_link_estimate upload_of(tdm_context *context) {
  tdm_link_estimate estimate;
  tdm_context_link(context, test_device(context, "cpu:0"), test_device(context, "sim:0"), true,
                   &estimate);
  return estimate;
}
