/* Draws words from a pool: words that are in one list only, a sample of each class, divided into
 * training and evaluation. Invariant: the draw of a class depends only on the seed, the class's
 * name and its words. The two parts are disjoint. */
#include <string.h>

#include "core/hash.h"
#include "data/order.h"
#include "data/text.h"
#include "data/words.h"
#include "devices/context/context.h"

uint16_t tdm_words_id(const tdm_words *words, uint32_t point) {
  size_t low = 0;
  size_t high = words->point_count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (words->points[middle] < point) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const bool found = low < words->point_count && words->points[low] == point;
  return found ? (uint16_t)(low + 1) : 0;
}

static tdm_status take_alphabet(tdm_words *words, const tdm_word_pool *pool) {
  size_t count = 0;
  for (uint32_t point = 0; point < TDM_POINT_LIMIT; point++)
    count += pool->seen[point / 8] >> point % 8 & 1u;
  words->points = tdm_region_take(&words->region, count * sizeof(*words->points), "an alphabet");
  if (!words->points) return TDM_OUT_OF_MEMORY;
  for (uint32_t point = 0; point < TDM_POINT_LIMIT; point++) {
    if (pool->seen[point / 8] >> point % 8 & 1u) words->points[words->point_count++] = point;
  }
  return TDM_OK;
}

/* The words of the pool that belong to a class, in the order drawn. */
typedef struct class_draw {
  int64_t *members; /* word numbers; the first `held` are for evaluation */
  int64_t count;    /* number of members */
  int64_t taken;
  int64_t held;
} class_draw;

static void draw_class(class_draw *draw, const char *name, const tdm_words_options *options) {
  const uint64_t stream = tdm_hash_string(name, tdm_random_stream("words.sample"));
  const tdm_random random = {.seed = options->seed, .stream = stream};
  tdm_shuffle(draw->members, draw->count, &random, 0);
  draw->taken = draw->count;
  if (options->words_per_class > 0 && options->words_per_class < draw->count) {
    draw->taken = options->words_per_class;
  }
  draw->held = (int64_t)((double)draw->taken * options->held_out + 0.5);
  if (draw->held > draw->taken) draw->held = draw->taken;
}

/* Sorts the pool's words into classes; members has room for all words. */
static void sort_into_classes(const tdm_word_pool *pool, class_draw *draws, size_t class_count,
                              int64_t *members) {
  for (size_t i = 0; i < pool->word_count; i++) {
    if (pool->words[i].list >= 0) draws[pool->words[i].list].count++;
  }
  for (size_t i = 0; i < class_count; i++) {
    draws[i].members = members;
    members += draws[i].count;
    draws[i].count = 0;
  }
  for (size_t i = 0; i < pool->word_count; i++) {
    if (pool->words[i].list < 0) continue;
    class_draw *draw = &draws[pool->words[i].list];
    draw->members[draw->count++] = (int64_t)i;
  }
}

/* Copies word `member` of the pool, as ids, to a part. */
static void keep_word(tdm_words *words, const tdm_word_pool *pool, int64_t member,
                      tdm_word_part *part, size_t *ids_count) {
  const tdm_pool_word *from = &pool->words[member];
  part->words[part->count++] = (tdm_word){
      .offset = (uint32_t)*ids_count, .length = from->characters, .class_index = from->list};
  for (size_t at = 0; at < from->bytes;) {
    uint32_t point = 0;
    at += tdm_utf8_decode(pool->text + from->offset + at, from->bytes - at, &point);
    words->ids[(*ids_count)++] = tdm_words_id(words, point);
  }
}

static tdm_status keep_words(tdm_words *words, const tdm_word_pool *pool, const class_draw *draws,
                             size_t class_count) {
  size_t training = 0;
  size_t evaluation = 0;
  size_t ids = 0;
  for (size_t i = 0; i < class_count; i++) {
    evaluation += (size_t)draws[i].held;
    training += (size_t)(draws[i].taken - draws[i].held);
    for (int64_t j = 0; j < draws[i].taken; j++)
      ids += (size_t)pool->words[draws[i].members[j]].characters;
  }
  if (ids > UINT32_MAX) return tdm_fail(TDM_UNSUPPORTED, "words: over %u characters", UINT32_MAX);
  tdm_region *region = &words->region;
  words->training.words = tdm_region_take(region, training * sizeof(tdm_word), "words");
  words->evaluation.words = tdm_region_take(region, evaluation * sizeof(tdm_word), "words");
  words->ids = tdm_region_take(region, ids * sizeof(*words->ids), "the characters of words");
  if (!words->training.words || !words->evaluation.words || !words->ids) return TDM_OUT_OF_MEMORY;
  size_t ids_count = 0;
  for (size_t i = 0; i < class_count; i++) {
    for (int64_t j = 0; j < draws[i].taken; j++) {
      tdm_word_part *part = j < draws[i].held ? &words->evaluation : &words->training;
      keep_word(words, pool, draws[i].members[j], part, &ids_count);
    }
  }
  return TDM_OK;
}

/* Draws every class. The caller's lists provide the names in messages. */
static tdm_status draw_classes(tdm_context *context, class_draw *draws, const tdm_word_list *lists,
                               size_t count, const tdm_words_options *options) {
  for (size_t i = 0; i < count; i++) {
    if (draws[i].count == 0) {
      return tdm_fail(TDM_CORRUPT_DATA, "word list %s: %s has no word of its own that can be used",
                      lists[i].name, lists[i].path);
    }
    draw_class(&draws[i], lists[i].name, options);
    if (draws[i].taken < options->words_per_class) {
      tdm_context_log(context, TDM_LOG_WARNING, "word list %s: %s has %lld words of %lld asked for",
                      lists[i].name, lists[i].path, (long long)draws[i].taken,
                      (long long)options->words_per_class);
    }
  }
  return TDM_OK;
}

static tdm_status take_names(tdm_words *words, const tdm_word_list *lists, size_t count) {
  words->class_names =
      tdm_region_take(&words->region, count * sizeof(*words->class_names), "the names of classes");
  if (!words->class_names) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++) {
    words->class_names[i] = tdm_region_string(&words->region, lists[i].name);
    if (!words->class_names[i]) return TDM_OUT_OF_MEMORY;
  }
  words->class_count = count;
  return TDM_OK;
}

tdm_status tdm_words_select(tdm_words *words, const tdm_word_pool *pool, const tdm_word_list *lists,
                            size_t count, const tdm_words_options *options) {
  TDM_TRY(take_names(words, lists, count));
  TDM_TRY(take_alphabet(words, pool));
  const tdm_allocator *allocator = pool->allocator;
  const size_t members_bytes = pool->word_count * sizeof(int64_t);
  tdm_status status = TDM_OUT_OF_MEMORY;
  class_draw *draws = tdm_allocate(allocator, count * sizeof(*draws), "the classes of words");
  int64_t *members = tdm_allocate(allocator, members_bytes, "the words of classes");
  if (!draws || !members) goto done;
  sort_into_classes(pool, draws, count, members);
  status = draw_classes(words->context, draws, lists, count, options);
  if (status == TDM_OK) status = keep_words(words, pool, draws, count);
done:
  tdm_release(allocator, draws, count * sizeof(*draws));
  tdm_release(allocator, members, members_bytes);
  return status;
}
