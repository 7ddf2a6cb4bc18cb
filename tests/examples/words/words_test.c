/* Valid word lists: encodings, folding, kept words, samples, ids, saving. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/words/batches.h"
#include "tests/data/support.h"

static const word_options all_words = {.max_length = 24};

static word_set *make_words(const data_fixture *fixture, const char *const *texts, size_t count,
                            const word_options *options) {
  static const char *const names[] = {"one", "two", "three"};
  char paths[3][PATH_BYTES];
  word_list lists[3];
  for (size_t i = 0; i < count; i++)
    lists[i] = (word_list){.name = names[i], .path = write_text(paths[i], names[i], texts[i])};
  word_set *words = word_set_create(fixture->context, lists, count, options);
  if (!words) fail_msg("no words: %s", tdm_last_message());
  return words;
}

/* Returns the words of a part, as "class:word " in the order of the dataset, in UTF-8. */
static char *words_text(word_set *words, bool training) {
  const word_part *part = &words->parts[training];
  char *text = calloc(part->count + 1, 256);
  assert_non_null(text);
  size_t at = 0;
  for (size_t i = 0; i < part->count; i++) {
    const listed_word *word = &part->words[i];
    at += (size_t)sprintf(text + at, "%d:", word->class_index);
    for (int32_t j = 0; j < word->length; j++) {
      const uint32_t point = (uint32_t)words->points[words->ids[word->offset + (uint32_t)j] - 1];
      if (point >= 0x80) text[at++] = (char)(0xC0 | point >> 6);
      text[at++] = (char)(point >= 0x80 ? 0x80 | (point & 0x3F) : point);
    }
    text[at++] = ' ';
  }
  return text;
}

static void assert_has(word_set *words, const char *wanted) {
  char *text = words_text(words, true);
  char spaced[64];
  (void)snprintf(spaced, sizeof spaced, "%s ", wanted);
  if (!strstr(text, spaced)) fail_msg("%s is not in %s", wanted, text);
  free(text);
}

static void what_is_kept(void **state) {
  const char *const texts[] = {
      "Apple\napple\nAPPLE\n  plum \t\r\nan\nit\nabc\nr2d2\nnew york\ncan't\nco-op\n'''\n---\n"
      "fig.\nlongestwordofall\nboth\nsixsix\n\n\nna\xC3\xAFve\n\xC3\x89tude",
      "both\nBIRNE\nM\xC3\xBCll\nsixsix\nplum\xC2\xA0tree\n",
  };
  const word_options options = {.max_length = 6};
  word_set *words = make_words(*state, texts, 2, &options);
  for (const char *const *wanted =
           (const char *const[]){"0:apple", "0:plum", "0:abc", "0:can't", "0:co-op", "0:naïve",
                                 "0:étude", "1:birne", "1:müll", NULL};
       *wanted != NULL; wanted++)
    assert_has(words, *wanted);
  assert_int_equal(words->parts[true].count, 9); /* and no others */
  assert_int_equal(words->parts[false].count, 0);
  assert_int_equal(words->class_count, 2);
  assert_string_equal(word_set_class_name(words, 0), "one");
  assert_string_equal(word_set_class_name(words, 1), "two");
  assert_null(word_set_class_name(words, 2));
  word_set_release(words);
}

