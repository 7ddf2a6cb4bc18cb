/* Saves the alphabet and the classes as tensors, and loads them. Invariant: loaded words give every
 * character and class the number that it had when saved. */
#include <string.h>

#include "data/dataset.h"
#include "data/text.h"
#include "data/words.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

#define CHARACTERS "words.characters" /* int32 (count): code points, ascending */
#define CLASSES "words.classes"       /* uint8 (bytes): zero-terminated names */

static tdm_status add_tensor(const tdm_words *words, tdm_tensor_list *list, const char *name,
                             tdm_dtype dtype, int64_t count, tdm_tensor **out_tensor) {
  const tdm_shape shape = tdm_shape_of(1, count);
  TDM_TRY(tdm_host_tensor_create(words->context, NULL, dtype, &shape, out_tensor));
  const tdm_status status = tdm_tensor_list_add(list, name, *out_tensor);
  tdm_tensor_release(*out_tensor); /* the list retains it */
  return status;
}

tdm_status tdm_words_save(const tdm_words *words, tdm_tensor_list *list) {
  if (!words || !list) {
    return tdm_fail_null("words: %s", words ? "the list" : "words");
  }
  if (tdm_tensor_list_find(list, CHARACTERS) || tdm_tensor_list_find(list, CLASSES)) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "words: the list holds words already");
  }
  tdm_tensor *tensor = NULL;
  TDM_TRY(add_tensor(words, list, CHARACTERS, TDM_INT32, (int64_t)words->point_count, &tensor));
  int32_t *points = tdm_tensor_data(tensor); /* (point_count) */
  for (size_t i = 0; i < words->point_count; i++)
    points[i] = (int32_t)words->points[i];
  size_t bytes = 0;
  for (size_t i = 0; i < words->class_count; i++)
    bytes += strlen(words->class_names[i]) + 1;
  TDM_TRY(add_tensor(words, list, CLASSES, TDM_UINT8, (int64_t)bytes, &tensor));
  char *names = tdm_tensor_data(tensor); /* (bytes) */
  for (size_t i = 0; i < words->class_count; i++) {
    const size_t length = strlen(words->class_names[i]) + 1;
    memcpy(names, words->class_names[i], length);
    names += length;
  }
  return TDM_OK;
}

/* Copies the contents of a saved tensor (count) into region. */
static tdm_status read_tensor(tdm_region *region, const tdm_tensor_list *list, const char *name,
                              tdm_dtype dtype, void **out_data, size_t *out_count) {
  const tdm_tensor *tensor = tdm_tensor_list_find(list, name);
  if (!tensor) return tdm_fail(TDM_CORRUPT_DATA, "there is no tensor %s", name);
  const tdm_shape shape = tdm_tensor_shape(tensor);
  if (tdm_tensor_dtype(tensor) != dtype || shape.rank != 1 || shape.dims[0] < 1) {
    char text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_CORRUPT_DATA, "%s is %s %s, not %s (n)", name,
                    tdm_dtype_name(tdm_tensor_dtype(tensor)),
                    tdm_shape_text(&shape, text, sizeof(text)), tdm_dtype_name(dtype));
  }
  const size_t bytes = tdm_tensor_bytes(tensor);
  void *data = tdm_region_take(region, bytes, name);
  if (!data) return TDM_OUT_OF_MEMORY;
  TDM_TRY(tdm_tensor_read(tensor, data, bytes));
  *out_data = data;
  *out_count = (size_t)shape.dims[0];
  return TDM_OK;
}

static tdm_status read_characters(tdm_words *words, const tdm_tensor_list *list) {
  void *data = NULL;
  size_t count = 0;
  TDM_TRY(read_tensor(&words->region, list, CHARACTERS, TDM_INT32, &data, &count));
  uint32_t *points = data; /* (count) */
  if (count >= UINT16_MAX) {
    return tdm_fail(TDM_CORRUPT_DATA, CHARACTERS " holds %zu characters", count);
  }
  for (size_t i = 0; i < count; i++) {
    const bool is_character =
        tdm_point_is_letter(points[i]) || points[i] == '\'' || points[i] == '-';
    if (!is_character || (i > 0 && points[i] <= points[i - 1])) {
      return tdm_fail(TDM_CORRUPT_DATA, CHARACTERS "[%zu] is %d: no letter, or out of order", i,
                      (int)points[i]);
    }
  }
  words->points = points;
  words->point_count = count;
  return TDM_OK;
}

static tdm_status read_classes(tdm_words *words, const tdm_tensor_list *list) {
  void *data = NULL;
  size_t bytes = 0;
  TDM_TRY(read_tensor(&words->region, list, CLASSES, TDM_UINT8, &data, &bytes));
  char *names = data; /* (bytes) */
  if (!names || names[bytes - 1] != '\0' || !tdm_utf8_is_valid(names, bytes)) {
    return tdm_fail(TDM_CORRUPT_DATA, CLASSES " are not names in UTF-8, each ended by a zero");
  }
  size_t count = 0;
  for (size_t i = 0; i < bytes; i++)
    count += names[i] == '\0';
  words->class_names =
      tdm_region_take(&words->region, count * sizeof(*words->class_names), "the names of classes");
  if (!words->class_names) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++) {
    if (names[0] == '\0') return tdm_fail(TDM_CORRUPT_DATA, CLASSES ": name %zu is empty", i);
    words->class_names[i] = names;
    names += strlen(names) + 1;
  }
  words->class_count = count;
  return TDM_OK;
}

tdm_words *tdm_words_from_saved(tdm_context *context, const tdm_tensor_list *list) {
  tdm_words *words = NULL;
  if (!context || !list) {
    (void)tdm_fail_null("words: %s", context ? "the list" : "context");
    return NULL;
  }
  if (tdm_words_init(context, &words) != TDM_OK) return NULL;
  tdm_status status = read_characters(words, list);
  if (status == TDM_OK) status = read_classes(words, list);
  if (status != TDM_OK) {
    (void)tdm_fail_within(status, "saved words");
    tdm_words_release(words);
    return NULL;
  }
  return words;
}
