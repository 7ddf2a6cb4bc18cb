/* Examples as jobs of each installed MPI. With the same options they save the bits that one process
 * saves. Rank 0 reports, once. A job continues from another's checkpoint. A failure is reported
 * with its rank. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/examples/program.h"
#include "tests/net/launchers.h"

enum { COMMAND_BYTES = 2048 };

/* An example, small, with what its last line begins with. */
typedef struct example {
  const char *name;
  const char *options;
  const char *last;
} example;

static const example examples[] = {
    {"distributed_model",
     "--words low=low.txt --words high=high.txt --words-per-language 100 --epochs 2",
     "\naccuracy "},
    {"fashion_cnn", "--images 128 --test-images 64 --epochs 1 --batch 32", "\naccuracy "},
    {"recommender",
     "--tables 4 --rows 40 --dim 8 --lookups 2 --hidden 16 --samples 1000 --held-out 200 "
     "--epochs 2 --batch 50",
     "\nAUC "},
};
enum { EXAMPLE_COUNT = sizeof examples / sizeof *examples };

static int make_lists(void **state) {
  (void)state;
  write_words("low.txt", 'a', 'm', 150, 1);
  write_words("high.txt", 'n', 'z', 150, 2);
  return 0;
}

static void alone(const example *of, const char *options) {
  char command[2 * COMMAND_BYTES];
  (void)snprintf(command, sizeof command, "%s %s --deterministic %s 2>&1", find_file(of->name),
                 of->options, options);
  expect_end(run_command(command), true);
}

static void together(const launcher *mpi, const example *of, int ranks, const char *options) {
  char arguments[2 * COMMAND_BYTES];
  (void)snprintf(arguments, sizeof arguments, "%s --deterministic %s", of->options, options);
  expect_end(launch(mpi, "", ranks, of->name, arguments), true);
}

