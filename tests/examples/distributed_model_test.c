/* distributed_model as a user runs it: training, saving, classifying, explaining. Two made-up
 * languages without a common letter, so every word can be classified. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/examples/program.h"

#define LISTS "--words low=low.txt --words high=high.txt "
#define SMALL LISTS "--words-per-language 300 --epochs 3 "
#define TINY LISTS "--words-per-language 100 --epochs 1 " /* for tests without accuracy            \
                                                           */

enum { HELD_OUT_WORDS = 60 };

static int make_lists(void **state) {
  (void)state;
  write_words("low.txt", 'a', 'm', 400, 1);
  write_words("high.txt", 'n', 'z', 400, 2);
  return 0;
}

static void run_well(const char *arguments, outcome *out_ended) {
  *out_ended = program_run(arguments);
  if (out_ended->exit_code != 0)
    fail_msg("%s\nended with %d:\n%s", arguments, out_ended->exit_code, out_ended->output);
}

/* Returns the accuracy in the last line. */
static double accuracy_of(const outcome *ended) {
  double accuracy = -1;
  int words = 0;
  char *line = last_line(ended->output);
  assert_int_equal(sscanf(line, "accuracy %lf on %d held-out words", &accuracy, &words), 2);
  assert_int_equal(words, HELD_OUT_WORDS);
  free(line);
  return accuracy;
}

/* The loss of an epoch is that of the whole batches. */
static void micro_batches_change_nothing_but_the_time(void **state) {
  (void)state;
  static const char *const counts[] = {"--micro-batches 1", "--micro-batches 4",
                                       "--micro-batches auto"};
  double losses[3];
  for (int i = 0; i < 3; i++) {
    char arguments[512];
    (void)snprintf(arguments, sizeof arguments, TINY "%s", counts[i]);
    outcome ended;
    run_well(arguments, &ended);
    const char *line = strstr(ended.output, "epoch 1/1  loss ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "epoch 1/1  loss %lf", &losses[i]), 1);
    outcome_free(&ended);
  }
  for (int i = 1; i < 3; i++)
    assert_true(losses[i] <= 1.02 * losses[0] + 1e-3 && losses[0] <= 1.02 * losses[i] + 1e-3);
  outcome refused = program_run(SMALL "--micro-batches 17");
  assert_int_not_equal(refused.exit_code, 0);
  assert_non_null(strstr(refused.output, "--micro-batches"));
  outcome_free(&refused);
}

static void trains_and_tells(void **state) {
  (void)state;
  outcome ended;
  run_well(SMALL, &ended);
  assert_true(accuracy_of(&ended) > 0.95);
  assert_null(strchr(ended.output, '\r')); /* no progress bar in a pipe */
  static const char simulated[] = "no GPU: sim:0, which the CPU simulates, stands for one; ";
  assert_memory_equal(ended.output, simulated, sizeof simulated - 1);
  assert_non_null(strstr(ended.output, "\n  there is no cuda: ")); /* and why */
  assert_non_null(strstr(ended.output, "epoch 1/3  loss "));
  assert_non_null(strstr(ended.output, "epoch 3/3  loss "));
  assert_null(strstr(ended.output, "epoch 4"));
  int counts[4] = {0};
  const char *table = strstr(ended.output, "taken for");
  assert_non_null(table);
  assert_int_equal(sscanf(table, "%*[^\n] low high low %d %d high %d %d", &counts[0], &counts[1],
                          &counts[2], &counts[3]),
                   4);
  assert_int_equal(counts[0] + counts[1], HELD_OUT_WORDS / 2);
  assert_int_equal(counts[2] + counts[3], HELD_OUT_WORDS / 2);
  outcome_free(&ended);
}

static void remembers_what_it_saved(void **state) {
  (void)state;
  outcome trained;
  outcome loaded;
  run_well(SMALL "--save model.safetensors", &trained);
  run_well(SMALL "--epochs 0 --load model.safetensors", &loaded);
  assert_true(accuracy_of(&trained) == accuracy_of(&loaded));
  outcome_free(&loaded);
  outcome_free(&trained);
  program_expect("--load model.safetensors --predict Abeg zorn", 0,
                 (const char *const[]){"Abeg: low ", "zorn: high ", NULL});
}

static void answers_after_training(void **state) {
  (void)state;
  outcome ended;
  run_well(SMALL "--predict abc xyz", &ended);
  assert_non_null(strstr(ended.output, "\nabc: low "));
  assert_non_null(strstr(ended.output, "\nxyz: high "));
  (void)accuracy_of(&ended); /* still the last line */
  outcome_free(&ended);
}

/* Removes the number before " words/s", which depends on the clock. */
static void cut_speeds(char *output) {
  for (char *at = output; (at = strstr(at, " words/s")) != NULL; at++) {
    char *number = at;
    while (number > output && number[-1] != ' ')
      number--;
    memmove(number, at, strlen(at) + 1);
    at = number;
  }
  char *seconds = strstr(output, "words in ");
  assert_non_null(seconds);
  memmove(seconds, seconds + strcspn(seconds, "\n"), strlen(seconds + strcspn(seconds, "\n")) + 1);
}

static void repeats_bitwise(void **state) {
  (void)state;
  outcome runs[2];
  for (int i = 0; i < 2; i++) {
    run_well(TINY "--seed 7 --save repeated.safetensors", &runs[i]);
    cut_speeds(runs[i].output);
    assert_int_equal(rename("repeated.safetensors", i ? "second" : "first"), 0);
  }
  assert_string_equal(runs[0].output, runs[1].output);
  size_t sizes[2];
  char *first = read_whole("first", &sizes[0]);
  char *second = read_whole("second", &sizes[1]);
  assert_int_equal(sizes[0], sizes[1]);
  assert_memory_equal(first, second, sizes[0]);
  free(first);
  free(second);
  outcome_free(&runs[0]);
  outcome_free(&runs[1]);
}

static void explains_every_transfer(void **state) {
  (void)state;
  program_expect(TINY "--explain --dot plan.dot", 0,
                 (const char *const[]){
                     "training plan: ",
                     "embedding -> rnn, cpu:0 to sim:0, ",
                     "gradient of rnn -> embedding, sim:0 to cpu:0, ",
                     "predicted ",
                     "measured ",
                     NULL,
                 });
  char *dot = read_whole("plan.dot", NULL);
  assert_memory_equal(dot, "digraph", 7);
  free(dot);
  assert_false(file_exists("plan.dot.partial"));
}

/* Through a symbolic link, which stays one. */
static void writes_a_timeline(void **state) {
  (void)state;
  assert_int_equal(symlink("steps.json", "link.json"), 0);
  program_expect(TINY "--trace steps.json", 0,
                 (const char *const[]){"timeline written to steps.json", NULL});
  assert_int_equal(truncate("steps.json", 0), 0);
  program_expect(TINY "--trace link.json", 0,
                 (const char *const[]){"timeline written to link.json",
                                       "critical path: ", "two or more are", "bound by ", NULL});
  char *trace = read_whole("steps.json", NULL);
  const char *const parts[] = {"\"traceEvents\"", "\"cpu:0\"", "\"sim:0\"",
                               "\"name\":\"training run\"", "\"cat\":\"update\""};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!strstr(trace, parts[i])) fail_msg("%s is not in the trace", parts[i]);
  free(trace);
  struct stat about;
  assert_int_equal(lstat("link.json", &about), 0);
  assert_true(S_ISLNK(about.st_mode));
  assert_false(file_exists("steps.json.partial"));
  assert_false(file_exists("link.json.partial"));
}

