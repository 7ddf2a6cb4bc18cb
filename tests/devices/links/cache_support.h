/* The file with a machine's links, in the test's own folder: contexts that read it, and their
 * logs. */
#ifndef TANDEM_TESTS_DEVICES_LINKS_CACHE_SUPPORT_H
#define TANDEM_TESTS_DEVICES_LINKS_CACHE_SUPPORT_H

#include "devices/links/table.h"
#include "tests/devices/support.h"

enum { LINKS_TEXT_BYTES = 1 << 16, LINKS_PATH_BYTES = 512 };

/* The log of the latest context. */
typedef struct links_log {
  int count;
  char last[TDM_MESSAGE_BYTES];
} links_log;

extern links_log record;

/* Makes the folder; false: it cannot be made. */
bool make_links_folder(void);
const char *links_folder(void);
/* Returns the path of a file in the test's folder. Valid until the next call. */
const char *path_of(const char *name);
void write_file(const char *path, const char *text, size_t bytes);
/* Terminates text (LINKS_TEXT_BYTES) by a 0; returns the number of bytes before it. */
size_t read_file(const char *path, char *text);
/* Creates a context of one cpu and one sim device. */
tdm_context *make_context(const char *sim);
/* Creates a context of one cpu device and the devices of TANDEM_DEVICES. */
tdm_context *make_default_context(void);
/* Returns the estimate of the link from cpu:0 to sim:0. */
tdm_link_estimate upload_of(tdm_context *context);

#endif
