/* distributed_model on emulated GPUs, with a few words. It trains as on the CPU, and every transfer
 * is pinned or staged. The program in this build reports why a requested GPU is missing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/examples/program.h"

#define SMALL "--words low=low.txt --words high=high.txt --words-per-language 60 --epochs 1 "
#define MIXED "--place 'embedding=cpu:0,*=cuda:0' "

/* Absolute: program_use goes to another folder. */
static char *emulated_program;
static char *plain_program;

static int make_lists(void **state) {
  (void)state;
  program_use(emulated_program);
  write_words("low.txt", 'a', 'm', 100, 1);
  write_words("high.txt", 'n', 'z', 100, 2);
  return 0;
}

/* Returns the loss of the only epoch. */
static double loss_of(const char *arguments) {
  outcome ended = program_run(arguments);
  if (ended.exit_code != 0) fail_msg("%s\nended with %d", ended.output, ended.exit_code);
  double loss = -1;
  const char *line = strstr(ended.output, "epoch 1/1");
  assert_non_null(line);
  assert_int_equal(sscanf(line, "epoch 1/1  loss %lf", &loss), 1);
  outcome_free(&ended);
  return loss;
}

static void learns_as_the_cpu_does(void **state) {
  (void)state;
  const double expected = loss_of(SMALL "--place '*=cpu:0'");
  assert_true(expected > 0 && expected < 1);
  assert_true(fabs(loss_of(SMALL MIXED) - expected) < 0.002);
  assert_true(fabs(loss_of(SMALL "--place 'embedding=cuda:1,*=cuda:0'") - expected) < 0.002);
}

static void repeats_bitwise(void **state) {
  (void)state;
  char *saved[2];
  size_t sizes[2];
  for (int i = 0; i < 2; i++) {
    (void)loss_of(SMALL MIXED "--save model.safetensors");
    saved[i] = read_whole("model.safetensors", &sizes[i]);
  }
  assert_int_equal(sizes[0], sizes[1]);
  assert_memory_equal(saved[0], saved[1], sizes[0]);
  free(saved[0]);
  free(saved[1]);
}

static void tells_how_each_transfer_goes(void **state) {
  (void)state;
  outcome ended = program_run(SMALL MIXED "--explain");
  assert_int_equal(ended.exit_code, 0);
  assert_non_null(strstr(ended.output, "embedding -> rnn, cpu:0 to cuda:0, "));
  assert_non_null(strstr(ended.output, "gradient of rnn -> embedding, cuda:0 to cpu:0, "));
  assert_non_null(strstr(ended.output, ", pinned, "));
  assert_null(strstr(ended.output, ", pageable, "));
  outcome_free(&ended);
}

/* Run on a machine that has GPUs, this is one device beyond the last that may be there. */
static void says_why_there_is_no_gpu(void **state) {
  (void)state;
  program_use(plain_program);
  outcome ended = program_run(SMALL "--place 'embedding=cpu:0,*=cuda:99'");
  assert_int_equal(ended.exit_code, 1);
  assert_non_null(strstr(ended.output, "there is no cuda:99: "));
  outcome_free(&ended);
  program_use(emulated_program);
}

/* ---- CUDA calls of a step -------------------------------------------------------------------- */

/* In the order in which the emulation writes them. */
enum { LAUNCHES, PRODUCTS, FILLS, COPIES, RECORDS, STREAM_WAITS, HOST_WAITS, HOLDS, SORTS };
static const char *const sorts[SORTS] = {"launches", "products",     "fills",      "copies",
                                         "records",  "stream waits", "host waits", "holds"};

static void count_work(int steps, long counts[SORTS]) {
  char arguments[256];
  (void)snprintf(arguments, sizeof arguments, SMALL MIXED "--batch 16 --steps %d", steps);
  assert_int_equal(setenv("EMULATED_WORK", "work", 1), 0);
  outcome ended = program_run(arguments);
  assert_int_equal(unsetenv("EMULATED_WORK"), 0);
  if (ended.exit_code != 0) fail_msg("%s\nended with %d", ended.output, ended.exit_code);
  outcome_free(&ended);
  FILE *file = fopen("work", "r");
  assert_non_null(file);
  for (int i = 0; i < SORTS; i++)
    assert_int_equal(fscanf(file, "%ld", &counts[i]), 1);
  assert_int_equal(fclose(file), 0);
}

/* A training step of the main job, with its embedding on the CPU, once memory is allocated: it
 * makes at most the recorded numbers of calls. If they decrease, lower the limits. A wait for a
 * reached point is omitted, so the shorter run may lack some waits of the longer one, on a busy
 * machine several. */
static void a_step_asks_for_no_more(void **state) {
  (void)state;
  enum { FEW = 2, MANY = 5, MISSING = 8 };
  static const long most[SORTS] = {59, 18, 3, 11, 17, 10, 0, 1};
  long few[SORTS], many[SORTS];
  count_work(FEW, few);
  count_work(MANY, many);
  for (int i = 0; i < SORTS; i++) {
    const long more = many[i] - few[i];
    const long missing = i == STREAM_WAITS ? MISSING : MANY - FEW - 1;
    if (more > most[i] * (MANY - FEW) + missing)
      fail_msg("%d steps take %ld %s, over %ld each", MANY - FEW, more, sorts[i], most[i]);
  }
  assert_true(many[LAUNCHES] - few[LAUNCHES] > 0);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  emulated_program = realpath(argv[1], NULL);
  plain_program = realpath(argv[2], NULL);
  if (!emulated_program || !plain_program) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(learns_as_the_cpu_does),       cmocka_unit_test(repeats_bitwise),
      cmocka_unit_test(tells_how_each_transfer_goes), cmocka_unit_test(says_why_there_is_no_gpu),
      cmocka_unit_test(a_step_asks_for_no_more),
  };
  const int failed = cmocka_run_group_tests(tests, make_lists, NULL);
  free(emulated_program);
  free(plain_program);
  return failed;
}
