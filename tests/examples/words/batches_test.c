/* Words as a padded dataset and as batches of one length: both hold the same words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/words/batches.h"
#include "tests/data/support.h"
#include "tests/options.h"

enum { WORDS = 240, LENGTH = 9 };

/* Creates 240 words of lengths 3 to 9 in two classes. */
static word_set *make_words(const data_fixture *fixture) {
  char paths[2][PATH_BYTES];
  word_list lists[2];
  static const char *const names[] = {"left", "right"};
  for (int list = 0; list < 2; list++) {
    char text[WORDS * 16];
    size_t at = 0;
    for (int i = 0; i < WORDS / 2; i++) {
      at += (size_t)sprintf(text + at, "%c%c%c", list == 0 ? 'l' : 'r', 'a' + i / 26, 'a' + i % 26);
      for (int j = 0; j < i % 7; j++)
        text[at++] = (char)('a' + (i + j) % 26);
      text[at++] = '\n';
    }
    lists[list] = (word_list){names[list], write_file(paths[list], names[list], text, at)};
  }
  const word_options options = {.max_length = LENGTH, .held_out = 0.25};
  word_set *words = word_set_create(fixture->context, lists, 2, &options);
  if (!words) fail_msg("no words: %s", tdm_last_message());
  return words;
}

/* One word: its class, its length, its ids. */
typedef struct row {
  int64_t class_index;
  int64_t length;
  int64_t ids[LENGTH];
} row;

static int compare_rows(const void *left, const void *right) {
  return memcmp(left, right, sizeof(row));
}

static int64_t read_dataset(word_set *words, bool training, row *rows) {
  tdm_dataset *dataset = word_set_dataset(words, training);
  assert_non_null(dataset);
  const int64_t length = tdm_dataset_length(dataset);
  const tdm_loader_options options = OPTIONS(tdm_loader_options, o.batch_size = length);
  tdm_loader *loader = tdm_loader_create(dataset, &options);
  tdm_dataset_release(dataset);
  tdm_tensor *fields[3];
  int64_t count = 0;
  assert_int_equal(tdm_loader_next(loader, fields, 3, &count), TDM_OK);
  assert_int_equal(count, length);
  const tdm_shape shape = tdm_tensor_shape(fields[0]);
  const tdm_shape wanted = tdm_shape_of(2, length, LENGTH);
  assert_true(tdm_shape_equal(&shape, &wanted));
  const int64_t *characters = tdm_tensor_data(fields[0]); /* (length, LENGTH) */
  const int64_t *lengths = tdm_tensor_data(fields[1]);    /* (length) */
  const int64_t *classes = tdm_tensor_data(fields[2]);    /* (length) */
  for (int64_t i = 0; i < length; i++) {
    rows[i].class_index = classes[i];
    rows[i].length = lengths[i];
    memcpy(rows[i].ids, characters + i * LENGTH, sizeof rows[i].ids);
    for (int64_t j = 0; j < LENGTH; j++)
      assert_true((rows[i].ids[j] == 0) == (j >= lengths[i]));
  }
  for (int i = 0; i < 3; i++)
    tdm_tensor_release(fields[i]);
  tdm_loader_release(loader);
  return length;
}

static int64_t read_loader(tdm_context *context, tdm_loader *loader, row *rows) {
  for (int64_t count = 0;;) {
    batch taken = {.rows = 0};
    assert_int_equal(tdm_loader_next(loader, taken.fields, 3, &taken.rows), TDM_OK);
    const int64_t batch_rows = taken.rows;
    if (batch_rows == 0) return count;
    assert_int_equal(word_batch_arrange(context, count % 2 ? "sim:0" : NULL, &taken), TDM_OK);
    const tdm_shape shape = tdm_tensor_shape(taken.fields[0]);
    assert_int_equal(shape.rank, 2);
    assert_int_equal(shape.dims[1], batch_rows);
    const int64_t *characters = tdm_tensor_data(taken.fields[0]); /* (length, batch_rows) */
    const int64_t *classes = tdm_tensor_data(taken.fields[1]);    /* (batch_rows) */
    for (int64_t i = 0; i < batch_rows; i++, count++) {
      rows[count] = (row){.class_index = classes[i], .length = shape.dims[0]};
      for (int64_t j = 0; j < shape.dims[0]; j++) {
        rows[count].ids[j] = characters[j * batch_rows + i];
        assert_true(rows[count].ids[j] > 0); /* no padding */
      }
    }
    batch_release(&taken);
  }
}

static void batches_hold_the_words_of_the_dataset(void **state) {
  const data_fixture *fixture = *state;
  word_set *words = make_words(fixture);
  for (int training = 0; training < 2; training++) {
    row rows[WORDS] = {{0}};
    row wanted[WORDS] = {{0}};
    const int64_t length = read_dataset(words, training, wanted);
    assert_int_equal(length, training ? 180 : 60);
    const tdm_loader_options options =
        OPTIONS(tdm_loader_options, o.batch_size = 8, o.shuffle = true, o.prefetch = training);
    tdm_loader *loader = word_set_loader(words, training, &options);
    assert_non_null(loader);
    assert_int_equal(read_loader(fixture->context, loader, rows), length);
    qsort(rows, (size_t)length, sizeof(row), compare_rows);
    qsort(wanted, (size_t)length, sizeof(row), compare_rows);
    assert_memory_equal(rows, wanted, (size_t)length * sizeof(row));
    tdm_loader_release(loader);
  }
  word_set_release(words);
}

static void asking_encodes_as_training_does(void **state) {
  word_set *words = make_words(*state);
  row rows[WORDS];
  const int64_t length = read_dataset(words, true, rows);
  for (int64_t i = 0; i < length; i++) {
    char word[LENGTH + 1] = {0};
    for (int64_t j = 0; j < rows[i].length; j++)
      word[j] = (char)words->points[rows[i].ids[j] - 1];
    tdm_tensor *ids = word_set_encode(words, word);
    assert_int_equal(tdm_tensor_bytes(ids), (size_t)rows[i].length * 8);
    assert_memory_equal(tdm_tensor_data(ids), rows[i].ids, (size_t)rows[i].length * 8);
    tdm_tensor_release(ids);
    assert_int_equal(word[0], rows[i].class_index == 0 ? 'l' : 'r');
  }
  word_set_release(words);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(batches_hold_the_words_of_the_dataset, set_up, tear_down),
      cmocka_unit_test_setup_teardown(asking_encodes_as_training_does, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
