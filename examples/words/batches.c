/* Words as a dataset, padded, and as batches of one length. Invariant: batches that were arranged
 * hold no padding. */
#include "examples/words/batches.h"

#include <stdlib.h>
#include <string.h>

#include "tools/options/command_line.h"

enum { CHARACTERS, LENGTH, CLASS, FIELD_COUNT };

static tdm_status read_word(void *user, int64_t index, void *const *out_fields) {
  const word_part *part = user;
  const listed_word *read = &part->words[index];
  int64_t *characters = out_fields[CHARACTERS]; /* (max_length) */
  memset(characters, 0, (size_t)part->set->max_length * sizeof *characters);
  for (int32_t i = 0; i < read->length; i++)
    characters[i] = part->set->ids[read->offset + (uint32_t)i];
  *(int64_t *)out_fields[LENGTH] = read->length;
  *(int64_t *)out_fields[CLASS] = read->class_index;
  return TDM_OK;
}

tdm_dataset *word_set_dataset(const word_set *set, bool training) {
  if (set->max_length == 0) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "words: they were read back without lists");
    return NULL;
  }
  const tdm_field fields[FIELD_COUNT] = {
      {.name = "characters", .dtype = TDM_INT64, .shape = tdm_shape_of(1, set->max_length)},
      {.name = "length", .dtype = TDM_INT64, .shape = tdm_shape_scalar()},
      {.name = "class", .dtype = TDM_INT64, .shape = tdm_shape_scalar()},
  };
  const tdm_dataset_source source = {
      .struct_size = sizeof source,
      .user = (void *)&set->parts[training],
      .length = (int64_t)set->parts[training].count,
      .fields = fields,
      .field_count = FIELD_COUNT,
      .item = read_word,
  };
  return tdm_dataset_create(set->context, &source);
}

tdm_loader *word_set_loader(const word_set *set, bool training, const tdm_loader_options *options) {
  const word_part *part = &set->parts[training];
  tdm_dataset *dataset = word_set_dataset(set, training);
  if (!dataset) return NULL;
  int32_t *lengths = malloc((part->count + 1) * sizeof *lengths);
  tdm_loader *loader = NULL;
  if (lengths) {
    for (size_t i = 0; i < part->count; i++)
      lengths[i] = part->words[i].length;
    tdm_loader_options grouped = *options;
    grouped.groups = lengths;
    loader = tdm_loader_create(dataset, &grouped);
  } else {
    (void)tdm_fail(TDM_OUT_OF_MEMORY, "words: out of memory");
  }
  free(lengths);
  tdm_dataset_release(dataset);
  return loader;
}

tdm_status word_batch_arrange(tdm_context *context, const char *device, batch *taken) {
  const int64_t rows = taken->rows;
  const int64_t *padded = tdm_tensor_data(taken->fields[CHARACTERS]); /* (rows, max_length) */
  const int64_t max_length = tdm_tensor_shape(taken->fields[CHARACTERS]).dims[1];
  const int64_t length = *(const int64_t *)tdm_tensor_data(taken->fields[LENGTH]);
  const tdm_shape shape = tdm_shape_of(2, length, rows);
  tdm_tensor *arranged = device ? tdm_tensor_staging(context, device, TDM_INT64, shape)
                                : tdm_tensor_zeros(context, "cpu:0", TDM_INT64, shape);
  if (!arranged) return check_made(arranged);
  int64_t *characters = tdm_tensor_data(arranged); /* (length, rows) */
  for (int64_t row = 0; row < rows; row++)
    for (int64_t i = 0; i < length; i++)
      characters[i * rows + row] = padded[row * max_length + i];
  tdm_tensor_release(taken->fields[CHARACTERS]);
  tdm_tensor_release(taken->fields[LENGTH]);
  taken->fields[0] = arranged;
  taken->fields[1] = taken->fields[CLASS];
  taken->fields[CLASS] = NULL;
  return TDM_OK;
}