/* The same words in both encodings give the same alphabet and the same draw. */
static void encodings_make_no_difference(void **state) {
  const char *const utf8[] = {"f\xC3\xA4rg\n\xC3\x85ngstr\xC3\xB6m\nhus\nb\xC3\xA5t\n"};
  const char *const marked[] = {"\xEF\xBB\xBF"
                                "f\xC3\xA4rg\n\xC3\x85ngstr\xC3\xB6m\nhus\nb\xC3\xA5t\n"};
  const char *const latin1[] = {"f\xE4rg\n\xC5ngstr\xF6m\nhus\nb\xE5t\n"};
  word_set *first = make_words(*state, utf8, 1, &all_words);
  char *wanted = words_text(first, true);
  assert_int_equal(first->parts[true].count, 4);
  assert_has(first, "0:ångström");
  for (int i = 0; i < 2; i++) {
    word_set *other = make_words(*state, i == 0 ? latin1 : marked, 1, &all_words);
    char *text = words_text(other, true);
    assert_string_equal(text, wanted);
    assert_int_equal(word_set_character_count(other), word_set_character_count(first));
    free(text);
    word_set_release(other);
  }
  free(wanted);
  word_set_release(first);
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
  word_options options = {.per_class = 400, .max_length = 24, .seed = 3, .held_out = 0.1};
  word_set *words = make_words(*state, texts, 2, &options);
  char *training = words_text(words, true);
  char *evaluation = words_text(words, false);
  assert_int_equal(words->parts[false].count, 40 + 30);
  assert_int_equal(words->parts[true].count, 360 + 270);
  for (char *word = strtok(evaluation, " "); word != NULL; word = strtok(NULL, " ")) {
    char spaced[32];
    (void)snprintf(spaced, sizeof spaced, "%s ", word);
    if (strstr(training, spaced)) fail_msg("%s is in both parts", word);
  }
  word_set *again = make_words(*state, texts, 2, &options);
  char *text = words_text(again, true);
  assert_string_equal(text, training);
  free(text);
  word_set_release(again);
  options.seed = 4;
  again = make_words(*state, texts, 2, &options);
  text = words_text(again, true);
  assert_string_not_equal(text, training);
  free(text);
  /* The alphabet is of the lists, not of the sample. */
  assert_int_equal(word_set_character_count(again), word_set_character_count(words));
  word_set_release(again);
  word_set_release(words);
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
  const word_options options = {.per_class = 50, .max_length = 24, .held_out = 0.5};
  word_set *alone = make_words(*state, texts, 1, &options);
  word_set *both = make_words(*state, texts, 2, &options);
  char *first = words_text(alone, false);
  char *second = words_text(both, false);
  assert_int_equal(strncmp(first, second, strlen(first)), 0);
  free(first);
  free(second);
  word_set_release(alone);
  word_set_release(both);
  free(one);
  free(two);
}

static void words_are_encoded(void **state) {
  const char *const texts[] = {"cab\nd\xC3\xA9j\xC3\xA0\nit's\n"};
  word_set *words = make_words(*state, texts, 1, &all_words);
  /* ' a b c d i j s t à é, in the order of code points */
  assert_int_equal(word_set_character_count(words), 12);
  tdm_tensor *ids = word_set_encode(words, "D\xC3\x89J\xC3\xA0"
                                           "b'");
  assert_non_null(ids);
  const tdm_shape shape = tdm_tensor_shape(ids);
  const tdm_shape wanted_shape = tdm_shape_of(2, 6, 1);
  assert_true(tdm_shape_equal(&shape, &wanted_shape));
  assert_int_equal(tdm_tensor_dtype(ids), TDM_INT64);
  const int64_t wanted[] = {5, 11, 7, 10, 3, 1};
  assert_memory_equal(tdm_tensor_data(ids), wanted, sizeof wanted);
  tdm_tensor_release(ids);
  const struct {
    const char *word, *message;
  } table[] = {
      {"", "empty"},      {"zab", "'z' (U+007A)"}, {"ab\xC3\xBC", "'\xC3\xBC' (U+00FC)"},
      {"ab\xFF", "0xFF"}, {"ab\xC3", "byte 2"},    {"a b", "' ' (U+0020)"},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof table[0]; i++) {
    assert_null(word_set_encode(words, table[i].word));
    assert_message(table[i].message);
  }
  word_set_release(words);
  word_set_release(NULL);
}

static void saved_words_read_the_same(void **state) {
  const data_fixture *fixture = *state;
  const char *const texts[] = {"cab\nd\xC3\xA9j\xC3\xA0\nit's\n", "xyz\n"};
  char path[PATH_BYTES];
  word_set *words = make_words(fixture, texts, 2, &all_words);
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  assert_int_equal(word_set_save(words, list), TDM_OK);
  assert_int_equal(tdm_safetensors_save(list, temporary_path(path, "words.safetensors")), TDM_OK);
  tdm_tensor_list_release(list);
  list = tdm_safetensors_load(fixture->context, path);
  assert_non_null(list);
  word_set *again = word_set_from_saved(fixture->context, list);
  if (!again) fail_msg("no words: %s", tdm_last_message());
  tdm_tensor_list_release(list);
  assert_int_equal(word_set_character_count(again), word_set_character_count(words));
  assert_int_equal(again->class_count, 2);
  assert_string_equal(word_set_class_name(again, 1), "two");
  tdm_tensor *a = word_set_encode(words, "d\xC3\xA9"
                                         "x");
  tdm_tensor *b = word_set_encode(again, "d\xC3\xA9"
                                         "x");
  assert_memory_equal(tdm_tensor_data(a), tdm_tensor_data(b), 24);
  tdm_tensor_release(a);
  tdm_tensor_release(b);
  assert_null(word_set_dataset(again, true));
  assert_message("without lists");
  word_set_release(again);
  word_set_release(words);
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
