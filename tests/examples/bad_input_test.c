/* distributed_model with invalid input: it ends with exit code 1 and a message that names the
 * error, and every file is unchanged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/examples/program.h"

#define LISTS "--words low=low.txt --words high=high.txt --words-per-language 100 "
#define TRAIN LISTS "--epochs 1 "

/* A valid model, its bytes, and lists. */
static char *model_bytes;
static size_t model_size;

static int make_files(void **state) {
  (void)state;
  write_words("low.txt", 'a', 'm', 200, 1);
  write_words("high.txt", 'n', 'z', 200, 2);
  outcome ended = program_run(TRAIN "--save model.safetensors");
  assert_int_equal(ended.exit_code, 0);
  outcome_free(&ended);
  model_bytes = read_whole("model.safetensors", &model_size);
  return 0;
}

static int free_files(void **state) {
  (void)state;
  free(model_bytes);
  return 0;
}

/* Each must fail and print both texts. */
static void expect_failure(const char *arguments, const char *names, const char *reason) {
  program_expect(arguments, 1, (const char *const[]){"distributed_model: ", names, reason, NULL});
}

static void refuses_options(void **state) {
  (void)state;
  expect_failure("--fast", "\"--fast\"", "no option");
  expect_failure("words.txt", "\"words.txt\"", "no option");
  expect_failure("--epochs", "--epochs", "needs N");
  expect_failure("--epochs many", "--epochs", "\"many\"");
  expect_failure("--epochs -1", "--epochs", "\"-1\"");
  expect_failure("--batch 0", "--batch", "\"0\"");
  expect_failure("--batch 1e3", "--batch", "\"1e3\"");
  expect_failure("--seed 99999999999999999999", "--seed", "whole number");
  expect_failure("--learning-rate nan", "--learning-rate", "\"nan\"");
  expect_failure("--predict", "--predict", "got none");
  expect_failure("--predict a --predict b", "--predict", "twice");
  expect_failure("--words english", "--words", "\"english\"");
  expect_failure("--words low=low.txt", "--words", "one language");
}

static void names_the_device(void **state) {
  (void)state;
  expect_failure(TRAIN "--place '*=tpu:0'", "tpu:0", "no kind of device");
  expect_failure(TRAIN "--place '*=cpu:99'", "cpu:99", "the context has");
  expect_failure(TRAIN "--place '*=cuda:0'", "cuda:0", "CUDA");
  expect_failure(TRAIN "--place 'embeding=cpu:0,*=sim:0'", "embeding", "nothing is named");
  expect_failure(TRAIN "--place 'embedding'", "embedding", "NAME=DEVICE");
  expect_failure(TRAIN "--data-parallel cpu:0,cpu:99", "cpu:99", "the context has");
  expect_failure(TRAIN "--data-parallel cpu:0,,cpu:0", "cpu:0,,cpu:0", "no list of devices");
  expect_failure(TRAIN "--data-parallel cpu:0,cpu:0 --place '*=cpu:0'", "rnn", "parallel region");
}

static void names_the_word_list(void **state) {
  (void)state;
  expect_failure("--words low=low.txt --words gone=no/such/file", "no/such/file", "gone");
  static const unsigned char picture[] = {0x89, 'P', 'N', 'G', 0, 1, 2, 3, 0, 0xff, 0xfe, '\n'};
  write_file("picture.txt", picture, sizeof picture);
  expect_failure("--words low=low.txt --words image=picture.txt", "picture.txt", "image");
  write_file("empty.txt", "", 0);
  expect_failure("--words low=low.txt --words nothing=empty.txt", "empty.txt", "nothing");
  expect_failure("--words low=low.txt --words folder=.", "folder", "directory");
}

static void names_the_unknown_character(void **state) {
  (void)state;
  expect_failure(TRAIN "--predict abc 日本", "日本", "U+65E5");
  expect_failure("--load model.safetensors --predict 'a b'", "a b", "--predict");
}

/* A model file of these bytes must be refused, naming the file. */
static void expect_refused(const char *path, const void *bytes, size_t size, const char *reason) {
  write_file(path, bytes, size);
  char arguments[256];
  (void)snprintf(arguments, sizeof arguments, "--load %s --predict abc", path);
  expect_failure(arguments, path, reason);
}

