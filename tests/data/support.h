/* Shared by the tests of data/: temporary files, a context, small datasets. Invariant: every path
 * lies in the folder that the test runner gives this test. */
#ifndef TANDEM_TESTS_DATA_SUPPORT_H
#define TANDEM_TESTS_DATA_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tandem/data/data.h"
#include "tests/support/faulty_allocator.h"

#define PATH_BYTES 512

/* Returns a path in the temporary folder; path has PATH_BYTES. */
const char *temporary_path(char *path, const char *name);
/* Writes a file there and returns its path. */
const char *write_file(char *path, const char *name, const void *bytes, size_t size);
const char *write_text(char *path, const char *name, const char *text);
/* Returns the contents of a file with a terminating zero, or NULL; free() it. */
char *read_file(const char *path, size_t *out_size);
/* Returns the number of entries of the temporary folder that begin with prefix. */
int count_files(const char *prefix);

/* Creates a context over the allocator (NULL: the default), with one cpu and one sim device. */
tdm_context *make_context(const tdm_allocator *allocator);
/* cmocka's setup and teardown: *state is a context on a faulty allocator that is not armed; the
 * teardown fails where anything is still outstanding. */
typedef struct fixture {
  tdm_faulty_allocator *faulty;
  tdm_context *context;
} data_fixture;
int set_up(void **state);
int tear_down(void **state);

/* Creates a dataset of length items, each one int64 "value" () equal to its index. */
tdm_dataset *make_counting_dataset(tdm_context *context, int64_t length);

#define assert_message(part)                                                                       \
  do {                                                                                             \
    if (!strstr(tdm_last_message(), part))                                                         \
      fail_msg("\"%s\" is not in the message \"%s\"", part, tdm_last_message());                   \
  } while (0)

#endif
