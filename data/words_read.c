/* Reads word lists into a pool. Invariant: the pool contains each folded word once, and records
 * whether it was in one list or in several. */
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "data/text.h"
#include "data/words.h"

#define LIST_LIMIT_BYTES ((size_t)1 << 30)
#define FIRST_SLOT_COUNT 4096

tdm_status tdm_word_pool_init(tdm_word_pool *pool, const tdm_allocator *allocator,
                              int64_t max_length) {
  *pool = (tdm_word_pool){.allocator = allocator, .max_length = max_length};
  TDM_TRY(tdm_siphash_key_draw(&pool->key));
  pool->seen = tdm_allocate(allocator, TDM_POINT_LIMIT / 8, "an alphabet");
  return pool->seen ? TDM_OK : TDM_OUT_OF_MEMORY;
}

void tdm_word_pool_deinit(tdm_word_pool *pool) {
  if (!pool->allocator) return;
  tdm_release(pool->allocator, pool->text, pool->text_capacity);
  tdm_release(pool->allocator, pool->words, pool->word_capacity * sizeof(*pool->words));
  tdm_release(pool->allocator, pool->slots, pool->slot_count * sizeof(*pool->slots));
  tdm_release(pool->allocator, pool->seen, TDM_POINT_LIMIT / 8);
  memset(pool, 0, sizeof(*pool));
}

/* ---- The set of words ----------------------------------------------------------------------- */

static uint32_t hash_word(const tdm_word_pool *pool, const char *text, size_t bytes) {
  return (uint32_t)tdm_siphash(&pool->key, text, bytes);
}

/* Returns the slot of a word, or the free slot where it belongs. */
static tdm_word_slot *find_slot(const tdm_word_pool *pool, uint32_t hash, const char *text,
                                size_t bytes) {
  const size_t mask = pool->slot_count - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    tdm_word_slot *slot = &pool->slots[i];
    if (slot->number == 0) return slot;
    if (slot->hash != hash) continue;
    const tdm_pool_word *word = &pool->words[slot->number - 1];
    if (word->bytes == bytes && memcmp(pool->text + word->offset, text, bytes) == 0) return slot;
  }
}

/* Doubles the table of slots. */
static tdm_status grow_slots(tdm_word_pool *pool) {
  const size_t old_count = pool->slot_count;
  const size_t new_count = old_count == 0 ? FIRST_SLOT_COUNT : old_count * 2;
  tdm_word_slot *slots =
      tdm_allocate(pool->allocator, new_count * sizeof(*slots), "the table of words");
  if (!slots) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < old_count; i++) {
    if (pool->slots[i].number == 0) continue;
    size_t at = pool->slots[i].hash & (new_count - 1);
    while (slots[at].number != 0)
      at = (at + 1) & (new_count - 1);
    slots[at] = pool->slots[i];
  }
  tdm_release(pool->allocator, pool->slots, old_count * sizeof(*slots));
  pool->slots = slots;
  pool->slot_count = new_count;
  return TDM_OK;
}

/* Reserves memory for one more word of that many bytes. */
static tdm_status reserve_word(tdm_word_pool *pool, size_t bytes) {
  if (pool->word_count == INT32_MAX) {
    return tdm_fail(TDM_UNSUPPORTED, "more than %d words", INT32_MAX);
  }
  TDM_TRY(tdm_array_reserve(pool->allocator, (void **)&pool->text, &pool->text_capacity,
                            pool->text_bytes + bytes, 1, "the words of lists"));
  TDM_TRY(tdm_array_reserve(pool->allocator, (void **)&pool->words, &pool->word_capacity,
                            pool->word_count + 1, sizeof(*pool->words), "the words of lists"));
  return (pool->word_count + 1) * 2 <= pool->slot_count ? TDM_OK : grow_slots(pool);
}

/* Adds the word whose text was written after the pool's text. */
static void put_word(tdm_word_pool *pool, size_t bytes, int64_t characters, int32_t list) {
  const char *text = pool->text + pool->text_bytes;
  const uint32_t hash = hash_word(pool, text, bytes);
  tdm_word_slot *slot = find_slot(pool, hash, text, bytes);
  if (slot->number != 0) {
    tdm_pool_word *known = &pool->words[slot->number - 1];
    if (known->list != list) known->list = -1;
    return;
  }
  pool->words[pool->word_count] = (tdm_pool_word){.offset = pool->text_bytes,
                                                  .bytes = (uint32_t)bytes,
                                                  .characters = (int32_t)characters,
                                                  .list = list};
  *slot = (tdm_word_slot){.hash = hash, .number = (uint32_t)++pool->word_count};
  uint32_t point = 0;
  for (size_t at = 0; at < bytes;) {
    at += tdm_utf8_decode(text + at, bytes - at, &point);
    pool->seen[point / 8] |= (uint8_t)(1u << point % 8);
  }
  pool->text_bytes += bytes;
}

