/* Creates word sets, and converts words to ids. Invariant: the words drawn for a class depend only
 * on the seed, the name of the class and its words; the two parts are disjoint. */
#include "examples/words/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/words/pool.h"
#include "examples/words/text.h"

enum { MOST_LENGTH = 1024 };

void word_set_release(word_set *set) {
  if (!set) return;
  free(set->parts[false].words);
  free(set->parts[true].words);
  free(set->ids);
  free(set->points);
  free(set->names);
  free(set);
}

int64_t word_set_character_count(const word_set *set) {
  return (int64_t)set->point_count + 1;
}

const char *word_set_class_name(const word_set *set, size_t index) {
  if (index >= set->class_count) return NULL;
  const char *name = set->names;
  for (; index > 0; index--)
    name += strlen(name) + 1;
  return name;
}

/* ---- Characters ------------------------------------------------------------------------------ */

uint16_t word_set_id(const word_set *set, uint32_t point) {
  size_t low = 0, high = set->point_count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (set->points[middle] < (int32_t)point)
      low = middle + 1;
    else
      high = middle;
  }
  const bool found = low < set->point_count && set->points[low] == (int32_t)point;
  return found ? (uint16_t)(low + 1) : 0;
}

/* Checks and counts the characters of a word, and writes their ids unless ids is NULL. */
static tdm_status encode(const word_set *set, const char *text, int64_t *ids, int64_t *out_count) {
  const size_t size = strlen(text);
  int64_t count = 0;
  for (size_t at = 0; at < size; count++) {
    uint32_t point = 0;
    const size_t used = utf8_decode(text + at, size - at, &point);
    if (used == 0)
      return tdm_fail(TDM_INVALID_ARGUMENT, "byte %zu of the word (0x%02X) is not UTF-8", at,
                      (unsigned)(unsigned char)text[at]);
    const uint16_t id = word_set_id(set, point_fold(point));
    if (id == 0)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "the character '%.*s' (U+%04X) of \"%.64s\" is in no word list", (int)used,
                      text + at, point, text);
    if (ids) ids[count] = id;
    at += used;
  }
  *out_count = count;
  return count > 0 ? TDM_OK : tdm_fail(TDM_INVALID_ARGUMENT, "the word is empty");
}

tdm_tensor *word_set_encode(const word_set *set, const char *text) {
  int64_t count = 0;
  if (encode(set, text, NULL, &count) != TDM_OK) return NULL;
  tdm_tensor *ids = tdm_tensor_zeros(set->context, "cpu:0", TDM_INT64, tdm_shape_of(2, count, 1));
  if (ids) (void)encode(set, text, tdm_tensor_data(ids), &count);
  return ids;
}

/* ---- Drawing words --------------------------------------------------------------------------- */

static tdm_status fail_memory(void) {
  return tdm_fail(TDM_OUT_OF_MEMORY, "words: out of memory");
}

/* Takes every character of the pool's words. */
static tdm_status take_alphabet(word_set *set, const word_pool *pool) {
  bool seen[POINT_LIMIT] = {false};
  for (size_t i = 0; i < pool->count; i++) {
    const char *text = pool->words[i].text;
    for (uint32_t point; *text; seen[point] = true)
      text += utf8_decode(text, 4, &point);
  }
  set->points = malloc(sizeof *set->points * POINT_LIMIT);
  if (!set->points) return fail_memory();
  for (int32_t point = 0; point < POINT_LIMIT; point++)
    if (seen[point]) set->points[set->point_count++] = point;
  return TDM_OK;
}

static tdm_status take_names(word_set *set, const word_list *lists, size_t count) {
  for (size_t i = 0; i < count; i++)
    set->name_bytes += strlen(lists[i].name) + 1;
  char *name = set->names = malloc(set->name_bytes);
  if (!name) return fail_memory();
  for (size_t i = 0; i < count; i++) {
    strcpy(name, lists[i].name);
    name += strlen(name) + 1;
  }
  set->class_count = count;
  return TDM_OK;
}

/* Fisher and Yates' shuffle, by the seed and the class's name. */
static void shuffle(const pool_word **members, size_t count, const char *name, uint64_t seed) {
  const uint64_t stream = tdm_random_stream("words.sample") ^ tdm_random_stream(name);
  const tdm_random random = {.seed = seed, .stream = stream};
  for (size_t i = count; i > 1; i--) {
    const size_t other = (size_t)(tdm_random_uniform_float64(&random, i) * (double)i);
    const pool_word *swapped = members[i - 1];
    members[i - 1] = members[other];
    members[other] = swapped;
  }
}

