/* Invalid word lists, invalid options, and inconsistent saved words: each message names the list,
 * the file, and the error. */
#define _GNU_SOURCE /* mkdir */
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "examples/words/words.h"
#include "tests/data/support.h"

static const word_options all_words = {.max_length = 24};

/* Expects the second of two lists to be refused, with its name, its path and a word. */
static void assert_refused(const data_fixture *fixture, const char *path, const char *message) {
  char good[PATH_BYTES];
  const word_list lists[] = {{"good", write_text(good, "good.txt", "some\ngood\nwords\n")},
                             {"klingon", path}};
  assert_null(word_set_create(fixture->context, lists, 2, &all_words));
  assert_message("klingon");
  assert_message(path);
  assert_message(message);
}

static void files_that_are_no_lists(void **state) {
  const struct {
    const char *text;
    size_t size;
    const char *message;
  } table[] = {
      {"", 0, "empty"},
      {" \n\t\r\n", 5, "empty"},
      {"abc\0def\n", 8, "not text: byte 3 is zero"},
      {"\x7F"
       "ELF\x02\x01\x01\0\0\0",
       10, "not text"},
      {"f\xE4rg\ngr\xC3\xBCn\n", 11, "neither UTF-8 (see line 1) nor ISO-8859-1"},
      {"abc\n\xC3(\n\x81\n", 9, "neither UTF-8 (see line 2)"},
      {"12345\n67890\nabc\n", 16, "no list of words: 3 letters and 10 other"},
      {"{\"a\": [1, 2, 3]}\n", 17, "no list of words"},
      {"ab\ncd\n", 6, "no word of its own"},
      {"some\nwords\n", 11, "no word of its own"},
  };
  char path[PATH_BYTES];
  for (size_t i = 0; i < sizeof(table) / sizeof table[0]; i++)
    assert_refused(*state, write_file(path, "bad.txt", table[i].text, table[i].size),
                   table[i].message);
}

static void paths_that_are_no_files(void **state) {
  char path[PATH_BYTES];
  assert_refused(*state, temporary_path(path, "missing.txt"), "No such file");
  assert_refused(*state, temporary_path(path, "missing/list.txt"), "No such file");
  assert_int_equal(mkdir(temporary_path(path, "folder"), 0777), 0);
  assert_refused(*state, path, "Is a directory");
  write_text(path, "secret.txt", "abc\n");
  assert_int_equal(chmod(path, 0), 0);
  if (geteuid() != 0) assert_refused(*state, path, "Permission denied");
}

static void lists_and_options_that_do_not_fit(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES];
  write_text(path, "list.txt", "some\ngood\nwords\n");
  const struct {
    const char *message;
    word_options options;
  } table[] = {
      {"max_length is 0", {.max_length = 0}},
      {"per_class is -5", {.max_length = 24, .per_class = -5}},
      {"max_length is 2", {.max_length = 2}},
      {"max_length is -1", {.max_length = -1}},
      {"max_length is 1000000", {.max_length = 1000000}},
      {"held_out is 1,", {.max_length = 24, .held_out = 1}},
      {"held_out is -0.5", {.max_length = 24, .held_out = -0.5}},
      {"held_out is", {.max_length = 24, .held_out = NAN}},
  };
  const word_list good = {"good", path};
  for (size_t i = 0; i < sizeof(table) / sizeof table[0]; i++) {
    assert_null(word_set_create(fixture->context, &good, 1, &table[i].options));
    assert_message(table[i].message);
  }
  const word_list twice[] = {good, good};
  assert_null(word_set_create(fixture->context, twice, 2, &all_words));
  assert_message("two lists are named good");
  assert_null(word_set_create(fixture->context, &good, 0, &all_words));
}

/* Asserts that a list of up to two tensors is refused; a tensor that is NULL is left out. */
static void assert_saved_refused(const data_fixture *fixture, tdm_tensor *characters,
                                 tdm_tensor *classes, const char *message) {
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  if (characters)
    assert_int_equal(tdm_tensor_list_add(list, "words.characters", characters), TDM_OK);
  if (classes) assert_int_equal(tdm_tensor_list_add(list, "words.classes", classes), TDM_OK);
  assert_null(word_set_from_saved(fixture->context, list));
  assert_message("saved words");
  assert_message(message);
  tdm_tensor_list_release(list);
}

static tdm_tensor *make_row(const data_fixture *fixture, tdm_dtype dtype, int64_t count,
                            const void *data) {
  tdm_tensor *row = tdm_tensor_from(fixture->context, dtype, tdm_shape_of(1, count), data);
  assert_non_null(row);
  return row;
}

static void saved_words_that_lie(void **state) {
  const data_fixture *fixture = *state;
  const int32_t good_points[] = {'a', 'b', 0xE9};
  tdm_tensor *points = make_row(fixture, TDM_INT32, 3, good_points);
  tdm_tensor *names = make_row(fixture, TDM_UINT8, 8, "one\0two");
  assert_saved_refused(fixture, NULL, names, "no tensor words.characters");
  assert_saved_refused(fixture, points, NULL, "no tensor words.classes");
  assert_saved_refused(fixture, names, names, "words.characters is uint8");
  assert_saved_refused(fixture, points, points, "words.classes is int32");
  static const int32_t bad_points[][2] = {{'b', 'a'},      {'a', 'a'},       {0, 'a'},  {-1, 'a'},
                                          {'a', 0x110000}, {'a', INT32_MIN}, {'1', 'a'}};
  for (size_t i = 0; i < sizeof bad_points / sizeof bad_points[0]; i++) {
    tdm_tensor *bad = make_row(fixture, TDM_INT32, 2, bad_points[i]);
    assert_saved_refused(fixture, bad, names, "words.characters[");
    tdm_tensor_release(bad);
  }
  static const char *const bad_names[] = {"one\0tw", "\0one\0", "one\0\0o", "on\xFF\xFEo\0"};
  for (size_t i = 0; i < sizeof bad_names / sizeof bad_names[0]; i++) {
    tdm_tensor *bad = make_row(fixture, TDM_UINT8, i == 0 ? 6 : 5, bad_names[i]);
    assert_saved_refused(fixture, points, bad, "words.classes");
    tdm_tensor_release(bad);
  }
  tdm_tensor *empty = make_row(fixture, TDM_UINT8, 0, "");
  assert_saved_refused(fixture, points, empty, "words.classes is");
  tdm_tensor_release(empty);
  tdm_tensor_release(points);
  tdm_tensor_release(names);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(files_that_are_no_lists, set_up, tear_down),
      cmocka_unit_test_setup_teardown(paths_that_are_no_files, set_up, tear_down),
      cmocka_unit_test_setup_teardown(lists_and_options_that_do_not_fit, set_up, tear_down),
      cmocka_unit_test_setup_teardown(saved_words_that_lie, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