/* ---- One list ------------------------------------------------------------------------------- */

typedef struct list_text {
  const char *bytes;
  size_t size;
  tdm_encoding encoding;
} list_text;

static bool is_blank(uint32_t point) {
  return point == ' ' || point == '\t' || point == '\r' || point == '\n';
}

/* Returns the number of characters of a line that is a word to keep, and otherwise 0. */
static int64_t measure_line(const list_text *line, int64_t max_length) {
  int64_t characters = 0;
  bool has_letter = false;
  for (size_t at = 0; at < line->size; characters++) {
    uint32_t point = 0;
    at += tdm_text_decode(line->encoding, line->bytes + at, line->size - at, &point);
    const bool is_letter = tdm_point_is_letter(point);
    if (!is_letter && point != '\'' && point != '-') return 0;
    has_letter = has_letter || is_letter;
  }
  const bool fits = characters >= TDM_WORD_LEAST_CHARACTERS && characters <= max_length;
  return has_letter && fits ? characters : 0;
}

static tdm_status take_line(tdm_word_pool *pool, const list_text *whole, size_t begin, size_t end,
                            int32_t list) {
  while (end > begin && is_blank((unsigned char)whole->bytes[end - 1]))
    end--;
  while (begin < end && is_blank((unsigned char)whole->bytes[begin]))
    begin++;
  const list_text line = {
      .bytes = whole->bytes + begin, .size = end - begin, .encoding = whole->encoding};
  const int64_t characters = measure_line(&line, pool->max_length);
  if (characters == 0) return TDM_OK;
  TDM_TRY(reserve_word(pool, (size_t)characters * 4));
  size_t bytes = 0;
  for (size_t at = 0; at < line.size;) {
    uint32_t point = 0;
    at += tdm_text_decode(line.encoding, line.bytes + at, line.size - at, &point);
    bytes += tdm_utf8_encode(tdm_point_fold(point), pool->text + pool->text_bytes + bytes);
  }
  put_word(pool, bytes, characters, list);
  return TDM_OK;
}

/* Checks that this is text and consists mostly of letters. Detects the encoding. */
static tdm_status check_text(list_text *text, const char *what, const char *path) {
  const char *zero = memchr(text->bytes, '\0', text->size);
  if (zero) {
    return tdm_fail(TDM_CORRUPT_DATA, "%s: %s is not text: byte %zu is zero", what, path,
                    (size_t)(zero - text->bytes));
  }
  int64_t line = 0;
  text->encoding = tdm_text_encoding(text->bytes, text->size, &line);
  if (text->encoding == TDM_ENCODING_NONE) {
    return tdm_fail(TDM_CORRUPT_DATA, "%s: %s is neither UTF-8 (see line %lld) nor ISO-8859-1",
                    what, path, (long long)line);
  }
  int64_t letters = 0;
  int64_t others = 0;
  for (size_t at = 0; at < text->size;) {
    uint32_t point = 0;
    at += tdm_text_decode(text->encoding, text->bytes + at, text->size - at, &point);
    const bool is_letter = tdm_point_is_letter(point);
    letters += is_letter;
    others += !is_letter && !is_blank(point);
  }
  if (letters == 0 && others == 0) {
    return tdm_fail(TDM_CORRUPT_DATA, "%s: %s is empty", what, path);
  }
  if (letters <= others) {
    return tdm_fail(TDM_CORRUPT_DATA,
                    "%s: %s is no list of words: %lld letters and %lld other characters", what,
                    path, (long long)letters, (long long)others);
  }
  return TDM_OK;
}

tdm_status tdm_word_pool_read(tdm_word_pool *pool, const tdm_word_list *list, int32_t number) {
  char what[96];
  (void)snprintf(what, sizeof(what), "word list %.80s", list->name);
  char *bytes = NULL;
  size_t size = 0;
  TDM_TRY(tdm_file_read(pool->allocator, what, list->path, LIST_LIMIT_BYTES, &bytes, &size));
  list_text text = {.bytes = bytes, .size = size};
  if (size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) { /* a byte order mark */
    text.bytes += 3;
    text.size -= 3;
  }
  tdm_status status = check_text(&text, what, list->path);
  for (size_t begin = 0; begin < text.size && status == TDM_OK;) {
    const char *newline = memchr(text.bytes + begin, '\n', text.size - begin);
    const size_t end = newline ? (size_t)(newline - text.bytes) : text.size;
    status = take_line(pool, &text, begin, end, number);
    begin = end + 1;
  }
  tdm_release(pool->allocator, bytes, size + 1);
  return status;
}
