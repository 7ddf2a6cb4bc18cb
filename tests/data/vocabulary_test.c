/* Vocabularies: tokens in the order of their first occurrence, texts as numbers, and refused
 * arguments. */
#include <string.h>

#include "tests/data/support.h"
#include "tests/support/faulty_allocator.h"

static const char *const texts[] = {"the tide comes in ", "\tand the\n\ntide goes out", ""};

static void assert_numbers(tdm_tensor *tensor, size_t count, const int64_t *wanted) {
  if (!tensor) fail_msg("%s", tdm_last_message());
  assert_int_equal(tdm_tensor_bytes(tensor), count * sizeof *wanted);
  if (count > 0) assert_memory_equal(tdm_tensor_data(tensor), wanted, count * sizeof *wanted);
  tdm_tensor_release(tensor);
}

static void words_are_numbered_as_they_first_stand(void **state) {
  data_fixture *fixture = *state;
  tdm_vocabulary *vocabulary = tdm_vocabulary_create(fixture->context, TDM_TOKENS_WORDS, texts, 3);
  assert_non_null(vocabulary);
  assert_int_equal(tdm_vocabulary_size(vocabulary), 7);
  assert_string_equal(tdm_vocabulary_token(vocabulary, 3), "in");
  assert_int_equal(tdm_vocabulary_number(vocabulary, "goes"), 5);
  tdm_tensor *offsets;
  tdm_tensor *numbers = tdm_vocabulary_encode(vocabulary, texts, 3, &offsets);
  assert_numbers(numbers, 9, (const int64_t[]){0, 1, 2, 3, 4, 0, 1, 5, 6});
  assert_numbers(offsets, 3, (const int64_t[]){0, 4, 9});
  assert_numbers(tdm_vocabulary_encode(vocabulary, &texts[2], 1, NULL), 0, NULL);
  tdm_vocabulary *again = tdm_vocabulary_retain(vocabulary);
  tdm_vocabulary_release(vocabulary);
  assert_int_equal(tdm_vocabulary_size(again), 7);
  tdm_vocabulary_release(again);
}

static void characters_are_code_points(void **state) {
  data_fixture *fixture = *state;
  static const char *const text = "n\xC3\xA9 n";
  tdm_vocabulary *vocabulary =
      tdm_vocabulary_create(fixture->context, TDM_TOKENS_CHARACTERS, &text, 1);
  assert_string_equal(tdm_vocabulary_token(vocabulary, 1), "\xC3\xA9");
  assert_numbers(tdm_vocabulary_encode(vocabulary, &text, 1, NULL), 4,
                 (const int64_t[]){0, 1, 2, 0});
  tdm_vocabulary_release(vocabulary);
}

static void what_does_not_fit_is_told(void **state) {
  data_fixture *fixture = *state;
  tdm_context *context = fixture->context;
  assert_null(tdm_vocabulary_create(context, TDM_TOKENS_WORDS, NULL, 1));
  assert_message("vocabulary: there are no texts");
  static const char *const missing[] = {"a", NULL};
  assert_null(tdm_vocabulary_create(context, TDM_TOKENS_WORDS, missing, 2));
  assert_message("vocabulary: text 1 is NULL");
  assert_null(tdm_vocabulary_create(context, (tdm_tokens)7, texts, 1));
  assert_message("vocabulary: its tokens are 7, neither words nor characters");
  static const char *const broken = "ab\xFF";
  assert_null(tdm_vocabulary_create(context, TDM_TOKENS_CHARACTERS, &broken, 1));
  assert_message("does not begin with UTF-8");
  static const char *const wrong[] = {"ab\xFF",       "fine \xC0\x80", "\xED\xA0\x80 end",
                                      "cut \xE2\x82", "\x80",          "\xF4\x90\x80\x80"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_null(tdm_vocabulary_create(context, TDM_TOKENS_WORDS, &wrong[i], 1));
    assert_message("is not UTF-8");
  }
  char endless[300] = {0};
  memset(endless, 'a', sizeof endless - 1);
  const char *const whole = endless;
  assert_null(tdm_vocabulary_create(context, TDM_TOKENS_WORDS, &whole, 1));
  assert_message("has 299 bytes, more than 255");
  tdm_vocabulary *vocabulary = tdm_vocabulary_create(context, TDM_TOKENS_WORDS, texts, 3);
  assert_int_equal(tdm_vocabulary_number(vocabulary, "tid"), -1);
  assert_message("there is no token 'tid'; tokens are: the, tide, comes");
  assert_message("(did you mean 'tide'?)");
  static const char *const unknown = "the boat";
  tdm_tensor *offsets;
  assert_null(tdm_vocabulary_encode(vocabulary, &unknown, 1, &offsets));
  assert_null(offsets);
  assert_message("there is no token 'boat'");
  assert_null(tdm_vocabulary_token(vocabulary, 7));
  assert_message("vocabulary: there is no token 7 of 7");
  tdm_vocabulary_release(vocabulary);
}

/* The Nth allocation fails, for every N. */
static void memory_that_is_short_is_told(void **state) {
  data_fixture *fixture = *state;
  const int64_t before = tdm_faulty_allocator_outstanding_bytes(fixture->faulty);
  bool done = false;
  for (uint64_t n = 1; !done; n++) {
    tdm_faulty_allocator_arm(fixture->faulty, n, false);
    tdm_vocabulary *vocabulary =
        tdm_vocabulary_create(fixture->context, TDM_TOKENS_WORDS, texts, 3);
    tdm_tensor *offsets = NULL;
    tdm_tensor *numbers = vocabulary ? tdm_vocabulary_encode(vocabulary, texts, 3, &offsets) : NULL;
    done = tdm_faulty_allocator_failures(fixture->faulty) == 0;
    tdm_faulty_allocator_arm(fixture->faulty, 0, false);
    assert_int_equal(done, numbers != NULL);
    if (!done) assert_message("out of memory");
    tdm_tensor_release(numbers);
    tdm_tensor_release(offsets);
    tdm_vocabulary_release(vocabulary);
    assert_int_equal(tdm_faulty_allocator_outstanding_bytes(fixture->faulty), before);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(words_are_numbered_as_they_first_stand),
      cmocka_unit_test(characters_are_code_points),
      cmocka_unit_test(what_does_not_fit_is_told),
      cmocka_unit_test(memory_that_is_short_is_told),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
