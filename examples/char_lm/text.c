/* Reading a text and cutting it. Invariant: every byte of the text has an id. */
#include "examples/char_lm/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/options/command_line.h"

/* All verses of Debian's bible-kjv, each a line that begins with its place: "Ge1:1 In". */
#define VERSES "bible -f 'gen1:1-rev22:21'"

/* ---- Reading --------------------------------------------------------------------------------- */

static tdm_status read_stream(FILE *file, const char *name, text *out) {
  size_t capacity = 1 << 16;
  for (size_t got = 1; got > 0; out->byte_count += (int64_t)got) {
    const size_t size = (size_t)out->byte_count;
    if (!out->bytes || capacity - size < capacity / 2) {
      unsigned char *larger = realloc(out->bytes, capacity *= 2);
      if (!larger) return tdm_fail(TDM_OUT_OF_MEMORY, "%s: %zu bytes", name, capacity);
      out->bytes = larger;
    }
    got = fread(out->bytes + size, 1, capacity - size, file);
  }
  return ferror(file) ? tdm_fail(TDM_IO, "%s: %s", name, strerror(errno)) : TDM_OK;
}

/* Removes each line's first word. */
static void drop_references(text *verses) {
  bool within = true;
  int64_t kept = 0;
  for (int64_t i = 0; i < verses->byte_count; i++) {
    const unsigned char byte = verses->bytes[i];
    if (!within || byte == '\n') verses->bytes[kept++] = byte;
    if (byte == '\n')
      within = true;
    else if (byte == ' ')
      within = false;
  }
  verses->byte_count = kept;
}

static tdm_status read_verses(text *out) {
  FILE *pipe = popen(VERSES, "r"); /* NOLINT(cert-env33-c): a fixed command */
  if (!pipe) return tdm_fail(TDM_IO, "%s: %s", VERSES, strerror(errno));
  const tdm_status status = read_stream(pipe, VERSES, out);
  const bool ended_well = pclose(pipe) == 0;
  if (status == TDM_OK && (!ended_well || out->byte_count == 0))
    return tdm_fail(TDM_UNAVAILABLE,
                    "%s prints no text; Debian's packages bible-kjv and "
                    "bible-kjv-text bring it, or --text names a file",
                    VERSES);
  if (status == TDM_OK) drop_references(out);
  return status;
}

static tdm_status read_file(const char *path, text *out) {
  FILE *file = fopen(path, "rb");
  if (!file) return tdm_fail(TDM_UNAVAILABLE, "--text %s: %s", path, strerror(errno));
  const tdm_status status = read_stream(file, path, out);
  (void)fclose(file);
  return status;
}

/* Returns the number of bytes of the code point that begins at `at`; 0 if it is not UTF-8
 * (RFC 3629). */
static int64_t point_bytes(const unsigned char *at, int64_t left) {
  const unsigned lead = at[0];
  if (lead < 0x80) return 1;
  const int64_t count = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || count > left) return 0;
  /* smallest legal second byte */
  unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (int64_t i = 1; i < count; i++) {
    if (at[i] < least || at[i] > most) return 0;
    least = 0x80;
    most = 0xBF;
  }
  return count;
}

static tdm_status check_utf8(const char *name, const text *checked) {
  for (int64_t at = 0; at < checked->byte_count;) {
    const int64_t count = point_bytes(checked->bytes + at, checked->byte_count - at);
    if (count == 0)
      return tdm_fail(TDM_INVALID_ARGUMENT, "--text %s: byte %lld (0x%02X) is not UTF-8", name,
                      (long long)at, checked->bytes[at]);
    at += count;
  }
  return TDM_OK;
}

static void number_characters(text *numbered) {
  for (int i = 0; i < 256; i++)
    numbered->ids[i] = -1;
  for (int64_t i = 0; i < numbered->byte_count; i++)
    numbered->ids[numbered->bytes[i]] = 0;
  for (int i = 0; i < 256; i++) {
    if (numbered->ids[i] < 0) continue;
    numbered->ids[i] = (int16_t)numbered->character_count;
    numbered->characters[numbered->character_count++] = (unsigned char)i;
  }
}

tdm_status text_read(const char *path, text *out_text) {
  *out_text = (text){.bytes = NULL};
  tdm_status status = path ? read_file(path, out_text) : read_verses(out_text);
  if (status == TDM_OK && path) status = check_utf8(path, out_text);
  if (status == TDM_OK)
    number_characters(out_text);
  else
    text_release(out_text);
  return status;
}

void text_release(text *released) {
  free(released->bytes);
  *released = (text){.bytes = NULL};
}

tdm_tensor *text_characters(const text *asked, tdm_context *context) {
  int64_t bytes[256];
  for (int64_t i = 0; i < asked->character_count; i++)
    bytes[i] = asked->characters[i];
  return tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, asked->character_count), bytes);
}

/* ---- Windows --------------------------------------------------------------------------------- */

typedef struct windows {
  const text *from;
  int64_t begin;
  int64_t rows;
  int64_t length;
  int64_t row_windows; /* windows per row of each stream */
} windows;

