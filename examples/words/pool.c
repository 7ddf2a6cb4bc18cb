/* See examples/words/pool.h. */
#include "examples/words/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/words/text.h"

static tdm_status fail_memory(void) {
  return tdm_fail(TDM_OUT_OF_MEMORY, "words: out of memory");
}

tdm_status words_reserve(void **items, size_t *capacity, size_t needed, size_t item_bytes) {
  if (needed <= *capacity) return TDM_OK;
  const size_t grown = 2 * needed + 64;
  void *memory = realloc(*items, grown * item_bytes);
  if (!memory) return fail_memory();
  *items = memory;
  *capacity = grown;
  return TDM_OK;
}

void word_pool_release(word_pool *pool) {
  for (size_t i = 0; i < pool->text_count; i++)
    free(pool->texts[i]);
  free(pool->words);
  free(pool->slots);
  *pool = (word_pool){.count = 0};
}

/* ---- The set of words ------------------------------------------------------------------------ */

/* FNV-1a. */
static uint64_t hash_of(const char *text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *text; text++)
    hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
  return hash;
}

/* Returns the slot of a word, or the free one where it belongs. */
static uint32_t *find_slot(const word_pool *pool, uint64_t hash, const char *text) {
  const size_t mask = pool->slot_count - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const uint32_t index = pool->slots[i];
    if (index == 0) return &pool->slots[i];
    const pool_word *known = &pool->words[index - 1];
    if (known->hash == hash && strcmp(known->text, text) == 0) return &pool->slots[i];
  }
}

/* Makes room for one more word; at least half of the slots stay free. */
static tdm_status reserve_word(word_pool *pool) {
  if (pool->count == INT32_MAX)
    return tdm_fail(TDM_UNSUPPORTED, "words: more than %d words", INT32_MAX);
  if ((pool->count + 1) * 2 > pool->slot_count) {
    const size_t grown = pool->slot_count ? 4 * pool->slot_count : 4096;
    uint32_t *slots = calloc(grown, sizeof *slots);
    if (!slots) return fail_memory();
    free(pool->slots);
    pool->slots = slots;
    pool->slot_count = grown;
    for (size_t i = 0; i < pool->count; i++)
      *find_slot(pool, pool->words[i].hash, pool->words[i].text) = (uint32_t)i + 1;
  }
  return words_reserve((void **)&pool->words, &pool->capacity, pool->count + 1,
                       sizeof *pool->words);
}

static tdm_status add_word(word_pool *pool, const char *text, int32_t length, int32_t list) {
  const tdm_status status = reserve_word(pool);
  if (status != TDM_OK) return status;
  const uint64_t hash = hash_of(text);
  uint32_t *slot = find_slot(pool, hash, text);
  if (*slot != 0) {
    pool_word *known = &pool->words[*slot - 1];
    if (known->list != list) known->list = -1;
    return TDM_OK;
  }
  pool->words[pool->count++] = (pool_word){text, hash, length, list};
  *slot = (uint32_t)pool->count;
  return TDM_OK;
}

/* ---- One list -------------------------------------------------------------------------------- */

typedef struct list_text {
  const char *bytes;
  size_t size;
  encoding encoded;
} list_text;

static bool is_blank(uint32_t point) {
  return point == ' ' || point == '\t' || point == '\r' || point == '\n';
}

/* Returns the number of characters of a line, or 0 if it is no word to keep. */
static int32_t measure_line(const list_text *line, int64_t max_length) {
  int32_t length = 0;
  bool has_letter = false;
  for (size_t at = 0; at < line->size; length++) {
    uint32_t point = 0;
    at += text_decode(line->encoded, line->bytes + at, line->size - at, &point);
    const bool is_letter = point_is_letter(point);
    if (!is_letter && point != '\'' && point != '-') return 0;
    has_letter = has_letter || is_letter;
  }
  return has_letter && length >= LEAST_CHARACTERS && length <= max_length ? length : 0;
}

