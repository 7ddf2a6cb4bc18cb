/* The file that keeps a machine's links, in a folder of the test's own: contexts that read it, and
 * what they log. */
#ifndef TANDEM_TESTS_DEVICES_LINKS_CACHE_SUPPORT_H
#define TANDEM_TESTS_DEVICES_LINKS_CACHE_SUPPORT_H

#include "devices/links/table.h"
#include "tests/devices/support.h"

enum { LINKS_TEXT_BYTES = 1 << 16, LINKS_PATH_BYTES = 512 };

/* What the newest context has logged. */
typedef struct links_log {
  int count;
  char last[TDM_MESSAGE_BYTES];
} links_log;

extern links_log record;

/* Makes the folder; false: it cannot be made. */
bool make_links_folder(void);
const char *links_folder(void);
/* In the folder; up to the next call. */
const char *path_of(const char *name);
void write_file(const char *path, const char *text, size_t bytes);
/* Ends text (LINKS_TEXT_BYTES) by a 0, and answers how many bytes are before it. */
size_t read_file(const char *path, char *text);
/* Of one cpu and one sim device. */
tdm_context *make_context(const char *sim);
/* Of one cpu device and what else TANDEM_DEVICES says. */
tdm_context *make_default_context(void);
/* From the first to the second. */
tdm_link_estimate upload_of(tdm_context *context);

#endif
