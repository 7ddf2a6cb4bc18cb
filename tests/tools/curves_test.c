/* The files that examples write with --log, and `tandem curves`: complete lines as they are made,
 * which continue with the training, and pictures if gnuplot is installed. */
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
#include "tests/tools/browser.h"

static char command[PATH_MAX];
static char example[PATH_MAX];

#define HEADING "step\tepoch\tloss\theld-out accuracy\twords a second\tlearning rate\n"
#define TRAINING                                                                                   \
  "--words low=low.txt --words high=high.txt --place '*=cpu:0' --epochs 3 --batch 64 "

static int write_lists(void **state) {
  (void)state;
  program_use(example);
  write_words("low.txt", 'a', 'k', 1500, 1);
  write_words("high.txt", 'i', 'z', 1500, 2);
  return 0;
}

static outcome run(const char *program, const char *arguments, int exit_code) {
  char line[2 * PATH_MAX];
  (void)snprintf(line, sizeof line, "'%s' %s", program, arguments);
  outcome ended = program_run_as(line);
  if (ended.exit_code != exit_code)
    fail_msg("%s ended with %d:\n%s", arguments, ended.exit_code, ended.output);
  return ended;
}

static void must_print(const char *arguments, int exit_code, const char *text) {
  outcome ended = run(command, arguments, exit_code);
  if (!strstr(ended.output, text)) fail_msg("%s: no '%s' in:\n%s", arguments, text, ended.output);
  outcome_free(&ended);
}

static void train(const char *arguments) {
  outcome ended = run(example, arguments, 0);
  outcome_free(&ended);
}

/* Checks that steps rise, below one heading; returns the number of lines with a score. */
static int check_log(const char *path) {
  char *text = read_whole(path, NULL);
  assert_int_equal(strncmp(text, HEADING, strlen(HEADING)), 0);
  int scores = 0;
  long long before = 0;
  for (char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
    long long step;
    double epoch, loss, rate, learning_rate;
    char score[32];
    assert_int_equal(sscanf(line, "%lld\t%lf\t%lf\t%31s\t%lf\t%lf\n", &step, &epoch, &loss, score,
                            &rate, &learning_rate),
                     6);
    if (step <= before) fail_msg("%s: step %lld follows %lld", path, step, before);
    assert_true(epoch > 0 && epoch <= 3 && loss > 0 && rate > 0 && learning_rate >= 0);
    scores += strcmp(score, "-") != 0;
    before = step;
  }
  free(text);
  return scores;
}

static char *last_line_of(const char *path) {
  char *text = read_whole(path, NULL), *line = last_line(text);
  free(text);
  return line;
}

static void a_training_is_logged(void **state) {
  (void)state;
  train(TRAINING "--log whole.tsv");
  assert_int_equal(check_log("whole.tsv"), 3);
  must_print("curves whole.tsv", 0, "held-out accuracy");
  must_print("curves --json whole.tsv", 0, "\"name\":\"whole\",\"steps\":");
}

/* Lines after the checkpoint are written again; the end is that of an uninterrupted run. */
static void a_log_goes_on_where_training_does(void **state) {
  (void)state;
  train(TRAINING "--log whole.tsv");
  train(TRAINING "--log part.tsv --checkpoint part.safetensors --steps 50");
  const int before = check_log("part.tsv");
  FILE *file = fopen("part.tsv", "a");
  assert_non_null(file);
  assert_true(fputs("51\t1.2\t0.5\t-\t10\t0.001\n52\t1.3\t0.", file) > 0);
  assert_int_equal(fclose(file), 0);
  must_print("curves part.tsv", 0, " 51 ");
  train(TRAINING "--log part.tsv --resume part.safetensors");
  assert_true(check_log("part.tsv") > before);
  char *wanted = last_line_of("whole.tsv"), *got = last_line_of("part.tsv");
  double wanted_score, got_score;
  long long wanted_step, got_step;
  assert_int_equal(sscanf(wanted, "%lld\t%*s\t%*s\t%lf", &wanted_step, &wanted_score), 2);
  assert_int_equal(sscanf(got, "%lld\t%*s\t%*s\t%lf", &got_step, &got_score), 2);
  assert_int_equal(got_step, wanted_step);
  assert_true(got_score == wanted_score);
  free(wanted);
  free(got);
}

/* Files do not get the number of a closed output, nor the text printed to it, whose loss is
 * reported.
 */
static void a_closed_output_spoils_no_file(void **state) {
  (void)state;
  static const char *const outputs[] = {">&-", ">/dev/full"};
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
    char arguments[512];
    (void)snprintf(arguments, sizeof arguments, "%s--log closed.tsv %s", TRAINING, outputs[i]);
    outcome ended = run(example, arguments, 1);
    if (!strstr(ended.output, "distributed_model: cannot write it all"))
      fail_msg("%s: %s", outputs[i], ended.output);
    outcome_free(&ended);
    assert_int_equal(check_log("closed.tsv"), 3);
    (void)snprintf(arguments, sizeof arguments, "curves closed.tsv %s", outputs[i]);
    must_print(arguments, 1, "tandem curves: cannot write it all");
  }
}

