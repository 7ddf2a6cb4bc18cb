/* The part of messages about unknown names. */
#include "core/choices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void distances_are_the_fewest_changes(void **state) {
  (void)state;
  static const struct {
    const char *a, *b;
    size_t distance;
  } cases[] = {
      {"", "", 0},           {"", "abc", 3},       {"input", "input", 0},  {"imput", "input", 1},
      {"inptu", "input", 1}, {"iput", "input", 1}, {"inputs", "input", 1}, {"kitten", "sitting", 3},
      {"ab", "ba", 1},       {"ca", "abc", 3},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(tdm_edit_distance(cases[i].a, cases[i].b, 9), cases[i].distance);
    assert_int_equal(tdm_edit_distance(cases[i].b, cases[i].a, 9), cases[i].distance);
    for (size_t limit = 0; limit < cases[i].distance; limit++)
      assert_int_equal(tdm_edit_distance(cases[i].a, cases[i].b, limit), limit + 1);
  }
  char words[2][100];
  memset(words, 'a', sizeof words);
  words[0][63] = words[1][64] = '\0';
  assert_int_equal(tdm_edit_distance(words[0], words[0], 5), 0);
  assert_int_equal(tdm_edit_distance(words[0], words[1], 5), 6); /* too long to be compared */
}

static const char *text_of(tdm_choices *choices, const char *given, size_t count,
                           const char *const *names) {
  tdm_choices_init(choices, given);
  for (size_t i = 0; i < count; i++)
    tdm_choices_add(choices, names[i]);
  return tdm_choices_text(choices, "inputs");
}

static void the_nearest_name_is_asked_for(void **state) {
  (void)state;
  static const char *const names[] = {"ids", "input", "lengths"};
  tdm_choices choices;
  assert_string_equal(text_of(&choices, "imput", 3, names),
                      "inputs are: ids, input, lengths (did you mean 'input'?)");
  assert_string_equal(text_of(&choices, "id", 3, names),
                      "inputs are: ids, input, lengths (did you mean 'ids'?)");
  assert_string_equal(text_of(&choices, "weights", 3, names), "inputs are: ids, input, lengths");
  assert_string_equal(text_of(&choices, NULL, 3, names), "inputs are: ids, input, lengths");
  assert_string_equal(text_of(&choices, "", 3, names), "inputs are: ids, input, lengths");
  assert_string_equal(text_of(&choices, "imput", 0, names), "there are no inputs");
  static const char *const letters[] = {"y", "z"};
  assert_string_equal(text_of(&choices, "x", 2, letters), "inputs are: y, z"); /* nothing leaks */
}

static void many_names_are_counted(void **state) {
  (void)state;
  char names[100][24];
  tdm_choices choices;
  tdm_choices_init(&choices, "layer98/bias");
  for (int i = 0; i < 100; i++) {
    (void)snprintf(names[i], sizeof names[i], "layer%d/bia", i);
    tdm_choices_add(&choices, names[i]);
  }
  const char *text = tdm_choices_text(&choices, "parameters");
  assert_non_null(strstr(text, "parameters are: layer0/bia, layer1/bia, "));
  assert_non_null(strstr(text, " more (did you mean 'layer98/bia'?)"));
  size_t listed = 0;
  for (const char *at = text; (at = strstr(at, "layer")); at++)
    listed++;
  char counted[32];
  (void)snprintf(counted, sizeof counted, " and %zu more (", 100 - (listed - 1));
  assert_non_null(strstr(text, counted));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(distances_are_the_fewest_changes),
      cmocka_unit_test(the_nearest_name_is_asked_for),
      cmocka_unit_test(many_names_are_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
