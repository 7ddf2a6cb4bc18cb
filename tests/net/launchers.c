/* See launchers.h. */
#define _GNU_SOURCE /* popen, mkdtemp */
#include "tests/net/launchers.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int file_count;
static char **files;
static char folder_of_job[] = "/tmp/tdm.XXXXXX"; /* short: paths of sockets are in it */

static void remove_folder(void) {
  char command[64];
  (void)snprintf(command, sizeof command, "rm -rf %s", folder_of_job);
  (void)!system(command);
}

/* Uses a folder for each job, because a job of Open MPI that ends removes files of other jobs. */
static void own_folder(void) {
  if (!mkdtemp(folder_of_job)) return;
  (void)atexit(remove_folder);
  (void)setenv("TMPDIR", folder_of_job, 1);
}

void launchers_use(int count, char **arguments) {
  own_folder();
  file_count = count;
  files = arguments;
  for (int i = 1; i < count; i++) {
    char *path = realpath(arguments[i], NULL);
    if (path) arguments[i] = path; /* not restored, because a process has one list */
  }
}

const launcher openmpi = {
    .plugin = "libtandem_openmpi.so",
    .own_program = "rank_openmpi",
    .launcher = "mpirun.openmpi",
    .command = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 240 "
               "mpirun.openmpi --oversubscribe --mca btl self,vader --mca pml ob1 "
               "--mca mpi_yield_when_idle 1",
    .version = "Open MPI ",
    .recovery = "--enable-recovery",
};
const launcher mpich = {
    .plugin = "libtandem_mpich.so",
    .own_program = "rank_mpich",
    .launcher = "mpiexec.mpich",
    .command = "timeout -k 5 240 mpiexec.mpich",
    .version = "MPICH ",
    .recovery = "-disable-auto-cleanup",
};

const char *find_file(const char *name) {
  for (int i = 0; i < file_count; i++) {
    const char *slash = strrchr(files[i], '/');
    if (slash && strcmp(slash + 1, name) == 0) return files[i];
  }
  return NULL;
}

void require(const launcher *of) {
  char command[128];
  if (!find_file(of->plugin)) {
    print_message("%s was not built: the headers of its MPI are not installed\n", of->plugin);
    skip();
  }
  (void)snprintf(command, sizeof command, "command -v %s >/dev/null", of->launcher);
  if (system(command) != 0) {
    print_message("%s is not installed\n", of->launcher);
    skip();
  }
  char folder[512];
  const char *plugin = find_file(of->plugin);
  (void)snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(plugin, '/') - plugin), plugin);
  assert_int_equal(setenv("TANDEM_NET_PATH", folder, 1), 0);
}

char output[200000];

int run_command(const char *command) {
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
  return pclose(pipe);
}

int launch(const launcher *of, const char *options, int ranks, const char *program,
           const char *argument) {
  char command[2048];
  (void)snprintf(command, sizeof command, "%s %s -n %d %s %s 2>&1", of->command, options, ranks,
                 find_file(program), argument);
  return run_command(command);
}

void expect(const char *part, size_t times) {
  size_t count = 0;
  for (const char *at = strstr(output, part); at; at = strstr(at + 1, part))
    count++;
  if (count != times) print_message("expected %zu times: %s\n%s\n", times, part, output);
  assert_int_equal(count, times);
}

void expect_end(int status, bool good) {
  if ((status == 0) != good) print_message("%s\n", output);
  assert_true((status == 0) == good);
}
