/* Writes JSON (RFC 8259) incrementally to any sink. It allocates no memory, so memory shortage
 * never truncates a report, and it does not depend on the locale. Invariant: the output is
 * well-formed if every open has its close. The first failure sticks: nothing is written after it,
 * and tdm_json_writer_finish returns it. */
#ifndef TANDEM_CORE_JSON_WRITER_H
#define TANDEM_CORE_JSON_WRITER_H

#include <stdio.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_json_writer {
  tdm_status (*write)(void *user, const char *bytes, size_t size);
  void *user;
  int indent;      /* spaces per level */
  int lines_depth; /* members down to this depth are written on separate lines */
  int digits;      /* significant digits of real numbers */
  int depth;
  bool is_first; /* true before the first member of the current object or array */
  tdm_status status;
  size_t used;
  char buffer[1024];
} tdm_json_writer;

/* Initializes a writer that calls `write`, as declared above, with `user`. To write to a stream,
 * pass tdm_json_write_stream with the FILE as user. */
void tdm_json_writer_init(tdm_json_writer *writer,
                          tdm_status (*write)(void *user, const char *bytes, size_t size),
                          void *user);
tdm_status tdm_json_write_stream(void *user, const char *bytes, size_t size) TDM_WARN_UNUSED;
/* Returns why writing to a stream failed, in words. error is the errno, or 0 if a program's own
 * stream did not set it. */
const char *tdm_write_reason(int error);
/* Passes the buffered rest to `write`. Fails with the status of the first failing write, such as
 * IO. */
tdm_status tdm_json_writer_finish(tdm_json_writer *writer) TDM_WARN_UNUSED;

/* Members: key is NULL for elements of an array and for the outermost value. */
void tdm_json_open(tdm_json_writer *writer, const char *key, char opening); /* '{' or '[' */
void tdm_json_close(tdm_json_writer *writer, char closing);                 /* '}' or ']' */
/* Bytes that are not UTF-8 become U+FFFD; NULL is written as null. */
void tdm_json_put_string(tdm_json_writer *writer, const char *key, const char *text);
/* Writes one string, the concatenation of the pieces. */
void tdm_json_put_pieces(tdm_json_writer *writer, const char *key, const char *const *pieces,
                         size_t count);
void tdm_json_put_integer(tdm_json_writer *writer, const char *key, int64_t number);
/* Writes null if the number is not finite. */
void tdm_json_put_real(tdm_json_writer *writer, const char *key, double number);
void tdm_json_put_bool(tdm_json_writer *writer, const char *key, bool truth);

#ifdef __cplusplus
}
#endif
#endif
