/* Examples stop in an epoch and continue from a checkpoint. Their final files and reports have the
 * bits of an uninterrupted run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/examples/program.h"

#define SENTENCE "The quick brown fox jumps over a lazy dog. "

typedef struct example {
  const char *name;
  const char *arguments; /* arguments for two epochs, each of more than 7 steps */
  const char *second;    /* continues from the first epoch into the second */
} example;

static const example examples[] = {
    {"distributed_model",
     "--words low=low.txt --words high=high.txt --words-per-language 60 --batch 4 --epochs 2",
     "--steps 44 --checkpoint-every 3"},
    {"fashion_cnn", "--images 128 --test-images 50 --batch 16 --epochs 2 --place '*=cpu:0'",
     "--steps 14 --checkpoint-every 5"},
    {"char_lm", "--text text --batch 2 --length 8 --hidden 8 --embedding 4 --sample 0 --epochs 2",
     "--steps 64 --checkpoint-every 12"},
    {"recommender",
     "--tables 2 --rows 20 --dim 4 --lookups 2 --hidden 8 --samples 500 "
     "--held-out 100 --batch 25 --epochs 2",
     "--steps 27 --checkpoint-every 5"},
};
enum { EXAMPLE_COUNT = sizeof examples / sizeof *examples };

static char paths[EXAMPLE_COUNT][PATH_MAX];

static int make_data(void **state) {
  (void)state;
  program_use(paths[0]); /* into the test's folder */
  char text[20 * sizeof SENTENCE] = "";
  for (int i = 0; i < 20; i++)
    strcat(text, SENTENCE);
  write_file("text", text, strlen(text));
  write_words("low.txt", 'a', 'm', 80, 1);
  write_words("high.txt", 'n', 'z', 80, 2);
  return 0;
}

/* Runs it. Returns its output, which the caller frees. */
static char *run(const example *tested, const char *more) {
  char arguments[512];
  (void)snprintf(arguments, sizeof arguments, "%s %s", tested->arguments, more);
  outcome ended = program_run(arguments);
  if (ended.exit_code != 0) fail_msg("%s %s: %s", tested->name, arguments, ended.output);
  return ended.output;
}

/* Copies the line of the second epoch, without its speed. */
static void epoch_line(const char *printed, char line[256]) {
  const char *found = strstr(printed, "epoch 2/2  loss ");
  if (!found) fail_msg("no second epoch: %s", printed);
  (void)snprintf(line, 256, "%.*s", (int)strcspn(found, "\n"), found);
  char *speed = strrchr(line, ' '); /* "  1234 images/s" */
  while (speed > line && speed[-1] != ' ')
    speed--;
  *speed = '\0';
}

static void assert_same_end(const example *tested, const char *printed, const char *path,
                            const char *wanted_printed) {
  char line[256], wanted[256];
  epoch_line(printed, line);
  epoch_line(wanted_printed, wanted);
  assert_string_equal(line, wanted);
  size_t sizes[2];
  char *saved = read_whole(path, &sizes[0]);
  char *whole = read_whole("whole", &sizes[1]);
  if (sizes[0] != sizes[1] || memcmp(saved, whole, sizes[0]) != 0)
    fail_msg("%s: %s is not what a run that did not stop saves", tested->name, path);
  free(saved);
  free(whole);
}

/* Stops the training in the first epoch, one step after the last checkpoint of --checkpoint-every,
 * then in the second. */
static void what_is_left_of_an_epoch_is_bitwise_the_same(void **state) {
  (void)state;
  for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
    const example *tested = &examples[i];
    program_use(paths[i]);
    char *whole = run(tested, "--save whole");
    free(run(tested, "--checkpoint first --checkpoint-every 3 --steps 7"));
    char *resumed = run(tested, "--resume first --save resumed");
    assert_same_end(tested, resumed, "resumed", whole);
    free(resumed);
    char text[128];
    (void)snprintf(text, sizeof text, "--resume first --checkpoint second %s", tested->second);
    char *stopped = run(tested, text);
    assert_non_null(strstr(stopped, "epoch 2/2"));
    free(stopped);
    resumed = run(tested, "--resume second --save again");
    assert_same_end(tested, resumed, "again", whole);
    free(resumed);
    free(whole);
  }
}

static void what_cannot_be_is_refused(void **state) {
  (void)state;
  char arguments[512];
  program_use(paths[2]);
  (void)snprintf(arguments, sizeof arguments, "%s --checkpoint-every 3", examples[2].arguments);
  program_expect(arguments, 1,
                 (const char *const[]){"--checkpoint-every needs --checkpoint", NULL});
  free(run(&examples[2], "--checkpoint middle --steps 7"));
  (void)snprintf(arguments, sizeof arguments, "%s --resume middle --steps 7",
                 examples[2].arguments);
  program_expect(arguments, 1, (const char *const[]){"it has made 7 steps", "--steps is 7", NULL});
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_left_of_an_epoch_is_bitwise_the_same),
      cmocka_unit_test(what_cannot_be_is_refused),
  };
  if (argc != EXAMPLE_COUNT + 1) return 2;
  for (int i = 0; i < EXAMPLE_COUNT; i++) {
    const char *name = strrchr(argv[i + 1], '/');
    if (!name || strcmp(name + 1, examples[i].name) != 0 || !realpath(argv[i + 1], paths[i]))
      return 2;
  }
  return cmocka_run_group_tests(tests, make_data, NULL);
}