static tdm_status copy_window(void *user, int64_t index, void *const *out_fields) {
  const windows *cut = user;
  const int64_t stream = index % cut->rows;
  const int64_t window = index / cut->rows;
  const unsigned char *bytes =
      cut->from->bytes + cut->begin + (stream * cut->row_windows + window) * cut->length;
  int64_t *characters = out_fields[CHARACTERS]; /* (length) */
  int64_t *targets = out_fields[TARGETS];       /* (length) */
  for (int64_t i = 0; i < cut->length; i++) {
    characters[i] = cut->from->ids[bytes[i]];
    targets[i] = cut->from->ids[bytes[i + 1]];
  }
  return TDM_OK;
}

tdm_dataset *text_windows(tdm_context *context, const text *from, int64_t begin, int64_t end,
                          int64_t rows, int64_t length) {
  const int64_t row_windows = (end - begin - 1) / (rows * length);
  if (row_windows < 1) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT,
                   "%lld characters are too few for %lld rows of windows of %lld",
                   (long long)(end - begin), (long long)rows, (long long)length);
    return NULL;
  }
  windows *cut = malloc(sizeof *cut);
  if (!cut) {
    (void)tdm_fail(TDM_OUT_OF_MEMORY, "windows of a text");
    return NULL;
  }
  *cut = (windows){from, begin, rows, length, row_windows};
  const tdm_field fields[TEXT_FIELDS] = {
      [CHARACTERS] = {"characters", TDM_INT64, tdm_shape_of(1, length)},
      [TARGETS] = {"targets", TDM_INT64, tdm_shape_of(1, length)},
  };
  const tdm_dataset_source source = {
      .struct_size = sizeof source,
      .user = cut,
      .length = rows * row_windows,
      .fields = fields,
      .field_count = TEXT_FIELDS,
      .item = copy_window,
      .destroy = free,
  };
  tdm_dataset *dataset = tdm_dataset_create(context, &source);
  if (!dataset) free(cut);
  return dataset;
}

/* ---- What is learnt, and what is held out ------------------------------------------------------
 */

static const double HELD_OUT_SHARE = 0.05; /* the end of the text */

/* Reports that a part of the text has too few characters, with the text and the necessary number.
 */
static tdm_status fail_short(const text *from, int64_t rows, int64_t length,
                             const char *length_option, bool training) {
  return tdm_fail(
      TDM_INVALID_ARGUMENT,
      "a text of %lld characters is too short: %s, and --batch %lld windows of %s %lld take %lld "
      "of them; take a longer text, or smaller numbers",
      (long long)from->byte_count,
      training ? "all but the last twentieth are learnt from" : "the last twentieth is held out",
      (long long)rows, length_option, (long long)length, (long long)(rows * length + 1));
}

tdm_status text_open_parts(tdm_context *context, const text *from, int64_t rows, int64_t length,
                           const char *length_option, text_parts *out_parts) {
  const int64_t held_out = (int64_t)((double)from->byte_count * (1 - HELD_OUT_SHARE));
  tdm_loader_options wanted = tdm_loader_options_default();
  wanted.batch_size = rows;
  wanted.prefetch = 4;
  *out_parts = (text_parts){{NULL}, {NULL}};
  for (int training = 0; training < 2; training++) {
    out_parts->sets[training] = text_windows(context, from, training ? 0 : held_out,
                                             training ? held_out : from->byte_count, rows, length);
    if (!out_parts->sets[training]) return fail_short(from, rows, length, length_option, training);
    out_parts->loaders[training] = tdm_loader_create(out_parts->sets[training], &wanted);
    if (!out_parts->loaders[training]) return check_made(NULL);
  }
  return TDM_OK;
}

void text_parts_release(text_parts *released) {
  for (int i = 0; i < 2; i++) {
    tdm_loader_release(released->loaders[i]);
    tdm_dataset_release(released->sets[i]);
  }
}

/* ---- Writing --------------------------------------------------------------------------------- */

tdm_status text_check_prompt(const text *of, const char *prompt) {
  if (!*prompt)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "--prompt: the text is empty, expected at least one character");
  for (const char *at = prompt; *at; at++)
    if (of->ids[(unsigned char)*at] < 0)
      return tdm_fail(TDM_INVALID_ARGUMENT, "--prompt %s: the text has no character %d", prompt,
                      (unsigned char)*at);
  return TDM_OK;
}

int64_t text_draw(const float *scores, int64_t count, double temperature, double uniform) {
  double most = scores[0];
  double sum = 0;
  for (int64_t i = 1; i < count; i++)
    most = fmax(most, (double)scores[i]);
  for (int64_t i = 0; i < count; i++)
    sum += exp(((double)scores[i] - most) / temperature);
  double left = uniform * sum;
  for (int64_t i = 0; i < count; i++) {
    left -= exp(((double)scores[i] - most) / temperature);
    if (left < 0) return i;
  }
  return count - 1;
}
