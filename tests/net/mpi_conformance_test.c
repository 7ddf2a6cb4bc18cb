/* The conformance suite on each MPI that is here, in processes that its own launcher starts. The
 * first argument is the program of a rank, then come the plug-ins that were built. */
#define _GNU_SOURCE /* popen */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int argument_count;
static char **arguments;

/* Ranks of one machine with fewer cores than ranks; as root, as in containers. Memory that
 * processes share is all they need. */
static const char openmpi[] =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 60 mpirun.openmpi "
    "--oversubscribe --mca btl self,vader --mca pml ob1 --mca mpi_yield_when_idle 1 -n %d %s 2>&1";
static const char mpich[] = "timeout -k 5 60 mpiexec.mpich -n %d %s 2>&1";

typedef struct launcher {
  const char *plugin; /* of its name */
  const char *program;
  const char *command; /* of ranks and program */
  const char *version;
} launcher;

static const launcher launchers[] = {
    {"libtandem_openmpi.so", "mpirun.openmpi", openmpi, "Open MPI "},
    {"libtandem_mpich.so", "mpiexec.mpich", mpich, "MPICH "},
};

/* The folder of the plug-in, into folder; false where it was not built. */
static bool find_plugin(const launcher *of, char *folder, size_t capacity) {
  for (int i = 2; i < argument_count; i++) {
    const char *slash = strrchr(arguments[i], '/');
    if (!slash || strcmp(slash + 1, of->plugin) != 0) continue;
    (void)snprintf(folder, capacity, "%.*s", (int)(slash - arguments[i]), arguments[i]);
    return true;
  }
  return false;
}

static bool is_here(const launcher *of) {
  char command[128], folder[512];
  if (!find_plugin(of, folder, sizeof(folder))) {
    print_message("%s was not built: the headers of its MPI are not installed\n", of->plugin);
    return false;
  }
  (void)snprintf(command, sizeof(command), "command -v %s >/dev/null", of->program);
  if (system(command) == 0) return true;
  print_message("%s is not installed\n", of->program);
  return false;
}

/* Runs the command to its end; its output into text. */
static int run(const char *command, char *text, size_t capacity) {
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  const size_t length = fread(text, 1, capacity - 1, pipe);
  text[length] = '\0';
  return pclose(pipe);
}

static size_t count_of(const char *text, const char *part) {
  size_t count = 0;
  for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
    count++;
  return count;
}

static void run_ranks(const launcher *of, int ranks) {
  char folder[512], command[2048], expected[64];
  static char text[100000];
  (void)find_plugin(of, folder, sizeof(folder));
  assert_int_equal(setenv("TANDEM_NET_PATH", folder, 1), 0);
  (void)snprintf(command, sizeof(command), of->command, ranks, arguments[1]);
  const int status = run(command, text, sizeof(text));
  if (status != 0) print_message("%s\n", text);
  assert_int_equal(status, 0);
  for (int rank = 0; rank < ranks; rank++) {
    (void)snprintf(expected, sizeof(expected), "rank %d of %d passed on %s", rank, ranks,
                   of->version);
    assert_int_equal(count_of(text, expected), 2);
  }
}

static void test_launcher(const launcher *of) {
  if (!is_here(of)) skip();
  for (int ranks = 1; ranks <= 3; ranks++)
    run_ranks(of, ranks);
}

static void test_openmpi(void **state) {
  (void)state;
  test_launcher(&launchers[0]);
}

static void test_mpich(void **state) {
  (void)state;
  test_launcher(&launchers[1]);
}

/* By itself the program is alone, unless somebody says otherwise. */
static void test_alone(void **state) {
  (void)state;
  char text[4096];
  assert_int_equal(run(arguments[1], text, sizeof(text)), 0);
  assert_string_equal(text, "alone\n");
}

int main(int count, char **values) {
  argument_count = count;
  arguments = values;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_alone),
      cmocka_unit_test(test_openmpi),
      cmocka_unit_test(test_mpich),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
