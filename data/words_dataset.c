/* Words as a padded dataset, and as a loader whose batches each have one length. Invariant: both
 * use the same words in the same order. */
#include <string.h>

#include "core/options.h"
#include "data/dataset.h"
#include "data/words.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

/* The user part of a dataset of words. */
typedef struct words_view {
  tdm_words *words; /* retained */
  const tdm_word_part *part;
} words_view;

/* Reads the fields characters (max_length), length (), class (). */
static tdm_status read_word(void *user, int64_t index, void *const *out_fields) {
  const words_view *view = user;
  const tdm_word *word = &view->part->words[index];
  int64_t *characters = out_fields[0]; /* (max_length) */
  memset(characters, 0, (size_t)view->words->max_length * sizeof(*characters));
  for (int32_t i = 0; i < word->length; i++)
    characters[i] = view->words->ids[word->offset + (uint32_t)i];
  *(int64_t *)out_fields[1] = word->length;
  *(int64_t *)out_fields[2] = word->class_index;
  return TDM_OK;
}

static void release_view(void *user) {
  words_view *view = user;
  tdm_words *words = view->words;
  tdm_release(tdm_context_allocator(words->context), view, sizeof(*view));
  tdm_words_release(words);
}

tdm_dataset *tdm_words_dataset(tdm_words *words, bool training) {
  if (!words || words->max_length == 0) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "words: %s",
                   words ? "they were read back without lists" : "words is NULL");
    return NULL;
  }
  words_view *view =
      tdm_allocate(tdm_context_allocator(words->context), sizeof(*view), "a dataset of words");
  if (!view) return NULL;
  atomic_fetch_add_explicit(&words->references, 1, memory_order_relaxed);
  view->words = words;
  view->part = training ? &words->training : &words->evaluation;
  const tdm_field fields[] = {
      {.name = "characters", .dtype = TDM_INT64, .shape = tdm_shape_of(1, words->max_length)},
      {.name = "length", .dtype = TDM_INT64, .shape = tdm_shape_scalar()},
      {.name = "class", .dtype = TDM_INT64, .shape = tdm_shape_scalar()},
  };
  const tdm_dataset_source source = {
      .struct_size = sizeof(source),
      .user = view,
      .length = view->part->count,
      .fields = fields,
      .field_count = TDM_COUNT_OF(fields),
      .item = read_word,
      .destroy = release_view,
  };
  tdm_dataset *dataset = tdm_dataset_create(words->context, &source);
  if (!dataset) release_view(view);
  return dataset;
}

/* Makes a batch of items of one length: characters (length, rows), class (rows). */
static tdm_status make_batch(tdm_dataset *dataset, tdm_device *near, const tdm_batch_rows *listed,
                             const atomic_bool *abandon, tdm_tensor **out_fields) {
  (void)abandon; /* a batch takes microseconds */
  const int64_t *items = listed->items;
  const int64_t rows = listed->count;
  tdm_batch_cursor reached = {0};
  const words_view *view = dataset->user;
  const int64_t length = view->part->words[items[0]].length;
  const tdm_shape characters_shape = tdm_shape_of(2, length, rows);
  const tdm_shape class_shape = tdm_shape_of(1, rows);
  tdm_context *context = dataset->context;
  out_fields[0] = NULL;
  out_fields[1] = NULL;
  tdm_status status =
      tdm_host_tensor_create(context, near, TDM_INT64, &characters_shape, &out_fields[0]);
  if (status == TDM_OK) {
    status = tdm_host_tensor_create(context, near, TDM_INT64, &class_shape, &out_fields[1]);
  }
  if (status != TDM_OK) {
    tdm_batch_release(out_fields, 2);
    return status;
  }
  int64_t *characters = tdm_tensor_data(out_fields[0]); /* (length, rows) */
  int64_t *classes = tdm_tensor_data(out_fields[1]);    /* (rows) */
  for (int64_t row = 0; row < rows; row++) {
    const tdm_word *word = &view->part->words[items[row]];
    const bool has = tdm_batch_has_row(listed, &reached);
    for (int64_t i = 0; i < length; i++)
      characters[i * rows + row] = has ? view->words->ids[word->offset + (uint32_t)i] : -1;
    classes[row] = word->class_index;
  }
  return TDM_OK;
}

tdm_loader *tdm_words_loader(tdm_words *words, bool training, const tdm_loader_options *given) {
  tdm_loader_options options;
  if (TDM_OPTIONS_READ("tdm_words_loader", loader, given, &options) != TDM_OK) return NULL;
  if (options.whole) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "words: a loader of words has its classes whole");
    return NULL;
  }
  if (options.groups) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "words: a loader of words groups them by length itself");
    return NULL;
  }
  tdm_dataset *dataset = tdm_words_dataset(words, training);
  if (!dataset) return NULL;
  const words_view *view = dataset->user;
  const tdm_allocator *allocator = tdm_context_allocator(dataset->context);
  const size_t bytes = (size_t)dataset->length * sizeof(int32_t);
  tdm_loader *loader = NULL;
  int32_t *lengths = tdm_allocate(allocator, bytes, "the lengths of words");
  if (lengths) {
    for (int64_t i = 0; i < dataset->length; i++)
      lengths[i] = view->part->words[i].length;
    options.groups = lengths;
    loader = tdm_loader_create_with(dataset, &options, make_batch, 2);
  }
  tdm_release(allocator, lengths, bytes);
  tdm_dataset_release(dataset);
  return loader;
}