static void assert_same_files(const char *a, const char *b) {
  size_t sizes[2];
  char *mine = read_whole(a, &sizes[0]);
  char *other = read_whole(b, &sizes[1]);
  assert_int_equal(sizes[0], sizes[1]);
  if (memcmp(mine, other, sizes[0]) != 0) fail_msg("%s and %s differ", a, b);
  free(mine);
  free(other);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* The plug-in is built with the example, which finds it by itself. */
static void test_finds_its_plugin(void **state) {
  const launcher *mpi = *state;
  require(mpi);
  assert_int_equal(unsetenv("TANDEM_NET_PATH"), 0);
  together(mpi, &examples[0], 2, "--save job.safetensors");
  expect(examples[0].last, 1); /* two separate processes would both print it */
}

/* The options do not depend on ranks: rank 0's devices have the whole model. */
static void test_same_options(void **state) {
  const launcher *mpi = *state;
  require(mpi);
  for (int i = 0; i < EXAMPLE_COUNT; i++) {
    alone(&examples[i], "--save alone.safetensors");
    together(mpi, &examples[i], 2, "--save job.safetensors");
    expect(examples[i].last, 1); /* only rank 0 prints it */
    assert_same_files("alone.safetensors", "job.safetensors");
  }
}

/* A replica a rank is a replica twice on one device. */
static void test_replicas(void **state) {
  const launcher *mpi = *state;
  require(mpi);
  for (int i = 0; i < EXAMPLE_COUNT; i++) {
    alone(&examples[i], "--data-parallel cpu:0,cpu:0,cpu:0 --save alone.safetensors");
    together(mpi, &examples[i], 3, "--data-parallel 'host:*/cpu:0' --save job.safetensors");
    assert_same_files("alone.safetensors", "job.safetensors");
  }
}

/* Two ranks stop in an epoch, and three continue, of which the last has the expensive part. */
static void test_goes_on(void **state) {
  const launcher *mpi = *state;
  require(mpi);
  const example *of = &examples[2];
  alone(of, "--place '*=cpu:0' --checkpoint alone.safetensors");
  together(mpi, of, 2, "--place 'tables=cpu:0,*=host:1/cpu:0' --steps 25 --checkpoint half.st");
  together(mpi, of, 3,
           "--place 'tables=host:1/cpu:0,*=host:2/cpu:0' --resume half.st --checkpoint job.st "
           "--explain --dot plan.dot --trace steps.json");
  assert_same_files("alone.safetensors", "job.st");
  assert_true(file_exists("plan.dot"));
  assert_true(file_exists("steps.json"));
  assert_true(file_exists("steps.json.2"));
}

/* A rank of three is killed after a checkpoint: the others report it and end. The same command with
 * two ranks continues from there, like one process with as many replicas. Processes of the launcher
 * stay until both have reported, because MPICH's launcher ends all as soon as one is missing. */
static void write_killer(void) {
  FILE *file = fopen("killer.sh", "w");
  assert_non_null(file);
  fputs("rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n"
        "if [ \"$rank\" = 2 ]; then\n"
        "  \"$@\" &\n"
        "  until [ -e half.st ]; do sleep 0.05; done\n"
        "  kill -9 $!\n"
        "else\n"
        "  \"$@\" 2> told.$rank\n"
        "fi\n"
        "tries=0\n"
        "told='rank 2 (host'\n"
        "until grep -qs \"$told\" told.0 && grep -qs \"$told\" told.1 || [ $tries = 600 ]; do\n"
        "  sleep 0.05\n"
        "  tries=$((tries + 1))\n"
        "done\n"
        "kill -9 $$\n",
        file);
  assert_int_equal(fclose(file), 0);
}

/* Returns the step count of a checkpoint: an int64 of the safetensors file. */
static int64_t steps_of(const char *path) {
  size_t size;
  char *file = read_whole(path, &size);
  const char *entry = strstr(file + 8, "\"checkpoint/step\"");
  assert_non_null(entry);
  const char *offsets = strstr(entry, "\"data_offsets\":[");
  assert_non_null(offsets);
  uint64_t header;
  int64_t steps;
  memcpy(&header, file, sizeof header);
  const size_t at = 8 + header + strtoull(offsets + strlen("\"data_offsets\":["), NULL, 10);
  assert_true(at + sizeof steps <= size);
  memcpy(&steps, file + at, sizeof steps);
  free(file);
  return steps;
}

static size_t count_tellers(void) {
  size_t count = 0;
  for (int rank = 0; rank < 2; rank++) {
    char path[16];
    size_t size;
    (void)snprintf(path, sizeof path, "told.%d", rank);
    if (!file_exists(path)) continue;
    char *told = read_whole(path, &size);
    count += strstr(told, "rank 2 (host ") != NULL;
    free(told);
  }
  return count;
}

static void test_goes_on_with_fewer(void **state) {
  const launcher *mpi = *state;
  require(mpi);
  const example *of = &examples[2];
  static const char *const common = "--epochs 100000 --checkpoint-every 5";
  char command[COMMAND_BYTES], options[COMMAND_BYTES];
  (void)remove("half.st");
  (void)remove("told.0");
  (void)remove("told.1");
  write_killer();
  (void)snprintf(command, sizeof command,
                 "%s %s -n 3 sh killer.sh %s %s --deterministic %s --data-parallel 'host:*/cpu:0' "
                 "--checkpoint half.st 2>&1",
                 mpi->command, mpi->recovery, find_file(of->name), of->options, common);
  (void)run_command(command); /* Open MPI's launcher ends well where ranks may be lost */
  const size_t tellers = count_tellers();
  if (tellers < 2) fail_msg("%zu of the survivors named rank 2:\n%s", tellers, output);
  const int64_t steps = steps_of("half.st");
  assert_true(steps > 0 && steps % 5 == 0);
  (void)snprintf(options, sizeof options,
                 "%s --data-parallel cpu:0,cpu:0,cpu:0 --steps %lld --checkpoint alone.st", common,
                 (long long)steps);
  alone(of, options);
  assert_same_files("alone.st", "half.st");
  (void)snprintf(options, sizeof options,
                 "%s --steps %lld --resume half.st --checkpoint job.st "
                 "--data-parallel 'host:*/cpu:0'",
                 common, (long long)steps + 30);
  together(mpi, of, 2, options);
  (void)snprintf(options, sizeof options,
                 "%s --steps %lld --resume half.st --checkpoint alone.st "
                 "--data-parallel cpu:0,cpu:0",
                 common, (long long)steps + 30);
  alone(of, options);
  assert_int_equal(steps_of("job.st"), steps + 30);
  assert_same_files("alone.st", "job.st");
}

static void test_fails(void **state) {
  const launcher *mpi = *state;
  require(mpi);
  char arguments[COMMAND_BYTES];
  (void)snprintf(arguments, sizeof arguments, "%s --place '*=host:2/cpu:0'", examples[2].options);
  expect_end(launch(mpi, "", 2, examples[2].name, arguments), false);
  expect("there is no host:2/cpu:0: the job has 2 ranks", 2);
  expect("recommender: rank 1: ", 1);
  (void)snprintf(arguments, sizeof arguments, "%s --steps 1 --save no/such/folder",
                 examples[2].options);
  expect_end(launch(mpi, "", 2, examples[2].name, arguments), false);
}

#define CASE(function, of)                                                                         \
  { #function " on " #of, function, NULL, NULL, (void *)&(of) }

int main(int count, char **arguments) {
  const struct CMUnitTest tests[] = {
      CASE(test_finds_its_plugin, openmpi),
      CASE(test_same_options, openmpi),
      CASE(test_replicas, openmpi),
      CASE(test_goes_on, openmpi),
      CASE(test_goes_on_with_fewer, openmpi),
      CASE(test_fails, openmpi),
      CASE(test_finds_its_plugin, mpich),
      CASE(test_same_options, mpich),
      CASE(test_replicas, mpich),
      CASE(test_goes_on, mpich),
      CASE(test_goes_on_with_fewer, mpich),
      CASE(test_fails, mpich),
  };
  launchers_use(count, arguments);
  const char *folder = getenv("TEST_TMPDIR");
  if (folder && chdir(folder) != 0) return 2;
  return cmocka_run_group_tests(tests, make_lists, NULL);
}
