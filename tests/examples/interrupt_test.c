/* Ctrl-C while examples train: the present step ends, the requested checkpoint is written and can
 * be resumed, and the exit code is that of an interrupted program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/examples/program.h"

#define SENTENCE "The quick brown fox jumps over a lazy dog. "
#define WITHOUT_END " --epochs 100000 "

enum { PATIENCE_SECONDS = 200 }; /* a program that continues is ended by another signal */
enum { KEPT_BYTES = 4096 };

typedef struct example {
  const char *name;
  const char *arguments;
} example;

static const example examples[] = {
    {"distributed_model", "--words low=low.txt --words high=high.txt --batch 4"},
    {"fashion_cnn", "--images 128 --test-images 50 --batch 16 --place '*=cpu:0'"},
    {"capsule", "--images 32 --test-images 16 --batch 16 --place '*=cpu:0'"},
    {"char_lm", "--text text --batch 2 --length 8 --hidden 8 --embedding 4 --sample 0"},
    {"recommender", "--tables 2 --rows 20 --dim 4 --lookups 2 --hidden 8 --samples 500 "
                    "--held-out 100 --batch 25"},
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

/* Replaces the child's shell by the program, so that the program receives the signal. */
static _Noreturn void become(const char *path, const char *arguments, int output) {
  char command[2 * PATH_MAX];
  (void)snprintf(command, sizeof command, "exec '%s' %s", path, arguments);
  (void)signal(SIGINT, SIG_DFL);
  (void)alarm(PATIENCE_SECONDS);
  (void)dup2(output, STDOUT_FILENO);
  (void)dup2(output, STDERR_FILENO);
  (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
  _exit(127);
}

/* Starts a program, sends SIGINT after it has reported its first epoch, and keeps its output (a
 * string of at most capacity bytes). Returns its status of wait. */
static int run_and_interrupt(const char *path, const char *arguments, char *said, size_t capacity) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) become(path, arguments, ends[1]);
  (void)close(ends[1]);
  size_t length = 0;
  bool sent = false;
  for (ssize_t got = 1; got > 0;) {
    got = read(ends[0], said + length, capacity - length - 1);
    if (got < 0 && errno == EINTR) got = 1;
    if (got <= 0) break;
    length += (size_t)got;
    said[length] = '\0';
    if (length > capacity / 2) { /* epochs pass while the signal is on its way: the end counts */
      memmove(said, said + length - KEPT_BYTES, KEPT_BYTES + 1);
      length = KEPT_BYTES;
    }
    if (!sent && strstr(said, "epoch 1/")) sent = kill(child, SIGINT) == 0;
  }
  said[length] = '\0';
  (void)close(ends[0]);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(sent);
  return status;
}

/* Returns the number of steps in the output. */
static long long steps_told(const char *name, int status, const char *said) {
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 130)
    fail_msg("%s: status %d, not exit code 130:\n%s", name, status, said);
  const char *told = strstr(said, "interrupted after ");
  if (!told) fail_msg("%s does not say that it was interrupted:\n%s", name, said);
  return atoll(told + strlen("interrupted after "));
}

static void a_checkpoint_is_written(void **state) {
  (void)state;
  for (int i = 0; i < EXAMPLE_COUNT; i++) {
    static char said[1 << 16];
    char arguments[1024];
    (void)snprintf(arguments, sizeof arguments, "%s" WITHOUT_END "--checkpoint %s.ck",
                   examples[i].arguments, examples[i].name);
    const int status = run_and_interrupt(paths[i], arguments, said, sizeof said);
    const long long steps = steps_told(examples[i].name, status, said);
    assert_true(steps > 0);
    (void)snprintf(arguments, sizeof arguments, "%s" WITHOUT_END "--resume %s.ck --steps %lld",
                   examples[i].arguments, examples[i].name, steps + 1);
    program_use(paths[i]);
    program_expect(arguments, 0, (const char *const[]){NULL});
  }
}

static void nothing_is_written_unasked(void **state) {
  (void)state;
  static char said[1 << 16];
  char arguments[1024];
  (void)snprintf(arguments, sizeof arguments, "%s" WITHOUT_END, examples[0].arguments);
  const int status = run_and_interrupt(paths[0], arguments, said, sizeof said);
  assert_true(steps_told(examples[0].name, status, said) > 0);
  assert_non_null(strstr(said, "nothing was written"));
}

int main(int count, char **arguments) {
  if (count != EXAMPLE_COUNT + 1) return 2;
  for (int i = 0; i < EXAMPLE_COUNT; i++)
    if (!realpath(arguments[i + 1], paths[i])) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_checkpoint_is_written),
      cmocka_unit_test(nothing_is_written_unasked),
  };
  return cmocka_run_group_tests(tests, make_data, NULL);
}
