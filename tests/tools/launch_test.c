/* tandem launch with launchers and plug-ins that are only names: which of them it selects, the
 * command line that it makes, and refused options. tests/net has those with ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/examples/program.h"

static char tool[PATH_MAX];

/* ---- Folders of launchers and plug-ins ------------------------------------------------------- */

static void make_launcher(const char *folder, const char *name, const char *version) {
  char path[PATH_MAX], script[256];
  (void)mkdir(folder, 0755);
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  (void)snprintf(script, sizeof script, "#!/bin/sh\necho '%s'\nexit 5\n", version);
  write_file(path, script, strlen(script));
  assert_int_equal(chmod(path, 0755), 0);
}

static void make_plugin(const char *folder, const char *name) {
  char path[PATH_MAX];
  (void)mkdir(folder, 0755);
  (void)snprintf(path, sizeof path, "%s/libtandem_%s.so", folder, name);
  write_file(path, "", 0);
}

static int make_folders(void **state) {
  (void)state;
  make_launcher("both", "mpirun.openmpi", "mpirun.openmpi (OpenRTE) 4.1.4");
  make_launcher("both", "mpiexec.mpich", "HYDRA build details:");
  make_launcher("shared_openmpi", "mpirun", "mpirun (Open MPI) 5.0.11");
  make_launcher("shared_mpich", "mpiexec", "HYDRA build details:");
  make_launcher("strange", "mpirun", "Some MPI of its own");
  make_launcher("slurm", "srun", "slurm 24.05");
  make_plugin("plugins", "openmpi");
  make_plugin("plugins", "mpich");
  make_plugin("mpich_alone", "mpich");
  make_plugin("none", "nothing");
  make_plugin("two words", "openmpi");
  write_file("hosts", "a\nb\n", 4);
  return 0;
}

/* Runs the tool where PATH has the launchers of one folder, and TANDEM_NET_PATH is the other. */
static outcome run(const char *launchers, const char *plugins, const char *variables,
                   const char *arguments) {
  char line[3 * PATH_MAX];
  assert_true(
      snprintf(line, sizeof line,
               "unset TANDEM_NET SLURM_JOB_ID; TANDEM_NET_PATH=%s PATH=%s %s '%s' launch %s",
               plugins, launchers, variables, tool, arguments) < (int)sizeof line);
  return program_run_as(line);
}

