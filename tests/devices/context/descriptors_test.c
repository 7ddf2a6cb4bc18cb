/* Contexts of a process whose standard input, output or error is closed: they are created and
 * closed, and the closed descriptors stay closed. Also a process that may open few files. Each case
 * is a child process, since libuv would end the process in which it happens. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/devices/support.h"

enum { THREADS = 4, CONTEXTS_EACH = 10 };

/* Creates a context that has work, and releases it. Returns false on failure. */
static bool use_a_context(void) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_tensor *tensor =
      !context ? NULL : tdm_tensor_full(context, "sim:0", TDM_FLOAT32, tdm_shape_of(1, 3), 2.0);
  float values[3] = {0};
  const bool right =
      tensor && tdm_tensor_read(tensor, values, sizeof(values)) == TDM_OK && values[2] == 2.0f;
  tdm_tensor_release(tensor);
  tdm_context_release(context);
  return right;
}

static void *use_contexts(void *user) {
  bool *right = user;
  *right = true;
  for (int i = 0; i < CONTEXTS_EACH; i++)
    *right = use_a_context() && *right;
  return NULL;
}

static bool use_contexts_on_threads(void) {
  pthread_t threads[THREADS];
  bool right[THREADS] = {false};
  bool all = true;
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, use_contexts, &right[i]) != 0) abort();
  for (int i = 0; i < THREADS; i++) {
    (void)pthread_join(threads[i], NULL);
    all = all && right[i];
  }
  return all;
}

/* Expects that `use` succeeds with the descriptors of `closed` (bit i: i) closed, and that they are
 * still closed afterwards. */
static void assert_survives(unsigned closed, bool (*use)(void)) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    for (int i = 0; i < 3; i++)
      if ((closed >> i & 1) != 0) (void)close(i);
    int code = use() ? 0 : 1;
    /* One bit compared with the other, gcc 12 finds them different with -fsanitize=undefined. */
    unsigned still_closed = 0;
    for (int i = 0; i < 3; i++)
      if (fcntl(i, F_GETFD) < 0) still_closed |= 1u << i;
    if (still_closed != closed) code += 2;
    _exit(code);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) fail_msg("closed %u: signal %d", closed, WTERMSIG(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void every_combination_of_closed_descriptors_is_survived(void **state) {
  (void)state;
  for (unsigned closed = 0; closed < 8; closed++)
    assert_survives(closed, use_a_context);
}

static void threads_that_make_contexts_wait_for_each_other(void **state) {
  (void)state;
  assert_survives(7, use_contexts_on_threads);
}

/* Creates a context with at most this many file descriptors. It may fail, but must not abort. */
static bool use_few_descriptors(rlim_t most) {
  const struct rlimit limit = {most, most};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  return use_a_context() || tdm_last_message()[0] != '\0';
}

static void any_room_for_files_is_survived(void **state) {
  (void)state;
  for (rlim_t most = 3; most < 24; most++) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(use_few_descriptors(most) ? 0 : 1);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) fail_msg("room for %d: signal %d", (int)most, WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_combination_of_closed_descriptors_is_survived),
      cmocka_unit_test(threads_that_make_contexts_wait_for_each_other),
      cmocka_unit_test(any_room_for_files_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
