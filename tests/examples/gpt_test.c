/* gpt trained on a text of one repeated sentence, also over two devices. With cached keys and
 * values it writes the same text as without, also past the end of the window. Illegal options are
 * refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/examples/program.h"

#define SENTENCE "The quick brown fox jumps over a lazy dog. "
#define SMALL                                                                                      \
  "--text text --batch 4 --window 32 --width 32 --heads 2 --layers 2 --learning-rate 0.005 "       \
  "--prompt 'The quick' --sample 80 "

static int make_text(void **state) {
  (void)state;
  const size_t length = strlen(SENTENCE);
  char *bytes = malloc(length * 300 + 1);
  assert_non_null(bytes);
  for (size_t i = 0; i < 300; i++)
    memcpy(bytes + length * i, SENTENCE, length + 1);
  write_file("text", bytes, length * 300);
  free(bytes);
  return 0;
}

/* Returns the output of a successful run from its prompt on; freed by the caller. */
static char *text_of(const char *arguments) {
  char all[512];
  (void)snprintf(all, sizeof all, SMALL "%s", arguments);
  outcome ended = program_run(all);
  if (ended.exit_code != 0) fail_msg("%s: %s", all, ended.output);
  const char *begin = strstr(ended.output, "The quick");
  const char *end = begin ? strstr(begin, "\n\n") : NULL;
  if (!end) fail_msg("%s: no text in %s", all, ended.output);
  char *text = strndup(begin, (size_t)(end - begin));
  assert_non_null(text);
  outcome_free(&ended);
  return text;
}

static void learns_a_sentence_and_writes_it(void **state) {
  (void)state;
  char *text = text_of("--epochs 10 --temperature 0.1 --place '*=cpu:0' --save learnt");
  if (!strstr(text, "brown fox jumps over a lazy dog. The quick")) fail_msg("%s", text);
  free(text);
}

static void writes_the_same_text_whatever_is_kept(void **state) {
  (void)state;
  static const char *const places[] = {"", "--place '*=cpu:0'",
                                       "--place 'block1=sim:0,norm=sim:0,scores=sim:0,*=cpu:0'"};
  char *expected = NULL;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    for (int anew = 0; anew < 2; anew++) {
      char arguments[256];
      (void)snprintf(arguments, sizeof arguments, "--epochs 0 --load learnt --temperature 2 %s %s",
                     places[i], anew ? "--anew" : "");
      char *text = text_of(arguments);
      if (!expected) expected = text;
      assert_string_equal(text, expected);
      if (text != expected) free(text);
    }
  free(expected);
}

static void several_texts_are_written_at_once(void **state) {
  (void)state;
  char *alone = text_of("--epochs 0 --load learnt --temperature 2");
  static const char *const manners[] = {"--streams 5", "--texts 5", "--texts 3 --streams 2",
                                        "--texts 3 --anew", "--texts 2 --place '*=cpu:0'"};
  for (size_t i = 0; i < sizeof manners / sizeof *manners; i++) {
    char arguments[128];
    (void)snprintf(arguments, sizeof arguments, "--epochs 0 --load learnt --temperature 2 %s",
                   manners[i]);
    char *first = text_of(arguments);
    assert_string_equal(first, alone);
    free(first);
  }
  free(alone);
}

static void a_text_depends_on_its_seed_alone(void **state) {
  (void)state;
  outcome three = program_run(SMALL "--epochs 0 --load learnt --temperature 2 --texts 3");
  assert_int_equal(three.exit_code, 0);
  for (int seed = 1; seed <= 3; seed++) {
    char arguments[128];
    (void)snprintf(arguments, sizeof arguments,
                   "--epochs 0 --load learnt --temperature 2 --seed %d", seed);
    char *alone = text_of(arguments);
    if (!strstr(three.output, alone))
      fail_msg("seed %d: %s is not in %s", seed, alone, three.output);
    free(alone);
  }
  outcome_free(&three);
}

/* The file lists its characters; the text has as many, and one differs. */
static void a_text_of_other_characters_is_refused(void **state) {
  (void)state;
  outcome made = program_run_as("tr . ! < text > other");
  assert_int_equal(made.exit_code, 0);
  outcome_free(&made);
  program_expect(
      SMALL "--text other --epochs 0 --load learnt", 1,
      (const char *const[]){"learnt: it was trained on a text of other characters", NULL});
}

static void refuses_what_cannot_work(void **state) {
  (void)state;
  program_expect("--text nowhere", 1, (const char *const[]){"nowhere", "No such file", NULL});
  write_file("broken", "ab\xff", 3);
  program_expect("--text broken", 1,
                 (const char *const[]){"--text broken: byte 2 (0xFF) is not UTF-8", NULL});
  program_expect(SMALL "--prompt '#'", 1, (const char *const[]){"--prompt #", NULL});
  program_expect(SMALL "--characters 200", 1,
                 (const char *const[]){"a text of 200 characters is too short", NULL});
  program_expect(SMALL "--heads 5", 1, (const char *const[]){"attention", "5 heads", NULL});
  program_expect(SMALL "--load learnt --width 24", 1, (const char *const[]){"positions", NULL});
  program_expect(SMALL "--streams 65", 1, (const char *const[]){"--streams", NULL});
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(learns_a_sentence_and_writes_it),
      cmocka_unit_test(writes_the_same_text_whatever_is_kept),
      cmocka_unit_test(several_texts_are_written_at_once),
      cmocka_unit_test(a_text_depends_on_its_seed_alone),
      cmocka_unit_test(a_text_of_other_characters_is_refused),
      cmocka_unit_test(refuses_what_cannot_work),
  };
  if (argc != 2) return 2;
  program_use(argv[1]);
  return cmocka_run_group_tests(tests, make_text, NULL);
}
