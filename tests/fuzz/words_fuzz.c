/* Word lists, and word tables that were saved. Invariant: every word of every list can be encoded
 * again, before saving and after; ids are below the count of characters. */
#include <stdlib.h>
#include <string.h>

#include "tandem/data/data.h"
#include "tests/fuzz/support.h"
#include "tests/options.h"

enum { MOST_LISTS = 3, MAX_LENGTH = 12, WORD_BYTES = 64 };

static void check_encoded(const tdm_words *words, const tdm_tensor *ids) {
  const int64_t *numbers = tdm_tensor_data(ids);
  const tdm_shape shape = tdm_tensor_shape(ids);
  fuzz_expect(shape.rank == 2 && shape.dims[1] == 1, "encoded words are (length, 1)");
  for (int64_t i = 0; i < shape.dims[0]; i++)
    fuzz_expect(numbers[i] > 0 && numbers[i] < tdm_words_character_count(words), "id %lld of %lld",
                (long long)numbers[i], (long long)tdm_words_character_count(words));
}

/* Encodes any word; whether it could be. */
static bool encode(tdm_words *words, const char *word) {
  tdm_tensor *ids = tdm_words_encode(words, word);
  if (!fuzz_judge_made(ids)) return false;
  check_encoded(words, ids);
  tdm_tensor_release(ids);
  return true;
}

static void check_epoch(tdm_words *words, bool training) {
  const tdm_loader_options options = OPTIONS(tdm_loader_options, o.batch_size = 4);
  tdm_loader *loader = tdm_words_loader(words, training, &options);
  if (!fuzz_judge_made(loader)) return;
  fuzz_expect(fuzz_judge(tdm_loader_start(loader, 0)), "a loader does not start");
  for (;;) {
    tdm_tensor *fields[2];
    int64_t rows = 0;
    fuzz_expect(fuzz_judge(tdm_loader_next(loader, fields, 2, &rows)), "a loader does not go on");
    if (rows == 0) break;
    const int64_t *classes = tdm_tensor_data(fields[1]);
    for (int64_t i = 0; i < rows; i++)
      fuzz_expect(classes[i] >= 0 && (size_t)classes[i] < tdm_words_class_count(words), "class");
    const int64_t *ids = tdm_tensor_data(fields[0]);
    const tdm_shape shape = tdm_tensor_shape(fields[0]);
    for (int64_t i = 0; i < tdm_shape_count(&shape); i++)
      fuzz_expect(ids[i] > 0 && ids[i] < tdm_words_character_count(words), "id");
    tdm_tensor_release(fields[0]);
    tdm_tensor_release(fields[1]);
  }
  tdm_loader_release(loader);
}

static void save_and_open(tdm_context *context, tdm_words *words, const char *word) {
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  fuzz_expect(fuzz_judge(tdm_words_save(words, list)), "words cannot be saved");
  tdm_words *again = tdm_words_from_saved(context, list);
  fuzz_expect(again != NULL, "saved words cannot be opened");
  fuzz_expect(tdm_words_class_count(again) == tdm_words_class_count(words), "classes");
  fuzz_expect(encode(again, word) == encode(words, word), "a word is read in another way");
  tdm_words_release(again);
  tdm_tensor_list_release(list);
}

static void read_lists(tdm_context *context, fuzz_input *input) {
  static const char *const names[MOST_LISTS] = {"one", "two", "three"};
  tdm_word_list lists[MOST_LISTS];
  const tdm_words_options options = OPTIONS(
      tdm_words_options, o.words_per_class = fuzz_below(input, 8), o.max_length = MAX_LENGTH,
      o.seed = fuzz_byte(input), o.held_out = fuzz_below(input, 5) / 4.0);
  char word[WORD_BYTES];
  (void)fuzz_word(input, word, sizeof word);
  size_t count = 0;
  do {
    size_t bytes = 0;
    char *text = fuzz_text(input, &bytes);
    lists[count] = (tdm_word_list){names[count], fuzz_file((unsigned)count, text, bytes)};
    count++;
    free(text);
  } while (input->size && count < MOST_LISTS);
  tdm_words *words = tdm_words_create(context, lists, count, &options);
  if (!fuzz_judge_made(words)) return;
  check_epoch(words, true);
  check_epoch(words, false);
  save_and_open(context, words, word);
  tdm_words_release(words);
}

static void add_tensor(tdm_context *context, tdm_tensor_list *list, const char *name,
                       tdm_dtype dtype, const void *bytes, size_t size) {
  const int64_t count = (int64_t)(size / tdm_dtype_bytes(dtype));
  tdm_tensor *tensor = tdm_tensor_from(context, dtype, tdm_shape_of(1, count), bytes);
  fuzz_expect(tensor && tdm_tensor_list_add(list, name, tensor) == TDM_OK, "no tensor");
  tdm_tensor_release(tensor);
}

static void open_saved(tdm_context *context, fuzz_input *input) {
  char word[WORD_BYTES];
  (void)fuzz_word(input, word, sizeof word);
  int32_t points[64]; /* of 16 bits each, so that most of them are letters */
  size_t bytes = 0;
  char *given = fuzz_text(input, &bytes);
  size_t count = 0;
  for (size_t i = 0; i + 1 < bytes && count < TDM_COUNT_OF(points); i += 2)
    points[count++] = (uint8_t)given[i] | (uint8_t)given[i + 1] << 8;
  free(given);
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  add_tensor(context, list, "words.characters", TDM_INT32, points, count * sizeof *points);
  add_tensor(context, list, "words.classes", TDM_UINT8, input->bytes, input->size);
  tdm_words *words = tdm_words_from_saved(context, list);
  if (fuzz_judge_made(words)) {
    (void)encode(words, word);
    for (size_t i = 0; i < tdm_words_class_count(words); i++)
      fuzz_expect(tdm_words_class_name(words, i)[0] != '\0', "a class without a name");
  }
  tdm_words_release(words);
  tdm_tensor_list_release(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tdm_context *context = fuzz_context(1, 1);
  const int64_t before = fuzz_outstanding();
  fuzz_input input = {data, size};
  if (fuzz_below(&input, 4) > 0)
    read_lists(context, &input);
  else
    open_saved(context, &input);
  fuzz_expect(fuzz_outstanding() == before, "memory is lost");
  return 0;
}