static void moves_nothing_on_one_device(void **state) {
  (void)state;
  program_expect(TINY "--place '*=cpu:0' --explain", 0,
                 (const char *const[]){"edges     0 transfers, 0 B", NULL});
}

/* Checks that the recurrent part also trains over two devices, and that the file is the same
 * model's. */
static void trains_over_several_devices(void **state) {
  (void)state;
  outcome ended;
  run_well(SMALL "--data-parallel cpu:0,sim:0 --save parallel.safetensors --explain", &ended);
  assert_true(accuracy_of(&ended) > 0.95);
  assert_non_null(strstr(ended.output, "embedding -> rnn, cpu:0 to sim:0, "));
  outcome_free(&ended);
  run_well(SMALL "--epochs 0 --load parallel.safetensors", &ended); /* on the accelerator */
  assert_true(accuracy_of(&ended) > 0.95);
  outcome_free(&ended);
  run_well(SMALL "--epochs 0 --load parallel.safetensors --data-parallel sim:0,cpu:0,sim:0",
           &ended);
  assert_true(accuracy_of(&ended) > 0.95);
  outcome_free(&ended);
}

static void tells_its_options(void **state) {
  (void)state;
  program_expect("--help", 0,
                 (const char *const[]){"--predict WORD...", "--words LANGUAGE=FILE", "--save FILE",
                                       "--load FILE", "--place MAP", "--epochs N", "--batch N",
                                       "--seed N", "--words-per-language N", "--explain",
                                       "--data-parallel LIST", "--dot FILE", "--trace FILE", NULL});
}

static void dumps_the_words(void **state) {
  (void)state;
  outcome ended;
  run_well(LISTS "--words-per-language 300 --epochs 1 --dump-data data.safetensors", &ended);
  outcome_free(&ended);
  tdm_context *context = tdm_context_create(NULL);
  tdm_tensor_list *list = tdm_safetensors_load(context, "data.safetensors");
  assert_non_null(list);
  const tdm_shape words = tdm_tensor_shape(tdm_tensor_list_find(list, "characters"));
  assert_int_equal(words.dims[0], 600);
  const int64_t *lengths = tdm_tensor_data(tdm_tensor_list_find(list, "lengths")); /* (600) */
  const int64_t *split = tdm_tensor_data(tdm_tensor_list_find(list, "split"));     /* (600) */
  const int64_t *characters = tdm_tensor_data(tdm_tensor_list_find(list, "characters"));
  const int64_t *classes = tdm_tensor_data(tdm_tensor_list_find(list, "classes"));
  int64_t training = 0;
  for (int64_t i = 0; i < words.dims[0]; i++) {
    const int64_t *word = characters + i * words.dims[1];
    training += split[i];
    assert_true(lengths[i] >= 4 && lengths[i] <= 7);
    for (int64_t j = 0; j < words.dims[1]; j++)
      assert_int_equal(word[j] != 0, j < lengths[i]);
    assert_int_equal(classes[i], word[0] > 13); /* ids follow the alphabet, from 1 */
  }
  assert_int_equal(training, 600 - HELD_OUT_WORDS);
  tdm_tensor_list_release(list);
  tdm_context_release(context);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  program_use(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(micro_batches_change_nothing_but_the_time),
      cmocka_unit_test(trains_and_tells),
      cmocka_unit_test(remembers_what_it_saved),
      cmocka_unit_test(answers_after_training),
      cmocka_unit_test(repeats_bitwise),
      cmocka_unit_test(explains_every_transfer),
      cmocka_unit_test(writes_a_timeline),
      cmocka_unit_test(moves_nothing_on_one_device),
      cmocka_unit_test(tells_its_options),
      cmocka_unit_test(dumps_the_words),
      cmocka_unit_test(trains_over_several_devices),
  };
  return cmocka_run_group_tests(tests, make_lists, NULL);
}
