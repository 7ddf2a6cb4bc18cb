/* Writes JSON. Invariant: buffer[0, used) holds the bytes that were not yet passed to `write`. */
#include "core/json_writer.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/number.h"
#include "core/utf8.h"

void tdm_json_writer_init(tdm_json_writer *writer,
                          tdm_status (*write)(void *user, const char *bytes, size_t size),
                          void *user) {
  memset(writer, 0, sizeof *writer);
  writer->write = write;
  writer->user = user;
  writer->indent = 2;
  writer->lines_depth = INT32_MAX;
  writer->digits = 9;
  writer->is_first = true;
}

tdm_status tdm_json_write_stream(void *user, const char *bytes, size_t size) {
  errno = 0;
  if (fwrite(bytes, 1, size, (FILE *)user) == size) return TDM_OK;
  return tdm_fail(TDM_IO, "cannot write: %s", tdm_write_reason(errno));
}

const char *tdm_write_reason(int error) {
  return error ? strerror(error) : "the stream gives no reason";
}

static void flush(tdm_json_writer *writer) {
  if (writer->status == TDM_OK && writer->used > 0)
    writer->status = writer->write(writer->user, writer->buffer, writer->used);
  writer->used = 0;
}

tdm_status tdm_json_writer_finish(tdm_json_writer *writer) {
  flush(writer);
  return writer->status;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static void put_byte(tdm_json_writer *writer, char byte) {
  if (writer->used == sizeof writer->buffer) flush(writer);
  writer->buffer[writer->used++] = byte;
}

static void put_text(tdm_json_writer *writer, const char *text) {
  for (; *text != '\0'; text++)
    put_byte(writer, *text);
}

static void put_escaped(tdm_json_writer *writer, const char *text) {
  size_t left = strlen(text);
  while (left > 0) {
    uint32_t point = 0;
    const size_t used = tdm_utf8_decode(text, left, &point);
    char escape[8] = "";
    if (used == 0) (void)snprintf(escape, sizeof escape, "\\ufffd");
    if (used == 1 && point < ' ') (void)snprintf(escape, sizeof escape, "\\u%04x", point);
    if (used == 1 && (point == '"' || point == '\\'))
      (void)snprintf(escape, sizeof escape, "\\%c", (char)point);
    put_text(writer, escape);
    for (size_t i = 0; i < used && escape[0] == '\0'; i++)
      put_byte(writer, text[i]);
    text += used > 0 ? used : 1;
    left -= used > 0 ? used : 1;
  }
}

static void put_quoted(tdm_json_writer *writer, const char *text) {
  put_byte(writer, '"');
  put_escaped(writer, text);
  put_byte(writer, '"');
}

static void put_line(tdm_json_writer *writer) {
  if (writer->depth > writer->lines_depth) return;
  put_byte(writer, '\n');
  for (int i = 0; i < writer->depth * writer->indent; i++)
    put_byte(writer, ' ');
}

/* Writes the separator, the indentation and the key that precede a value. */
static void put_key(tdm_json_writer *writer, const char *key) {
  if (!writer->is_first) put_byte(writer, ',');
  if (writer->depth > 0) put_line(writer);
  writer->is_first = false;
  if (!key) return;
  put_quoted(writer, key);
  put_text(writer, writer->depth > writer->lines_depth ? ":" : ": ");
}

/* ---- Values ---------------------------------------------------------------------------------- */

void tdm_json_open(tdm_json_writer *writer, const char *key, char opening) {
  put_key(writer, key);
  put_byte(writer, opening);
  writer->depth++;
  writer->is_first = true;
}

void tdm_json_close(tdm_json_writer *writer, char closing) {
  writer->depth--;
  if (!writer->is_first && writer->depth < writer->lines_depth) put_line(writer);
  put_byte(writer, closing);
  writer->is_first = false;
}

void tdm_json_put_string(tdm_json_writer *writer, const char *key, const char *text) {
  put_key(writer, key);
  if (!text) {
    put_text(writer, "null");
  } else {
    put_quoted(writer, text);
  }
}

void tdm_json_put_pieces(tdm_json_writer *writer, const char *key, const char *const *pieces,
                         size_t count) {
  put_key(writer, key);
  put_byte(writer, '"');
  for (size_t i = 0; i < count; i++)
    put_escaped(writer, pieces[i]);
  put_byte(writer, '"');
}

void tdm_json_put_integer(tdm_json_writer *writer, const char *key, int64_t number) {
  char text[TDM_NUMBER_TEXT];
  (void)snprintf(text, sizeof(text), "%lld", (long long)number);
  put_key(writer, key);
  put_text(writer, text);
}

void tdm_json_put_real(tdm_json_writer *writer, const char *key, double number) {
  char text[TDM_NUMBER_TEXT];
  put_key(writer, key);
  put_text(writer, isfinite(number) ? tdm_number_text(number, writer->digits, text) : "null");
}

void tdm_json_put_bool(tdm_json_writer *writer, const char *key, bool truth) {
  put_key(writer, key);
  put_text(writer, truth ? "true" : "false");
}