static tdm_status keep_word(word_set *set, const pool_word *from, word_part *part) {
  tdm_status status =
      words_reserve((void **)&part->words, &part->capacity, part->count + 1, sizeof *part->words);
  if (status == TDM_OK)
    status = words_reserve((void **)&set->ids, &set->id_capacity,
                           set->id_count + (size_t)from->length, sizeof *set->ids);
  if (status == TDM_OK && set->id_count > UINT32_MAX)
    status = tdm_fail(TDM_UNSUPPORTED, "words: over %u characters", UINT32_MAX);
  if (status != TDM_OK) return status;
  part->words[part->count++] = (listed_word){(uint32_t)set->id_count, from->length, from->list};
  for (const char *text = from->text; *text;) {
    uint32_t point;
    text += utf8_decode(text, 4, &point);
    set->ids[set->id_count++] = word_set_id(set, point);
  }
  return TDM_OK;
}

/* Draws the words of one class, of which there are count. */
static tdm_status draw_class(word_set *set, const word_list *list, const pool_word **members,
                             size_t count, const word_options *options) {
  if (count == 0)
    return tdm_fail(TDM_CORRUPT_DATA, "word list %s: %s has no word of its own that can be used",
                    list->name, list->path);
  shuffle(members, count, list->name, options->seed);
  const size_t wanted = (size_t)options->per_class;
  if (wanted > count)
    fprintf(stderr, "word list %s: %s has %zu words of %zu asked for\n", list->name, list->path,
            count, wanted);
  const size_t taken = wanted > 0 && wanted < count ? wanted : count;
  const size_t held = (size_t)((double)taken * options->held_out + 0.5);
  tdm_status status = TDM_OK;
  for (size_t i = 0; i < taken && status == TDM_OK; i++)
    status = keep_word(set, members[i], &set->parts[i >= held]);
  return status;
}

static tdm_status draw(word_set *set, const word_pool *pool, const word_list *lists, size_t count,
                       const word_options *options) {
  const pool_word **members = malloc(sizeof *members * (pool->count + 1));
  tdm_status status = members ? TDM_OK : fail_memory();
  for (size_t class = 0; class < count && status == TDM_OK; class ++) {
    size_t member_count = 0;
    for (size_t i = 0; i < pool->count; i++)
      if (pool->words[i].list == (int32_t) class) members[member_count++] = &pool->words[i];
    status = draw_class(set, &lists[class], members, member_count, options);
  }
  free(members);
  return status;
}

/* ---- Creation -------------------------------------------------------------------------------- */

static tdm_status check(const word_list *lists, size_t count, const word_options *options) {
  if (count < 1 || count > MOST_LISTS)
    return tdm_fail(TDM_INVALID_ARGUMENT, "words: %zu lists, expected 1 to %d", count, MOST_LISTS);
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < i; j++)
      if (strcmp(lists[i].name, lists[j].name) == 0)
        return tdm_fail(TDM_INVALID_ARGUMENT, "words: two lists are named %s", lists[i].name);
  if (options->per_class < 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "words: per_class is %lld, expected 0 or more",
                    (long long)options->per_class);
  if (options->max_length < LEAST_CHARACTERS || options->max_length > MOST_LENGTH)
    return tdm_fail(TDM_INVALID_ARGUMENT, "words: max_length is %lld, expected %d to %d",
                    (long long)options->max_length, LEAST_CHARACTERS, MOST_LENGTH);
  if (!(options->held_out >= 0 && options->held_out < 1))
    return tdm_fail(TDM_INVALID_ARGUMENT, "words: held_out is %g, expected 0 <= held_out < 1",
                    options->held_out);
  return TDM_OK;
}

word_set *word_set_create(tdm_context *context, const word_list *lists, size_t count,
                          const word_options *options) {
  if (check(lists, count, options) != TDM_OK) return NULL;
  word_pool pool = {.max_length = options->max_length};
  word_set *set = calloc(1, sizeof *set);
  tdm_status status = set ? TDM_OK : fail_memory();
  for (size_t i = 0; i < count && status == TDM_OK; i++)
    status = word_pool_read(&pool, &lists[i], (int32_t)i);
  if (status == TDM_OK) {
    *set = (word_set){.context = context, .max_length = options->max_length};
    set->parts[false].set = set->parts[true].set = set;
    status = take_names(set, lists, count);
  }
  if (status == TDM_OK) status = take_alphabet(set, &pool);
  if (status == TDM_OK) status = draw(set, &pool, lists, count, options);
  word_pool_release(&pool);
  if (status == TDM_OK) return set;
  word_set_release(set);
  return NULL;
}
