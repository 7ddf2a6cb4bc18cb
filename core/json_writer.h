/* Writes JSON (RFC 8259) piece by piece to wherever its bytes go, without any memory but its own,
 * so that a report is never cut short for want of it, and without a look at the locale. Invariant:
 * what is written is well-formed if every open has its close; the first failure sticks, nothing is
 * written after it, and finishing reports it. */
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
  int indent;      /* spaces a level */
  int lines_depth; /* members down to this depth stand on lines of their own */
  int digits;      /* of reals */
  int depth;
  bool is_first; /* of its object or array */
  tdm_status status;
  size_t used;
  char buffer[1024];
} tdm_json_writer;

/* write as above, given user; a stream is written by tdm_json_write_stream with the FILE as user.
 */
void tdm_json_writer_init(tdm_json_writer *writer,
                          tdm_status (*write)(void *user, const char *bytes, size_t size),
                          void *user);
tdm_status tdm_json_write_stream(void *user, const char *bytes, size_t size) TDM_WARN_UNUSED;
/* Why writing to a stream has failed, in words, by errno; 0: a program's own stream set none. */
const char *tdm_write_reason(int error);
/* Hands on what is left. IO and others: what the first failing write said. */
tdm_status tdm_json_writer_finish(tdm_json_writer *writer) TDM_WARN_UNUSED;

/* Members: key is NULL for those of an array, and for the outermost value. */
void tdm_json_open(tdm_json_writer *writer, const char *key, char opening); /* '{' or '[' */
void tdm_json_close(tdm_json_writer *writer, char closing);                 /* '}' or ']' */
/* Bytes that are not UTF-8 become U+FFFD; NULL is null. */
void tdm_json_put_string(tdm_json_writer *writer, const char *key, const char *text);
/* One string of them all, one behind the other. */
void tdm_json_put_pieces(tdm_json_writer *writer, const char *key, const char *const *pieces,
                         size_t count);
void tdm_json_put_integer(tdm_json_writer *writer, const char *key, int64_t number);
/* What is not finite is null. */
void tdm_json_put_real(tdm_json_writer *writer, const char *key, double number);
void tdm_json_put_bool(tdm_json_writer *writer, const char *key, bool truth);

#ifdef __cplusplus
}
#endif
#endif
