/* Runs the test programs of one executable, each as a separate process, so that none is affected by
 * another; or only the program that the first word names. Invariant: all programs of this shard
 * have run, and failures are printed at the end. */
#include "tests/programs.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/shards.h"

/* Creates a folder for temporary files of this program only, because programs run concurrently. */
static void own_folder(const char *name) {
  const char *folder = getenv("TEST_TMPDIR");
  char path[PATH_MAX];
  if (!folder || snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return;
  if (mkdir(path, 0755) == 0 || errno == EEXIST) (void)setenv("TEST_TMPDIR", path, 1);
}

static bool passes(const test_program *program) {
  printf("== %s\n", program->name);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    own_folder(program->name);
    (void)execl("/proc/self/exe", program->name, program->name, (char *)NULL);
    _exit(127);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  if (child < 0)
    printf("== %s: no process: %s\n", program->name, strerror(errno));
  else if (WIFSIGNALED(status))
    printf("== %s: ended by signal %d\n", program->name, WTERMSIG(status));
  else
    printf("== %s: exit status %d\n", program->name, WEXITSTATUS(status));
  return false;
}

static int run_shard(void) {
  const test_shard own = test_own_shard();
  bool *failed = calloc((size_t)test_program_count, sizeof *failed);
  if (!failed) return 1;
  int failures = 0;
  for (int i = own.index; i < test_program_count; i += own.count) {
    failed[i] = !passes(&test_programs[i]);
    failures += failed[i];
  }
  for (int i = 0; i < test_program_count; i++)
    if (failed[i]) printf("== FAILED: %s\n", test_programs[i].name);
  free(failed);
  return failures > 0;
}

int main(int argc, char **argv) {
  if (argc < 2) return run_shard();
  for (int i = 0; i < test_program_count; i++)
    if (strcmp(test_programs[i].name, argv[1]) == 0)
      return test_programs[i].run(argc - 1, argv + 1);
  fprintf(stderr, "%s: there is no test program %s; there are:\n", argv[0], argv[1]);
  for (int i = 0; i < test_program_count; i++)
    fprintf(stderr, "  %s\n", test_programs[i].name);
  return 2;
}
