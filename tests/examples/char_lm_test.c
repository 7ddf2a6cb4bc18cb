/* char_lm trained on a text of one repeated sentence until it reproduces it, also over two devices.
 * It generates the sentence again after a load. Invalid options are refused by name. */
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
  "--text text --batch 4 --length 16 --hidden 24 --embedding 8 --learning-rate 0.02 --prompt The "
#define WRITE "--sample 80 --prompt 'The quick' --temperature 0.2 "

static void write_text(const char *path, const char *sentence, int count) {
  const size_t length = strlen(sentence);
  char *bytes = malloc(length * (size_t)count + 1);
  assert_non_null(bytes);
  for (int i = 0; i < count; i++)
    memcpy(bytes + length * (size_t)i, sentence, length + 1);
  write_file(path, bytes, length * (size_t)count);
  free(bytes);
}

static int make_texts(void **state) {
  (void)state;
  write_text("text", SENTENCE, 300);
  write_text("other", "abc", 4000);
  return 0;
}

static double bits_of(const char *output) {
  char *line = last_line(output);
  double bits = 0;
  if (sscanf(line, "bits per character %lf on 576 held-out characters", &bits) != 1)
    fail_msg("%s", output);
  free(line);
  return bits;
}

static double bits_with(const char *arguments, const char *written) {
  outcome ended = program_run(arguments);
  if (ended.exit_code != 0) fail_msg("%s: %s", arguments, ended.output);
  if (written && !strstr(ended.output, written))
    fail_msg("\"%s\" is not in: %s", written, ended.output);
  const double bits = bits_of(ended.output);
  outcome_free(&ended);
  return bits;
}

static void learns_a_sentence_by_heart(void **state) {
  (void)state;
  static const char *const ways[] = {"--place '*=cpu:0' --save learnt",
                                     "--data-parallel cpu:0,sim:0 --micro-batches 2"};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    char arguments[512];
    (void)snprintf(arguments, sizeof arguments, SMALL WRITE "--epochs 3 %s", ways[i]);
    const double bits = bits_with(arguments, SENTENCE SENTENCE "The");
    if (bits > 0.5) fail_msg("%s: %g bits", arguments, bits);
  }
  const double loaded = bits_with(SMALL WRITE "--epochs 0 --load learnt", SENTENCE SENTENCE);
  if (loaded > 0.5) fail_msg("loaded: %g bits", loaded);
}

/* A byte that is none, an overlong form, a surrogate, a point beyond the last, and a cut one. */
static void refuses_texts_that_are_not_utf8(void **state) {
  (void)state;
  static const struct {
    const char *bytes, *says;
  } cases[] = {{"ab\xff", "byte 2 (0xFF)"},
               {"\xc0\xaf", "byte 0 (0xC0)"},
               {"a\xed\xa0\x80", "byte 1 (0xED)"},
               {"\xf4\x90\x80\x80", "byte 0 (0xF4)"},
               {"caf\xc3", "byte 3 (0xC3)"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_file("broken", cases[i].bytes, strlen(cases[i].bytes));
    program_expect("--text broken", 1,
                   (const char *const[]){"--text broken: ", cases[i].says, "is not UTF-8", NULL});
  }
  static const char points[] = "\xc3\xa9\xe6\xbc\xa2\xef\xbf\xbf\xf0\x9f\x98\x80";
  write_file("whole", points, sizeof points - 1);
  program_expect("--text whole", 1, (const char *const[]){"characters is too short", NULL});
}

static void refuses_what_cannot_work(void **state) {
  (void)state;
  program_expect("--text nowhere", 1, (const char *const[]){"nowhere", "No such file", NULL});
  program_expect(SMALL "--prompt '#'", 1, (const char *const[]){"--prompt #", NULL});
  program_expect(SMALL "--characters 200", 1,
                 (const char *const[]){"a text of 200 characters is too short", NULL});
  program_expect("--text other --batch 4 --length 16 --prompt a --load learnt", 1,
                 (const char *const[]){"learnt: it was trained on a text of other", NULL});
  program_expect(SMALL "--load learnt --hidden 25", 1, (const char *const[]){"lstm", NULL});
  program_expect(SMALL "--temperature 0", 1, (const char *const[]){"--temperature", NULL});
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(learns_a_sentence_by_heart),
      cmocka_unit_test(refuses_texts_that_are_not_utf8),
      cmocka_unit_test(refuses_what_cannot_work),
  };
  if (argc != 2) return 2;
  program_use(argv[1]);
  return cmocka_run_group_tests(tests, make_texts, NULL);
}