static void refuses_broken_files(void **state) {
  (void)state;
  expect_failure("--load no/model --predict abc", "no/model", "No such file");
  expect_refused("short.safetensors", model_bytes, 5, "truncated");
  expect_refused("cut.safetensors", model_bytes, model_size - 1, "data_offsets");
  expect_refused("header.safetensors", model_bytes, 40, "truncated");
  static const unsigned char huge[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, '{', '}'};
  expect_refused("huge.safetensors", huge, sizeof huge, "header size");
  static const char text[] = "this is no model, only some words in a file\n";
  expect_refused("text.safetensors", text, sizeof text, "header size");
  static const char empty[] = "\x02\0\0\0\0\0\0\0{}";
  expect_refused("empty.safetensors", empty, sizeof empty - 1, "words.characters");
}

/* Writes the saved model anew with one tensor left out, or (without_rows) without its last row. */
static void write_changed(const char *path, const char *changed, bool without_rows) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_tensor_list *list = tdm_safetensors_load(context, "model.safetensors");
  tdm_tensor_list *other = tdm_tensor_list_create(context);
  assert_non_null(list);
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const char *name = tdm_tensor_list_name(list, i);
    tdm_tensor *tensor = tdm_tensor_retain(tdm_tensor_list_tensor(list, i));
    const bool is_changed = strcmp(name, changed) == 0;
    if (is_changed && without_rows) {
      tdm_tensor *whole = tensor;
      tensor = tdm_tensor_slice(whole, 0, tdm_tensor_shape(whole).dims[0] - 1);
      tdm_tensor_release(whole);
    }
    if (!is_changed || without_rows)
      assert_int_equal(tdm_tensor_list_add(other, name, tensor), TDM_OK);
    tdm_tensor_release(tensor);
  }
  assert_int_equal(tdm_safetensors_save(other, path), TDM_OK);
  tdm_tensor_list_release(other);
  tdm_tensor_list_release(list);
  tdm_context_release(context);
}

static void refuses_models_that_do_not_fit(void **state) {
  (void)state;
  write_changed("partial.safetensors", "rnn.weight_hh_l0", false);
  expect_failure("--load partial.safetensors --predict abc", "partial.safetensors",
                 "rnn.weight_hh_l0");
  /* An alphabet with more characters than the table has rows: ids outside the table. */
  write_changed("narrow.safetensors", "embedding.weight", true);
  expect_failure("--load narrow.safetensors --predict abc", "narrow.safetensors",
                 "embedding.weight");
  write_words("other.txt", 'f', 'z', 200, 3);
  expect_failure("--words low=low.txt --words other=other.txt --load model.safetensors",
                 "model.safetensors", "other lists");
}

/* A failing run leaves the file it was to write as it was. */
static void overwrites_nothing(void **state) {
  (void)state;
  write_file("kept.safetensors", "kept", 4);
  expect_failure(TRAIN "--learning-rate 1e38 --epochs 3 --save kept.safetensors", "loss", "finite");
  expect_failure("--words a=no/such/file --words low=low.txt --save kept.safetensors", "no/such",
                 "No such file");
  expect_failure(TRAIN "--place '*=tpu:0' --save kept.safetensors --dot kept.safetensors", "tpu:0",
                 "no kind of device");
  size_t size = 0;
  char *bytes = read_whole("kept.safetensors", &size);
  assert_int_equal(size, 4);
  assert_memory_equal(bytes, "kept", 4);
  free(bytes);
}

static void says_early_that_it_cannot_write(void **state) {
  (void)state;
  assert_int_equal(mkdir("folder", 0700), 0);
  expect_failure(TRAIN "--save no/such/model", "no/such/model", "No such file");
  expect_failure(TRAIN "--save folder", "folder", "is a folder");
  expect_failure(TRAIN "--dot no/such/plan", "no/such/plan", "No such file");
  outcome ended = program_run(TRAIN "--save no/such/model");
  assert_null(strstr(ended.output, "epoch"));
  outcome_free(&ended);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  program_use(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses_options),      cmocka_unit_test(names_the_device),
      cmocka_unit_test(names_the_word_list),  cmocka_unit_test(names_the_unknown_character),
      cmocka_unit_test(refuses_broken_files), cmocka_unit_test(refuses_models_that_do_not_fit),
      cmocka_unit_test(overwrites_nothing),   cmocka_unit_test(says_early_that_it_cannot_write),
  };
  return cmocka_run_group_tests(tests, make_files, free_files);
}
