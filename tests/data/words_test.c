/* Word lists that are good: encodings, folding, what is kept, samples, ids, saving. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/words.h"
#include "tests/data/support.h"
#include "tests/options.h"

static tdm_words *make_words(const data_fixture *fixture, const char *const *texts, size_t count,
                             const tdm_words_options *options) {
  static const char *const names[] = {"one", "two", "three"};
  char paths[3][PATH_BYTES];
  tdm_word_list lists[3];
  for (size_t i = 0; i < count; i++) {
    lists[i] = (tdm_word_list){.name = names[i], .path = write_text(paths[i], names[i], texts[i])};
  }
  tdm_words *words = tdm_words_create(fixture->context, lists, count, options);
  if (!words) fail_msg("no words: %s", tdm_last_message());
  return words;
}

/* The words of a part, as "class:word " in the order of the dataset, in UTF-8. */
static char *words_text(tdm_words *words, bool training) {
  const tdm_word_part *part = training ? &words->training : &words->evaluation;
  char *text = calloc((size_t)part->count + 1, 256);
  assert_non_null(text);
  size_t at = 0;
  for (int64_t i = 0; i < part->count; i++) {
    const tdm_word *word = &part->words[i];
    at += (size_t)sprintf(text + at, "%d:", word->class_index);
    for (int32_t j = 0; j < word->length; j++) {
      const uint32_t point = words->points[words->ids[word->offset + (uint32_t)j] - 1];
      if (point >= 0x80) text[at++] = (char)(0xC0 | point >> 6);
      text[at++] = (char)(point >= 0x80 ? 0x80 | (point & 0x3F) : point);
    }
    text[at++] = ' ';
  }
  return text;
}

static void assert_has(tdm_words *words, const char *wanted) {
  char *text = words_text(words, true);
  char spaced[64];
  (void)snprintf(spaced, sizeof(spaced), "%s ", wanted);
  if (!strstr(text, spaced)) fail_msg("%s is not in %s", wanted, text);
  free(text);
}

static void what_is_kept(void **state) {
  const char *const texts[] = {
      "Apple\napple\nAPPLE\n  plum \t\r\nan\nit\nabc\nr2d2\nnew york\ncan't\nco-op\n'''\n---\n"
      "fig.\nlongestwordofall\nboth\nsixsix\n\n\nna\xC3\xAFve\n\xC3\x89tude",
      "both\nBIRNE\nM\xC3\xBCll\nsixsix\nplum\xC2\xA0tree\n",
  };
  const tdm_words_options options = OPTIONS(tdm_words_options, o.max_length = 6);
  tdm_words *words = make_words(*state, texts, 2, &options);
  for (const char *const *wanted =
           (const char *const[]){"0:apple", "0:plum", "0:abc", "0:can't", "0:co-op", "0:naïve",
                                 "0:étude", "1:birne", "1:müll", NULL};
       *wanted != NULL; wanted++)
    assert_has(words, *wanted);
  assert_int_equal(words->training.count, 9); /* and nothing else */
  assert_int_equal(words->evaluation.count, 0);
  assert_int_equal(tdm_words_class_count(words), 2);
  assert_string_equal(tdm_words_class_name(words, 0), "one");
  assert_string_equal(tdm_words_class_name(words, 1), "two");
  assert_null(tdm_words_class_name(words, 2));
  tdm_words_release(words);
}

/* The same words in both encodings give the same alphabet and the same draw. */
static void encodings_make_no_difference(void **state) {
  const char *const utf8[] = {"f\xC3\xA4rg\n\xC3\x85ngstr\xC3\xB6m\nhus\nb\xC3\xA5t\n"};
  const char *const marked[] = {"\xEF\xBB\xBF"
                                "f\xC3\xA4rg\n\xC3\x85ngstr\xC3\xB6m\nhus\nb\xC3\xA5t\n"};
  const char *const latin1[] = {"f\xE4rg\n\xC5ngstr\xF6m\nhus\nb\xE5t\n"};
  tdm_words *first = make_words(*state, utf8, 1, NULL);
  char *wanted = words_text(first, true);
  assert_int_equal(first->training.count, 4);
  assert_has(first, "0:ångström");
  for (int i = 0; i < 2; i++) {
    tdm_words *other = make_words(*state, i == 0 ? latin1 : marked, 1, NULL);
    char *text = words_text(other, true);
    assert_string_equal(text, wanted);
    assert_int_equal(tdm_words_character_count(other), tdm_words_character_count(first));
    free(text);
    tdm_words_release(other);
  }
  free(wanted);
  tdm_words_release(first);
}

/* count different words that begin with prefix. */
static char *many_words(const char *prefix, int count) {
  char *text = calloc((size_t)count, 16);
  size_t at = 0;
  for (int i = 0; i < count; i++) {
    at += (size_t)sprintf(text + at, "%s%c%c%c\n", prefix, 'a' + i / 676, 'a' + i / 26 % 26,
                          'a' + i % 26);
  }
  return text;
}