static void write_text(const char *path, const char *text) {
  write_file(path, text, strlen(text));
}

static void what_is_no_log_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "", "step\n", "0\t1\t2\t3\t4\t5\n", HEADING "1\t1\t1\t1\t1\n",
      HEADING "1\t1\t1\t1\t1\t1\t1\n", HEADING "x\t1\t1\t1\t1\t1\n", HEADING "-1\t1\t1\t1\t1\t1\n",
      HEADING "1.5\t1\t1\t1\t1\t1\n", HEADING "1\tinf\t1\t1\t1\t1\n",
      HEADING "1\t1\tlow\t1\t1\t1\n", HEADING,
      /* the last is reported as a line that is too long */
      HEADING
      "1\t1\t1\t1\t1\t                                                                    "
      "                                                                                   "
      "                                                                                   "
      "                                                                                   "
      "                                                                                   "
      "                                                                                   "
      "                                                                                1\n"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    write_text("bad.tsv", bad[i]);
    must_print("curves bad.tsv", 1, "bad.tsv");
  }
  must_print("curves nowhere.tsv", 1, "nowhere.tsv: No such file");
  must_print("curves", 2, "missing FILE...");
  must_print("curves --to picture.jpeg x.tsv", 2, "FILE.svg or FILE.png");
  must_print("curves --to no/such/x.svg x.tsv", 2, "folder");
}

/* Gnuplot passes text between backquotes to a shell. */
static void names_are_no_commands(void **state) {
  (void)state;
  if (!is_program_here("gnuplot")) skip();
  write_text("`touch by_file`.tsv", "step\tepoch\tloss\t`touch by_score`\twords\trate\n"
                                    "1\t1\t3\t4\t10\t0.1\n");
  must_print("curves --to n.svg '`touch by_file`.tsv' && cat n.svg", 0, "`touch by_score`");
  must_print("curves --to '`touch by_picture`.svg' '`touch by_file`.tsv'", 0, "");
  assert_true(file_exists("`touch by_picture`.svg"));
  assert_false(file_exists("by_file") || file_exists("by_score") || file_exists("by_picture"));
}

/* Names of files and scores are text to gnuplot as well. */
static void gnuplot_draws(void **state) {
  (void)state;
  write_text("a'\"b\\.tsv", HEADING "1\t0.5\t2\t-\t10\t0.1\n2\t1\t1\t0.25\t10\t0\n");
  write_text("other.tsv", HEADING "1\t0.5\t3\t-\t10\t0.1\n2\t1\t-\t0.5\t10\t0\n");
  write_text("bits.tsv", "step\tepoch\tloss\tbits\tcharacters\trate\n1\t1\t3\t4\t10\t0.1\n");
  write_text("young.tsv", HEADING "1\t0.5\t2\t-\t10\t0.1\n");
  char line[2 * PATH_MAX];
  (void)snprintf(line, sizeof line, "PATH=/nowhere '%s' curves --to x.svg other.tsv", command);
  outcome ended = program_run_as(line);
  assert_int_equal(ended.exit_code, 1);
  assert_non_null(strstr(ended.output, "--to: gnuplot is not in PATH"));
  assert_false(file_exists("x.svg"));
  outcome_free(&ended);
  if (!is_program_here("gnuplot")) skip();
  must_print("curves --to x.svg \"a'\\\"b\\\\.tsv\" other.tsv && cat x.svg", 0, "</svg>");
  ended = program_run_as("cat x.svg");
  static const char *const texts[] = {"a'", "b\\", "other", "held-out accuracy", "epochs"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (!strstr(ended.output, texts[i])) fail_msg("no %s in the picture", texts[i]);
  outcome_free(&ended);
  must_print("curves --to x.png other.tsv && head -c 4 x.png", 0, "PNG");
  must_print("curves --to y.svg other.tsv bits.tsv", 1, "bits");
  must_print("curves --to y.svg young.tsv", 1, "young has no score yet");
  assert_false(file_exists("y.svg"));
  assert_false(file_exists("y.svg.partial"));
}

int main(int count, char **arguments) {
  if (count != 3 || !realpath(arguments[1], command) || !realpath(arguments[2], example)) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_training_is_logged),
      cmocka_unit_test(a_log_goes_on_where_training_does),
      cmocka_unit_test(a_closed_output_spoils_no_file),
      cmocka_unit_test(what_is_no_log_is_refused),
      cmocka_unit_test(gnuplot_draws),
      cmocka_unit_test(names_are_no_commands),
  };
  return cmocka_run_group_tests(tests, write_lists, NULL);
}
