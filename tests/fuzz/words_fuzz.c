/* Word lists, and word tables that were saved. Invariant: every word of every list can be encoded
 * again, before saving and after; ids are below the count of characters. */
#include <stdlib.h>
#include <string.h>

#include "examples/words/batches.h"
#include "tests/fuzz/support.h"
#include "tests/options.h"

enum { MOST_LISTS = 3, MAX_LENGTH = 12, WORD_BYTES = 64 };

static void check_encoded(const word_set *words, const tdm_tensor *ids) {
  const int64_t *numbers = tdm_tensor_data(ids);
  const tdm_shape shape = tdm_tensor_shape(ids);
  fuzz_expect(shape.rank == 2 && shape.dims[1] == 1, "encoded words are (length, 1)");
  for (int64_t i = 0; i < shape.dims[0]; i++)
    fuzz_expect(numbers[i] > 0 && numbers[i] < word_set_character_count(words), "id %lld of %lld",
                (long long)numbers[i], (long long)word_set_character_count(words));
}

/* Encodes any word; whether it could be. */
static bool encode(word_set *words, const char *word) {
  tdm_tensor *ids = word_set_encode(words, word);
  if (!fuzz_judge_made(ids)) return false;
  check_encoded(words, ids);
  tdm_tensor_release(ids);
  return true;
}

static void check_epoch(word_set *words, bool training) {
  const tdm_loader_options options = OPTIONS(tdm_loader_options, o.batch_size = 4);
  tdm_loader *loader = word_set_loader(words, training, &options);
  if (!fuzz_judge_made(loader)) return;
  fuzz_expect(fuzz_judge(tdm_loader_start(loader, 0)), "a loader does not start");
  for (;;) {
    batch taken = {.rows = 0};
    fuzz_expect(fuzz_judge(tdm_loader_next(loader, taken.fields, 3, &taken.rows)),
                "a loader does not go on");
    if (taken.rows == 0) break;
    fuzz_expect(fuzz_judge(word_batch_arrange(words->context, NULL, &taken)), "no batch");
    const int64_t *classes = tdm_tensor_data(taken.fields[1]);
    for (int64_t i = 0; i < taken.rows; i++)
      fuzz_expect(classes[i] >= 0 && (size_t)classes[i] < words->class_count, "class");
    const int64_t *ids = tdm_tensor_data(taken.fields[0]);
    const tdm_shape shape = tdm_tensor_shape(taken.fields[0]);
    for (int64_t i = 0; i < tdm_shape_count(&shape); i++)
      fuzz_expect(ids[i] > 0 && ids[i] < word_set_character_count(words), "id");
    batch_release(&taken);
  }
  tdm_loader_release(loader);
}

static void save_and_open(tdm_context *context, word_set *words, const char *word) {
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  fuzz_expect(fuzz_judge(word_set_save(words, list)), "words cannot be saved");
  word_set *again = word_set_from_saved(context, list);
  fuzz_expect(again != NULL, "saved words cannot be opened");
  fuzz_expect(again->class_count == words->class_count, "classes");
  fuzz_expect(encode(again, word) == encode(words, word), "a word is read in another way");
  word_set_release(again);
  tdm_tensor_list_release(list);
}

static void read_lists(tdm_context *context, fuzz_input *input) {
  static const char *const names[MOST_LISTS] = {"one", "two", "three"};
  word_list lists[MOST_LISTS];
  const word_options options = {.per_class = fuzz_below(input, 8),
                                .max_length = MAX_LENGTH,
                                .seed = fuzz_byte(input),
                                .held_out = fuzz_below(input, 5) / 4.0};
  char word[WORD_BYTES];
  (void)fuzz_word(input, word, sizeof word);
  size_t count = 0;
  do {
    size_t bytes = 0;
    char *text = fuzz_text(input, &bytes);
    lists[count] = (word_list){names[count], fuzz_file((unsigned)count, text, bytes)};
    count++;
    free(text);
  } while (input->size && count < MOST_LISTS);
  word_set *words = word_set_create(context, lists, count, &options);
  if (!fuzz_judge_made(words)) return;
  check_epoch(words, true);
  check_epoch(words, false);
  save_and_open(context, words, word);
  word_set_release(words);
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
  int32_t points[64]; /* code points below 65536, so most are letters */
  size_t bytes = 0;
  char *given = fuzz_text(input, &bytes);
  size_t count = 0;
  for (size_t i = 0; i + 1 < bytes && count < TDM_COUNT_OF(points); i += 2)
    points[count++] = (uint8_t)given[i] | (uint8_t)given[i + 1] << 8;
  free(given);
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  add_tensor(context, list, "words.characters", TDM_INT32, points, count * sizeof *points);
  add_tensor(context, list, "words.classes", TDM_UINT8, input->bytes, input->size);
  word_set *words = word_set_from_saved(context, list);
  if (fuzz_judge_made(words)) {
    (void)encode(words, word);
    for (size_t i = 0; i < words->class_count; i++)
      fuzz_expect(word_set_class_name(words, i)[0] != '\0', "a class without a name");
  }
  word_set_release(words);
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
