/* The alphabet and the classes as tensors, and back. Invariant: words read back give every
 * character and class the number that it had when they were saved. */
#include <stdlib.h>
#include <string.h>

#include "examples/words/text.h"
#include "examples/words/words.h"
#include "tools/options/command_line.h"

#define CHARACTERS "words.characters" /* int32 (count): code points, ascending */
#define CLASSES "words.classes"       /* uint8 (bytes): names, each terminated by a zero */

static tdm_status add_row(const word_set *set, tdm_tensor_list *list, const char *name,
                          tdm_dtype dtype, size_t count, const void *data) {
  tdm_tensor *row = tdm_tensor_from(set->context, dtype, tdm_shape_of(1, (int64_t)count), data);
  tdm_status status = check_made(row);
  if (status == TDM_OK) status = tdm_tensor_list_add(list, name, row);
  tdm_tensor_release(row); /* the list holds it */
  return status;
}

tdm_status word_set_save(const word_set *set, tdm_tensor_list *list) {
  const tdm_status status =
      add_row(set, list, CHARACTERS, TDM_INT32, set->point_count, set->points);
  if (status != TDM_OK) return status;
  return add_row(set, list, CLASSES, TDM_UINT8, set->name_bytes, set->names);
}

/* Copies a saved tensor (count). The caller frees *out_data. */
static tdm_status read_row(const tdm_tensor_list *list, const char *name, tdm_dtype dtype,
                           void **out_data, size_t *out_count) {
  const tdm_tensor *row = tdm_tensor_list_find(list, name);
  if (!row) return tdm_fail(TDM_CORRUPT_DATA, "there is no tensor %s", name);
  const tdm_shape shape = tdm_tensor_shape(row);
  if (tdm_tensor_dtype(row) != dtype || shape.rank != 1 || shape.dims[0] < 1)
    return tdm_fail(TDM_CORRUPT_DATA, "%s is %s with %d dimensions, expected %s (n)", name,
                    tdm_dtype_name(tdm_tensor_dtype(row)), shape.rank, tdm_dtype_name(dtype));
  *out_data = malloc(tdm_tensor_bytes(row));
  if (!*out_data) return tdm_fail(TDM_OUT_OF_MEMORY, "%s", name);
  *out_count = (size_t)shape.dims[0];
  return tdm_tensor_read(row, *out_data, tdm_tensor_bytes(row));
}

static tdm_status read_characters(word_set *set, const tdm_tensor_list *list) {
  const tdm_status status =
      read_row(list, CHARACTERS, TDM_INT32, (void **)&set->points, &set->point_count);
  if (status != TDM_OK) return status;
  const int32_t *points = set->points;
  if (set->point_count >= UINT16_MAX)
    return tdm_fail(TDM_CORRUPT_DATA, CHARACTERS " holds %zu characters", set->point_count);
  for (size_t i = 0; i < set->point_count; i++) {
    const bool is_character =
        point_is_letter((uint32_t)points[i]) || points[i] == '\'' || points[i] == '-';
    if (!is_character || (i > 0 && points[i] <= points[i - 1]))
      return tdm_fail(TDM_CORRUPT_DATA, CHARACTERS "[%zu] is %d: no letter, or out of order", i,
                      (int)points[i]);
  }
  return TDM_OK;
}

/* Returns true if all of it is UTF-8. */
static bool is_utf8(const char *bytes, size_t size) {
  int64_t line;
  return text_encoding(bytes, size, &line) == ENCODING_UTF8;
}

static tdm_status read_classes(word_set *set, const tdm_tensor_list *list) {
  const tdm_status status =
      read_row(list, CLASSES, TDM_UINT8, (void **)&set->names, &set->name_bytes);
  if (status != TDM_OK) return status;
  if (set->names[set->name_bytes - 1] != '\0' || !is_utf8(set->names, set->name_bytes))
    return tdm_fail(TDM_CORRUPT_DATA, CLASSES " are not names in UTF-8, each ended by a zero");
  for (size_t at = 0; at < set->name_bytes; at += strlen(set->names + at) + 1) {
    if (set->names[at] == '\0')
      return tdm_fail(TDM_CORRUPT_DATA, CLASSES ": name %zu is empty", set->class_count);
    set->class_count++;
  }
  return TDM_OK;
}

word_set *word_set_from_saved(tdm_context *context, const tdm_tensor_list *list) {
  word_set *set = calloc(1, sizeof *set);
  tdm_status status = set ? TDM_OK : tdm_fail(TDM_OUT_OF_MEMORY, "words: out of memory");
  if (set) set->context = context;
  if (status == TDM_OK) status = read_characters(set, list);
  if (status == TDM_OK) status = read_classes(set, list);
  if (status == TDM_OK) return set;
  (void)fail_within(status, "saved words");
  word_set_release(set);
  return NULL;
}
