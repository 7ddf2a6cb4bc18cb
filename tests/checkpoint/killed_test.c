/* Processes are killed while they save checkpoints. The existing file always loads, and training
 * continues from it. Files that a killed save left are removed by the next save. */
#define _GNU_SOURCE /* usleep */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/hash.h"
#include "tests/checkpoint/support.h"

enum { KILLS = 20 };

static const char file_name[] = "killed.safetensors";

/* The test's own process has no context, so that each child begins with none. */
typedef int (*child_main)(trainer *made, const char *path, int ready);

static int begin_child(child_main run, int ready) {
  char path[512];
  const trainer_options options = {.device_map = "*=sim:0", .seed = 3};
  tdm_context *context = graph_context();
  trainer made = trainer_create(context, &options);
  return run(&made, checkpoint_path(path, file_name), ready);
}

/* A child that runs; *out_ready can be read from when it writes to it. */
static pid_t start_child(child_main run, int *out_ready) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends the child if the test ends early */
    (void)close(ends[0]);
    _exit(begin_child(run, ends[1]));
  }
  (void)close(ends[1]);
  *out_ready = ends[0];
  return child;
}

static int save_for_ever(trainer *made, const char *path, int ready) {
  for (int i = 0;; i++) {
    (void)trainer_step(made);
    if (tdm_checkpoint_save(made->session, made->loader, path) != TDM_OK) return 1;
    if (i == 0 && write(ready, "", 1) != 1) return 1;
  }
}

static int save_once(trainer *made, const char *path, int ready) {
  (void)ready;
  (void)trainer_step(made);
  return tdm_checkpoint_save(made->session, made->loader, path) != TDM_OK;
}

static int load_and_go_on(trainer *made, const char *path, int ready) {
  (void)ready;
  if (tdm_checkpoint_load(made->session, made->loader, path) != TDM_OK) {
    fprintf(stderr, "%s\n", tdm_last_message());
    return 1;
  }
  const uint64_t steps = tdm_session_step(made->session);
  (void)trainer_step(made);
  return steps == 0 || tdm_session_step(made->session) != steps + 1;
}

static void run_to_its_end(child_main run) {
  int ready, ended;
  const pid_t child = start_child(run, &ready);
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_true(WIFEXITED(ended));
  assert_int_equal(WEXITSTATUS(ended), 0);
  (void)close(ready);
}

static int count_left(const char *begin) {
  char folder[512];
  DIR *stream = opendir(checkpoint_path(folder, ""));
  assert_non_null(stream);
  int count = 0;
  for (struct dirent *entry = readdir(stream); entry; entry = readdir(stream))
    count += strncmp(entry->d_name, begin, strlen(begin)) == 0;
  (void)closedir(stream);
  return count;
}

static void a_killed_save_leaves_a_checkpoint_that_loads(void **state) {
  (void)state;
  int left_once = 0;
  for (int i = 0; i < KILLS; i++) {
    int ready, ended;
    char byte;
    const pid_t child = start_child(save_for_ever, &ready);
    assert_int_equal(read(ready, &byte, 1), 1);
    (void)usleep((useconds_t)(tdm_hash_mix(5, (uint64_t)i) % 10000));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended)); /* every save before it was completed */
    (void)close(ready);
    const int left = count_left(".killed.safetensors.tandem-");
    assert_in_range(left, 0, 1);
    left_once += left;
    run_to_its_end(load_and_go_on);
  }
  print_message("%d of %d kills left a file for the next save to remove\n", left_once, KILLS);
  run_to_its_end(save_once);
  assert_int_equal(count_left(".killed"), 0);
  assert_int_equal(count_left("killed"), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_killed_save_leaves_a_checkpoint_that_loads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