/* Adds the word of a line, if it is one; its folded text is written to *place, which moves on. */
static tdm_status take_line(word_pool *pool, list_text line, int32_t list, char **place) {
  while (line.size > 0 && is_blank((unsigned char)line.bytes[line.size - 1]))
    line.size--;
  for (; line.size > 0 && is_blank((unsigned char)line.bytes[0]); line.size--)
    line.bytes++;
  const int32_t length = measure_line(&line, pool->max_length);
  if (length == 0) return TDM_OK;
  const char *text = *place;
  for (size_t at = 0; at < line.size;) {
    uint32_t point = 0;
    at += text_decode(line.encoded, line.bytes + at, line.size - at, &point);
    *place += utf8_encode(point_fold(point), *place);
  }
  *(*place)++ = '\0';
  return add_word(pool, text, length, list);
}

/* Reports what is no text, or not mostly letters. Finds the encoding. */
static tdm_status check_text(list_text *text, const char *what, const char *path) {
  const char *zero = text->size ? memchr(text->bytes, '\0', text->size) : NULL;
  if (zero)
    return tdm_fail(TDM_CORRUPT_DATA, "%s: %s is not text: byte %zu is zero", what, path,
                    (size_t)(zero - text->bytes));
  int64_t line = 0;
  text->encoded = text_encoding(text->bytes, text->size, &line);
  if (text->encoded == ENCODING_NONE)
    return tdm_fail(TDM_CORRUPT_DATA, "%s: %s is neither UTF-8 (see line %lld) nor ISO-8859-1",
                    what, path, (long long)line);
  int64_t letters = 0;
  int64_t others = 0;
  for (size_t at = 0; at < text->size;) {
    uint32_t point = 0;
    at += text_decode(text->encoded, text->bytes + at, text->size - at, &point);
    const bool is_letter = point_is_letter(point);
    letters += is_letter;
    others += !is_letter && !is_blank(point);
  }
  if (letters == 0 && others == 0) return tdm_fail(TDM_CORRUPT_DATA, "%s: %s is empty", what, path);
  if (letters > others) return TDM_OK;
  return tdm_fail(TDM_CORRUPT_DATA,
                  "%s: %s is no list of words: %lld letters and %lld other characters", what, path,
                  (long long)letters, (long long)others);
}

static tdm_status fail_file(const char *what, const char *path) {
  return tdm_fail(errno == ENOENT ? TDM_UNAVAILABLE : TDM_IO, "%s: %s: %s", what, path,
                  strerror(errno));
}

/* Reads a whole file. The caller frees *out_bytes, on failure too. */
static tdm_status read_file(const char *what, const char *path, char **out_bytes,
                            size_t *out_size) {
  size_t capacity = 0;
  *out_bytes = NULL;
  *out_size = 0;
  FILE *file = fopen(path, "rb");
  if (!file) return fail_file(what, path);
  tdm_status status = TDM_OK;
  for (size_t got = 1; status == TDM_OK && got > 0; *out_size += got) {
    status = words_reserve((void **)out_bytes, &capacity, *out_size + 65536, 1);
    got = status == TDM_OK ? fread(*out_bytes + *out_size, 1, capacity - *out_size, file) : 0;
  }
  if (status == TDM_OK && ferror(file)) status = fail_file(what, path);
  (void)fclose(file);
  return status;
}

static tdm_status take_text(word_pool *pool, const list_text *text, int32_t list) {
  char *place = malloc(2 * text->size + 2); /* ISO-8859-1 to UTF-8: up to two bytes for one */
  if (!place) return fail_memory();
  pool->texts[pool->text_count++] = place;
  tdm_status status = TDM_OK;
  for (size_t begin = 0; begin < text->size && status == TDM_OK;) {
    const char *newline = memchr(text->bytes + begin, '\n', text->size - begin);
    const size_t end = newline ? (size_t)(newline - text->bytes) : text->size;
    const list_text line = {text->bytes + begin, end - begin, text->encoded};
    status = take_line(pool, line, list, &place);
    begin = end + 1;
  }
  return status;
}

tdm_status word_pool_read(word_pool *pool, const word_list *list, int32_t number) {
  char what[96];
  (void)snprintf(what, sizeof what, "word list %.80s", list->name);
  char *bytes;
  size_t size;
  tdm_status status = read_file(what, list->path, &bytes, &size);
  list_text text = {.bytes = bytes, .size = size};
  if (size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) { /* a byte order mark */
    text.bytes += 3;
    text.size -= 3;
  }
  if (status == TDM_OK) status = check_text(&text, what, list->path);
  if (status == TDM_OK) status = take_text(pool, &text, number);
  free(bytes);
  return status;
}