static void samples_are_seeded_and_disjoint(void **state) {
  char *one = many_words("x", 1000);
  char *two = many_words("y", 300);
  const char *const texts[] = {one, two};
  tdm_words_options options =
      OPTIONS(tdm_words_options, o.words_per_class = 400, o.seed = 3, o.held_out = 0.1);
  tdm_words *words = make_words(*state, texts, 2, &options);
  char *training = words_text(words, true);
  char *evaluation = words_text(words, false);
  assert_int_equal(words->evaluation.count, 40 + 30);
  assert_int_equal(words->training.count, 360 + 270);
  for (char *word = strtok(evaluation, " "); word != NULL; word = strtok(NULL, " ")) {
    char spaced[32];
    (void)snprintf(spaced, sizeof(spaced), "%s ", word);
    if (strstr(training, spaced)) fail_msg("%s is in both parts", word);
  }
  tdm_words *again = make_words(*state, texts, 2, &options);
  char *text = words_text(again, true);
  assert_string_equal(text, training);
  free(text);
  tdm_words_release(again);
  options.seed = 4;
  again = make_words(*state, texts, 2, &options);
  text = words_text(again, true);
  assert_string_not_equal(text, training);
  free(text);
  /* The alphabet is of the lists, not of the sample. */
  assert_int_equal(tdm_words_character_count(again), tdm_words_character_count(words));
  tdm_words_release(again);
  tdm_words_release(words);
  free(training);
  free(evaluation);
  free(one);
  free(two);
}

/* A class's draw does not change when another list is added that shares no word. */
static void other_lists_do_not_change_a_draw(void **state) {
  char *one = many_words("x", 500);
  char *two = many_words("y", 500);
  const char *const texts[] = {one, two};
  const tdm_words_options options =
      OPTIONS(tdm_words_options, o.words_per_class = 50, o.held_out = 0.5);
  tdm_words *alone = make_words(*state, texts, 1, &options);
  tdm_words *both = make_words(*state, texts, 2, &options);
  char *first = words_text(alone, false);
  char *second = words_text(both, false);
  assert_int_equal(strncmp(first, second, strlen(first)), 0);
  free(first);
  free(second);
  tdm_words_release(alone);
  tdm_words_release(both);
  free(one);
  free(two);
}

static void words_are_encoded(void **state) {
  const char *const texts[] = {"cab\nd\xC3\xA9j\xC3\xA0\nit's\n"};
  tdm_words *words = make_words(*state, texts, 1, NULL);
  /* ' a b c d i j s t à é, in the order of code points */
  assert_int_equal(tdm_words_character_count(words), 12);
  tdm_tensor *ids = tdm_words_encode(words, "D\xC3\x89J\xC3\xA0"
                                            "b'");
  assert_non_null(ids);
  const tdm_shape shape = tdm_tensor_shape(ids);
  const tdm_shape wanted_shape = tdm_shape_of(2, 6, 1);
  assert_true(tdm_shape_equal(&shape, &wanted_shape));
  assert_int_equal(tdm_tensor_dtype(ids), TDM_INT64);
  const int64_t wanted[] = {5, 11, 7, 10, 3, 1};
  assert_memory_equal(tdm_tensor_data(ids), wanted, sizeof(wanted));
  tdm_tensor_release(ids);
  const struct {
    const char *word, *message;
  } table[] = {
      {"", "empty"},      {"zab", "'z' (U+007A)"}, {"ab\xC3\xBC", "'\xC3\xBC' (U+00FC)"},
      {"ab\xFF", "0xFF"}, {"ab\xC3", "byte 2"},    {"a b", "' ' (U+0020)"},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    assert_null(tdm_words_encode(words, table[i].word));
    assert_message(table[i].message);
  }
  assert_null(tdm_words_encode(words, NULL));
  assert_null(tdm_words_encode(NULL, "abc"));
  tdm_words_release(words);
  tdm_words_release(NULL);
}

static void saved_words_read_the_same(void **state) {
  const data_fixture *fixture = *state;
  const char *const texts[] = {"cab\nd\xC3\xA9j\xC3\xA0\nit's\n", "xyz\n"};
  char path[PATH_BYTES];
  tdm_words *words = make_words(fixture, texts, 2, NULL);
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  assert_int_equal(tdm_words_save(words, list), TDM_OK);
  assert_int_equal(tdm_words_save(words, list), TDM_INVALID_ARGUMENT); /* there already */
  assert_int_equal(tdm_safetensors_save(list, temporary_path(path, "words.safetensors")), TDM_OK);
  tdm_tensor_list_release(list);
  list = tdm_safetensors_load(fixture->context, path);
  assert_non_null(list);
  tdm_words *again = tdm_words_from_saved(fixture->context, list);
  if (!again) fail_msg("no words: %s", tdm_last_message());
  tdm_tensor_list_release(list);
  assert_int_equal(tdm_words_character_count(again), tdm_words_character_count(words));
  assert_int_equal(tdm_words_class_count(again), 2);
  assert_string_equal(tdm_words_class_name(again, 1), "two");
  tdm_tensor *a = tdm_words_encode(words, "d\xC3\xA9"
                                          "x");
  tdm_tensor *b = tdm_words_encode(again, "d\xC3\xA9"
                                          "x");
  assert_memory_equal(tdm_tensor_data(a), tdm_tensor_data(b), 24);
  tdm_tensor_release(a);
  tdm_tensor_release(b);
  assert_null(tdm_words_dataset(again, true));
  assert_message("without lists");
  assert_null(tdm_words_loader(again, true, NULL));
  tdm_words_release(again);
  tdm_words_release(words);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_is_kept, set_up, tear_down),
      cmocka_unit_test_setup_teardown(encodings_make_no_difference, set_up, tear_down),
      cmocka_unit_test_setup_teardown(samples_are_seeded_and_disjoint, set_up, tear_down),
      cmocka_unit_test_setup_teardown(other_lists_do_not_change_a_draw, set_up, tear_down),
      cmocka_unit_test_setup_teardown(words_are_encoded, set_up, tear_down),
      cmocka_unit_test_setup_teardown(saved_words_read_the_same, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