static void expect(const char *launchers, const char *plugins, const char *variables,
                   const char *arguments, int exit_code, const char *const *texts) {
  outcome ended = run(launchers, plugins, variables, arguments);
  if (ended.exit_code != exit_code)
    fail_msg("%s ended with %d:\n%s", arguments, ended.exit_code, ended.output);
  for (; *texts; texts++)
    if (!strstr(ended.output, *texts))
      fail_msg("%s does not say \"%s\":\n%s", arguments, *texts, ended.output);
  outcome_free(&ended);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- Cases ----------------------------------------------------------------------------------- */

static void the_mpi_that_is_there_is_taken(void **state) {
  (void)state;
  expect("both", "plugins", "", "-n 1 --print program", 0,
         TEXTS("TANDEM_NET=openmpi ", "mpirun.openmpi -n 1 "));
  expect("both", "plugins", "", "--print -n 1 -- program -- -n", 0, TEXTS(" program -- -n\n"));
  expect("both", "plugins", "", "--mpi mpich -n 1 --print program", 0,
         TEXTS("TANDEM_NET=mpich TANDEM_NET_PATH=plugins ", " mpiexec.mpich -n 1 "));
  expect("both", "plugins", "TANDEM_NET=mpich", "-n 1 --print program", 0, TEXTS("mpiexec.mpich"));
  expect("both", "mpich_alone", "", "-n 1 --print program", 0, TEXTS("mpiexec.mpich"));
  expect("shared_openmpi", "plugins", "", "-n 1 --print program", 0,
         TEXTS("TANDEM_NET=openmpi ", " mpirun -n 1"));
  expect("shared_mpich", "plugins", "", "-n 1 --print program", 0,
         TEXTS("TANDEM_NET=mpich ", " mpiexec -n 1"));
}

/* Settings of the user are kept. */
static void messages_over_tcp_go_at_once(void **state) {
  (void)state;
  expect(
      "both", "plugins", "", "-n 1 --print program", 0,
      TEXTS("OMPI_MCA_btl_tcp_eager_limit=262144 ", "OMPI_MCA_btl_tcp_rndv_eager_limit=262144 "));
  outcome ended =
      run("both", "plugins", "OMPI_MCA_btl_tcp_eager_limit=65536", "-n 1 --print program");
  assert_null(strstr(ended.output, "btl_tcp_eager_limit"));
  assert_non_null(strstr(ended.output, "btl_tcp_rndv_eager_limit=262144"));
  outcome_free(&ended);
  ended = run("both", "plugins", "", "--mpi mpich -n 1 --print program");
  assert_null(strstr(ended.output, "OMPI_"));
  assert_non_null(strstr(ended.output, "UCX_RNDV_THRESH=262144 "));
  outcome_free(&ended);
  ended = run("both", "plugins", "UCX_RNDV_THRESH=auto", "--mpi mpich -n 1 --print program");
  assert_null(strstr(ended.output, "UCX_RNDV_THRESH"));
  outcome_free(&ended);
}

static void the_command_line_has_all_that_is_asked_for(void **state) {
  (void)state;
  expect("both", "plugins", "TANDEM_STAGING_BYTES=5 ",
         "-n 3 --hostfile hosts -o --display-map --option x --print program -n 'a b'", 0,
         TEXTS(" -n 3 --hostfile hosts --bind-to none ", " -x TANDEM_STAGING_BYTES ",
               " --display-map x program -n 'a b'\n"));
  expect("both", "plugins", "", "--mpi mpich -n 3 --hostfile hosts --print program", 0,
         TEXTS("mpiexec.mpich -n 3 -f hosts program\n"));
  expect("both", "plugins", "", "-n 60000 --print program", 0,
         TEXTS(" -n 60000 --oversubscribe --bind-to none "));
  expect("both", "plugins", "", "-n 1 --print program", 0,
         TEXTS(" --map-by slot:PE=", " --bind-to core "));
  expect("both", "plugins", "", "--mpi mpich -n 1 --print program", 0, TEXTS(" -bind-to core:"));
}

static void any_number_of_arguments_goes_along(void **state) {
  (void)state;
  enum { ARGUMENTS = 1000 };
  char words[32 + 2 * ARGUMENTS] = "-n 1 --print program";
  for (int i = 0; i < ARGUMENTS; i++)
    strcat(words, " a");
  outcome ended = run("both", "plugins", "", words);
  assert_int_equal(ended.exit_code, 0);
  assert_non_null(strstr(ended.output, strstr(words, " program a")));
  outcome_free(&ended);
}

/* A shell reads the printed words unchanged. */
static void what_is_printed_is_quoted(void **state) {
  (void)state;
  expect("both", "'two words'", "", "-n 1 --print program", 0,
         TEXTS("TANDEM_NET_PATH='two words' "));
}

static void slurm_starts_its_own_jobs(void **state) {
  (void)state;
  expect("slurm", "plugins", "SLURM_JOB_ID=7", "--print program", 0,
         TEXTS("TANDEM_NET=openmpi ", "srun --mpi=pmix program\n"));
  expect("slurm", "plugins", "SLURM_JOB_ID=7", "--mpi mpich -n 4 --print program", 0,
         TEXTS("TANDEM_NET=mpich ", "srun -n 4 --mpi=pmi2 program\n"));
  expect("slurm", "plugins", "SLURM_JOB_ID=7", "-n 2 --hostfile hosts program", 2,
         TEXTS("Slurm has given the job its machines"));
  expect("slurm", "plugins", "", "-n 2 --print program", 1, TEXTS("openmpi: no launcher"));
}

static void exit_codes_are_the_launchers(void **state) {
  (void)state;
  expect("both", "plugins", "", "-n 2 program", 5, TEXTS("OpenRTE"));
}

static void what_cannot_start_is_refused(void **state) {
  (void)state;
  expect("none", "plugins", "", "-n 2 program", 1,
         TEXTS("openmpi: no launcher of it in PATH", "mpich: no launcher of it in PATH"));
  expect("strange", "plugins", "", "-n 2 program", 1, TEXTS("openmpi: no launcher"));
  expect("both", "mpich_alone", "", "--mpi openmpi -n 2 program", 1,
         TEXTS("openmpi: no plug-in of Tandem"));
  expect("both", "plugins", "TANDEM_NET=none", "-n 2 program", 1, TEXTS("TANDEM_NET=none"));
  expect("both", "plugins", "TANDEM_NET=lam", "-n 2 program", 1, TEXTS("not \"lam\""));
  expect("both", "plugins", "", "program", 2, TEXTS("-n N"));
  expect("both", "plugins", "", "-n two program", 2, TEXTS("not \"two\""));
  expect("both", "plugins", "", "-n 0 program", 2, TEXTS("not \"0\""));
  expect("both", "plugins", "", "-n 2", 2, TEXTS("missing PROGRAM [ARGUMENT...]"));
  expect("both", "plugins", "", "-n", 2, TEXTS("-n needs N"));
  expect("both", "plugins", "", "--mpi lam -n 2 program", 2, TEXTS("not \"lam\""));
  expect("both", "plugins", "", "--hostfile nowhere -n 2 program", 2, TEXTS("nowhere"));
  expect("both", "plugins", "", "--colour -n 2 program", 2, TEXTS("no option \"--colour\""));
  expect("both", "plugins", "", "-n 2 --", 2, TEXTS("no option \"--\""));
  expect("both", "plugins", "", "-n 2 --print program a : b", 2, TEXTS("another program", "':'"));
  expect("slurm", "plugins", "SLURM_JOB_ID=7", "--print program a : b", 0,
         TEXTS(" program a : b\n"));
  expect("both", "plugins", "", "--help", 0, TEXTS("--hostfile FILE"));
}

/* The ranks of a tool that OpenMP's runtime has bound to one place are not all of that place. */
static void the_binding_of_openmp_is_not_the_ranks(void **state) {
  (void)state;
  outcome unbound = run("both", "plugins", "", "-n 2 --print program");
  outcome bound = run("both", "plugins", "OMP_PROC_BIND=true", "-n 2 --print program");
  assert_string_equal(bound.output, unbound.output);
  outcome_free(&bound);
  outcome_free(&unbound);
}

static void a_line_that_cannot_be_printed_is_told(void **state) {
  (void)state;
  expect("both", "plugins", "", "-n 1 --print program > /dev/full", 1,
         TEXTS("cannot write it all"));
}

int main(int count, char **arguments) {
  if (count != 2 || !realpath(arguments[1], tool)) return 2;
  const char *folder = getenv("TEST_TMPDIR");
  if (!folder || chdir(folder) != 0) return 2;
  /* The build folder may have plug-ins, too. */
  char copy[2 * PATH_MAX];
  (void)snprintf(copy, sizeof copy, "mkdir -p alone && cp -f '%s' alone/tandem", tool);
  if (system(copy) != 0 || !realpath("alone/tandem", tool)) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_binding_of_openmp_is_not_the_ranks),
      cmocka_unit_test(a_line_that_cannot_be_printed_is_told),
      cmocka_unit_test(the_mpi_that_is_there_is_taken),
      cmocka_unit_test(messages_over_tcp_go_at_once),
      cmocka_unit_test(the_command_line_has_all_that_is_asked_for),
      cmocka_unit_test(any_number_of_arguments_goes_along),
      cmocka_unit_test(what_is_printed_is_quoted),
      cmocka_unit_test(slurm_starts_its_own_jobs),
      cmocka_unit_test(exit_codes_are_the_launchers),
      cmocka_unit_test(what_cannot_start_is_refused),
  };
  return cmocka_run_group_tests(tests, make_folders, NULL);
}
