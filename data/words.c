/* The public functions of word lists: creation, classes, encoding. Invariant: ids are 1 to the
 * number of characters, in the order of their code points; 0 is padding. */
#include "data/words.h"

#include <string.h>

#include "core/options.h"
#include "data/dataset.h"
#include "data/text.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

#define LIMIT_MAX_LENGTH 1024
#define LIMIT_CLASSES 65536

tdm_status tdm_words_init(tdm_context *context, tdm_words **out_words) {
  *out_words = NULL;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_words *words = tdm_allocate(allocator, sizeof(*words), "word lists");
  if (!words) return TDM_OUT_OF_MEMORY;
  atomic_init(&words->references, 1);
  words->context = tdm_context_retain(context);
  tdm_region_init(&words->region, allocator);
  *out_words = words;
  return TDM_OK;
}

void tdm_words_release(tdm_words *words) {
  if (!words || tdm_context_is_inherited(words->context)) return;
  if (atomic_fetch_sub_explicit(&words->references, 1, memory_order_acq_rel) != 1) return;
  tdm_context *context = words->context;
  tdm_region_deinit(&words->region);
  tdm_release(tdm_context_allocator(context), words, sizeof(*words));
  tdm_context_release(context);
}

static tdm_status check_lists(const tdm_word_list *lists, size_t count) {
  if (!lists || count < 1 || count > LIMIT_CLASSES) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "words: %zu lists, not 1 to %d", lists ? count : 0,
                    LIMIT_CLASSES);
  }
  for (size_t i = 0; i < count; i++) {
    if (!lists[i].name || lists[i].name[0] == '\0') {
      return tdm_fail(TDM_INVALID_ARGUMENT, "words: list %zu has no name", i);
    }
    for (size_t j = 0; j < i; j++) {
      if (strcmp(lists[i].name, lists[j].name) == 0) {
        return tdm_fail(TDM_INVALID_ARGUMENT, "words: two lists are named %s", lists[i].name);
      }
    }
  }
  return TDM_OK;
}

static tdm_status check_options(const tdm_words_options *options) {
  if (options->words_per_class != TDM_DEFAULT_SIZE && options->words_per_class < 1) {
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "words: words_per_class is %lld, expected 1 or more, or TDM_DEFAULT_SIZE for "
                    "all",
                    (long long)options->words_per_class);
  }
  if (options->max_length < TDM_WORD_LEAST_CHARACTERS || options->max_length > LIMIT_MAX_LENGTH) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "words: max_length is %lld, not %d to %d",
                    (long long)options->max_length, TDM_WORD_LEAST_CHARACTERS, LIMIT_MAX_LENGTH);
  }
  if (!(options->held_out >= 0 && options->held_out < 1)) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "words: held_out is %g, not 0 <= held_out < 1",
                    options->held_out);
  }
  return TDM_OK;
}

static tdm_status create_words(tdm_context *context, const tdm_word_list *lists, size_t count,
                               const tdm_words_options *options, tdm_words **out_words) {
  const int64_t max_length = options->max_length;
  tdm_word_pool pool;
  tdm_words *words = NULL;
  tdm_status status = tdm_word_pool_init(&pool, tdm_context_allocator(context), max_length);
  for (size_t i = 0; i < count && status == TDM_OK; i++)
    status = tdm_word_pool_read(&pool, &lists[i], (int32_t)i);
  if (status == TDM_OK) status = tdm_words_init(context, &words);
  if (status == TDM_OK) status = tdm_words_select(words, &pool, lists, count, options);
  tdm_word_pool_deinit(&pool);
  if (status != TDM_OK) {
    tdm_words_release(words);
    return status;
  }
  words->max_length = max_length;
  *out_words = words;
  return TDM_OK;
}

tdm_words *tdm_words_create(tdm_context *context, const tdm_word_list *lists, size_t count,
                            const tdm_words_options *given) {
  tdm_words_options options;
  tdm_words *words = NULL;
  if (!context) {
    (void)tdm_fail_null("words: the context");
    return NULL;
  }
  if (TDM_OPTIONS_READ("tdm_words_create", words, given, &options) != TDM_OK ||
      check_lists(lists, count) != TDM_OK || check_options(&options) != TDM_OK) {
    return NULL;
  }
  return create_words(context, lists, count, &options, &words) == TDM_OK ? words : NULL;
}

int64_t tdm_words_character_count(const tdm_words *words) {
  return !words ? 0 : (int64_t)words->point_count + 1;
}

size_t tdm_words_class_count(const tdm_words *words) {
  return !words ? 0 : words->class_count;
}

const char *tdm_words_class_name(const tdm_words *words, size_t index) {
  return !words || index >= words->class_count ? NULL : words->class_names[index];
}

/* Encodes the characters of a word, all of which must be known. If ids is NULL, only counts
 * them. */
static tdm_status encode(const tdm_words *words, const char *word, int64_t *ids,
                         int64_t *out_count) {
  const size_t size = strlen(word);
  int64_t count = 0;
  for (size_t at = 0; at < size; count++) {
    uint32_t point = 0;
    const size_t used = tdm_utf8_decode(word + at, size - at, &point);
    if (used == 0) {
      return tdm_fail(TDM_INVALID_ARGUMENT, "byte %zu of the word (0x%02X) is not UTF-8", at,
                      (unsigned)(unsigned char)word[at]);
    }
    const uint16_t id = tdm_words_id(words, tdm_point_fold(point));
    if (id == 0) {
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "the character '%.*s' (U+%04X) of \"%.64s\" stands in no word list",
                      (int)used, word + at, point, word);
    }
    if (ids) ids[count] = id;
    at += used;
  }
  *out_count = count;
  return count > 0 ? TDM_OK : tdm_fail(TDM_INVALID_ARGUMENT, "the word is empty");
}

tdm_tensor *tdm_words_encode(tdm_words *words, const char *word) {
  if (!words || !word) {
    (void)tdm_fail_null("words: %s", words ? "the word" : "words");
    return NULL;
  }
  int64_t count = 0;
  if (encode(words, word, NULL, &count) != TDM_OK) return NULL;
  const tdm_shape shape = tdm_shape_of(2, count, 1);
  tdm_tensor *ids = NULL;
  if (tdm_host_tensor_create(words->context, NULL, TDM_INT64, &shape, &ids) != TDM_OK) return NULL;
  if (encode(words, word, tdm_tensor_data(ids), &count) != TDM_OK) {
    tdm_tensor_release(ids);
    return NULL;
  }
  return ids;
}
