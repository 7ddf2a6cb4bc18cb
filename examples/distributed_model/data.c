/* Words and loaders. Invariant: the held-out words depend only on the lists, the seed and the
 * number of words. So two models with one seed are measured on the same words. */
#include "examples/distributed_model/data.h"

#include <string.h>

#include "examples/common/written.h"
#include "examples/words/batches.h"
#include "tools/options/command_line.h"

static const double HELD_OUT_SHARE = 0.1;

word_set *data_read_words(tdm_context *context, const options *given) {
  const word_options wanted = {.per_class = given->words_per_language,
                               .max_length = MAX_WORD_LENGTH,
                               .seed = (uint64_t)given->common.seed,
                               .held_out = HELD_OUT_SHARE};
  return word_set_create(context, given->lists, given->list_count, &wanted);
}

/* Where a checkpoint has what its writer adds (tdm_checkpoint_save_with). */
static const char kept_prefix[] = TDM_CHECKPOINT_PREFIX "own/";

static tdm_status add_kept(const tdm_tensor_list *list, tdm_tensor_list *kept) {
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const char *name = tdm_tensor_list_name(list, i);
    const size_t length = sizeof kept_prefix - 1;
    if (strncmp(name, kept_prefix, length) != 0) continue;
    const tdm_status status =
        tdm_tensor_list_add(kept, name + length, tdm_tensor_list_tensor(list, i));
    if (status != TDM_OK) return status;
  }
  return TDM_OK;
}

tdm_status data_saved_words(tdm_context *context, const tdm_tensor_list *list,
                            word_set **out_words) {
  *out_words = NULL;
  tdm_tensor_list *kept = tdm_tensor_list_create(context);
  tdm_status status = kept ? add_kept(list, kept) : TDM_OUT_OF_MEMORY;
  const bool is_checkpoint = status == TDM_OK && tdm_tensor_list_count(kept) > 0;
  if (status == TDM_OK) *out_words = word_set_from_saved(context, is_checkpoint ? kept : list);
  tdm_tensor_list_release(kept);
  if (status == TDM_OK && !*out_words) return TDM_CORRUPT_DATA;
  return status;
}

static bool tensors_equal(const tdm_tensor *a, const tdm_tensor *b) {
  return a && b && tdm_tensor_bytes(a) == tdm_tensor_bytes(b) &&
         memcmp(tdm_tensor_data(a), tdm_tensor_data(b), tdm_tensor_bytes(a)) == 0;
}

tdm_status data_check_same_tables(tdm_context *context, word_set *words, word_set *saved,
                                  const char *path) {
  tdm_tensor_list *ours = tdm_tensor_list_create(context);
  tdm_tensor_list *theirs = tdm_tensor_list_create(context);
  tdm_status status = check_made(ours);
  if (status == TDM_OK) status = check_made(theirs);
  if (status == TDM_OK) status = word_set_save(words, ours);
  if (status == TDM_OK) status = word_set_save(saved, theirs);
  for (size_t i = 0; status == TDM_OK && i < tdm_tensor_list_count(ours); i++) {
    const char *name = tdm_tensor_list_name(ours, i);
    if (!tensors_equal(tdm_tensor_list_tensor(ours, i), tdm_tensor_list_find(theirs, name)))
      status =
          tdm_fail(TDM_INVALID_ARGUMENT,
                   "%s was trained on other lists: its %s differs from these lists'", path, name);
  }
  tdm_tensor_list_release(theirs);
  tdm_tensor_list_release(ours);
  return status;
}

tdm_status data_check_known(word_set *words, char *const *asked, int count) {
  for (int i = 0; i < count; i++) {
    tdm_tensor *ids = word_set_encode(words, asked[i]);
    if (!ids) return fail_within(TDM_INVALID_ARGUMENT, "--predict");
    tdm_tensor_release(ids);
  }
  return TDM_OK;
}

tdm_loader *data_create_loader(word_set *words, bool training, int64_t batch_size, bool shuffle,
                               uint64_t seed, const char *near) {
  tdm_loader_options wanted = tdm_loader_options_default();
  wanted.batch_size = batch_size;
  wanted.shuffle = shuffle;
  wanted.seed = seed;
  wanted.prefetch = 4;
  wanted.near = near;
  return word_set_loader(words, training, &wanted);
}

typedef enum dump_field { CHARACTERS, LENGTHS, CLASSES, SPLIT, FIELD_COUNT } dump_field;

/* Copies all items of a part to the rows of tensors from `first` on. */
static tdm_status dump_part(word_set *words, bool training, int64_t first, int64_t count,
                            tdm_tensor *const *tensors) {
  tdm_dataset *dataset = word_set_dataset(words, training);
  tdm_loader_options wanted = tdm_loader_options_default();
  wanted.batch_size = count;
  tdm_loader *loader = tdm_loader_create(dataset, &wanted);
  tdm_tensor *fields[SPLIT] = {NULL};
  int64_t rows = 0;
  tdm_status status = check_made(loader);
  if (status == TDM_OK) status = tdm_loader_start(loader, 0);
  if (status == TDM_OK) status = tdm_loader_next(loader, fields, SPLIT, &rows);
  for (int i = 0; rows > 0 && i < SPLIT; i++) {
    const size_t row_bytes = tdm_tensor_bytes(fields[i]) / (size_t)rows;
    char *to = tdm_tensor_data(tensors[i]);
    memcpy(to + (size_t)first * row_bytes, tdm_tensor_data(fields[i]), (size_t)rows * row_bytes);
    tdm_tensor_release(fields[i]);
  }
  int64_t *split = tdm_tensor_data(tensors[SPLIT]); /* (n) */
  for (int64_t i = 0; i < rows; i++)
    split[first + i] = training ? 1 : 0;
  tdm_loader_release(loader);
  tdm_dataset_release(dataset);
  return status;
}

tdm_status data_dump(tdm_context *context, word_set *words, const char *path) {
  static const char *const names[FIELD_COUNT] = {"characters", "lengths", "classes", "split"};
  const int64_t training = (int64_t)words->parts[true].count;
  const int64_t held_out = (int64_t)words->parts[false].count;
  const int64_t count = training + held_out;
  tdm_tensor *tensors[FIELD_COUNT] = {NULL};
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  tdm_status status = check_made(list);
  for (int i = 0; status == TDM_OK && i < FIELD_COUNT; i++) {
    const tdm_shape shape =
        i == CHARACTERS ? tdm_shape_of(2, count, MAX_WORD_LENGTH) : tdm_shape_of(1, count);
    tensors[i] = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, shape);
    status = check_made(tensors[i]);
    if (status == TDM_OK) status = tdm_tensor_list_add(list, names[i], tensors[i]);
  }
  if (status == TDM_OK) status = dump_part(words, true, 0, training, tensors);
  if (status == TDM_OK) status = dump_part(words, false, training, held_out, tensors);
  if (status == TDM_OK) status = word_set_save(words, list);
  status = write_list(context, status, list, path);
  for (int i = 0; i < FIELD_COUNT; i++)
    tdm_tensor_release(tensors[i]);
  tdm_tensor_list_release(list);
  return status;
}
