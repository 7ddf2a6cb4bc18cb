/* Silence of ranks: which ranks are suspected and logged, which are lost, by which limit. Beats are
 * sent even while the rank's program holds its locks, its allocator or its cores. */
#define _GNU_SOURCE /* sched_setaffinity */
#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "tests/net/control_job.h"

/* ---- Lines of the log ------------------------------------------------------------------------ */

enum { MOST_LINES = 32 };

typedef struct lines {
  pthread_mutex_t lock;
  int count;
  tdm_log_level levels[MOST_LINES];
  char text[MOST_LINES][TDM_MESSAGE_BYTES];
} lines;

static void add_line(void *user, tdm_log_level level, const char *message) {
  lines *of = user;
  (void)pthread_mutex_lock(&of->lock);
  if (of->count < MOST_LINES) {
    of->levels[of->count] = level;
    (void)snprintf(of->text[of->count++], TDM_MESSAGE_BYTES, "%s", message);
  }
  (void)pthread_mutex_unlock(&of->lock);
}

/* Returns the number of lines of that level that contain the part. */
static int count_lines(lines *of, tdm_log_level level, const char *part) {
  int found = 0;
  (void)pthread_mutex_lock(&of->lock);
  for (int i = 0; i < of->count; i++)
    found += of->levels[i] == level && strstr(of->text[i], part) != NULL;
  (void)pthread_mutex_unlock(&of->lock);
  return found;
}

static void wait_line(lines *of, tdm_log_level level, const char *part) {
  while (count_lines(of, level, part) == 0)
    (void)usleep(1000);
}

static void log_to(job *made, lines *of) {
  for (int i = 0; i < made->count; i++) {
    (void)pthread_mutex_init(&of[i].lock, NULL);
    made->ranks[i].options.log = add_line;
    made->ranks[i].options.log_user = &of[i];
  }
}

/* ---- Suspected and lost ---------------------------------------------------------------------- */

/* Checks that each other rank logs one warning that names the rank, and one line when it is heard
 * again. */
static void test_a_silent_rank_is_suspected(void **state) {
  (void)state;
  static lines logs[MOST];
  job made = {0};
  open_net(&made, MOST);
  log_to(&made, logs);
  start_all(&made);
  tdm_control_pause(made.ranks[2].control, true);
  for (int i = 0; i < 2; i++) {
    char own[16];
    (void)snprintf(own, sizeof own, "rank %d: rank 2 ", i);
    wait_line(&logs[i], TDM_LOG_WARNING, own);
    wait_line(&logs[i], TDM_LOG_WARNING, "(host sim2, pid ");
    wait_line(&logs[i], TDM_LOG_WARNING, "has not been heard of for 1");
    wait_line(&logs[i], TDM_LOG_WARNING, "it is lost after 300 s (TANDEM_NET_SILENCE_SECONDS)");
  }
  tdm_control_pause(made.ranks[2].control, false);
  for (int i = 0; i < 2; i++)
    wait_line(&logs[i], TDM_LOG_INFO, "rank 2 (host sim2, pid ");
  tdm_control_progress(made.ranks[2].control, 0, 7);
  for (int i = 0; i < 2; i++) {
    wait_progress(made.ranks[i].control, 2, 7);
    assert_int_equal(count_lines(&logs[i], TDM_LOG_WARNING, "rank 2 (host"), 1);
    assert_int_equal(count_lines(&logs[i], TDM_LOG_INFO, "rank 2 (host"), 1);
    assert_int_equal(count_lines(&logs[i], TDM_LOG_INFO, "is heard again after "), 1);
    assert_false(tdm_control_failed(made.ranks[i].control, NULL));
  }
  close_net(&made);
}

/* A program's log function that blocks delays no beat. */
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void log_behind_a_lock(void *user, tdm_log_level level, const char *message) {
  (void)level;
  (void)message;
  atomic_fetch_add((_Atomic int *)user, 1);
  (void)pthread_mutex_lock(&held);
  (void)pthread_mutex_unlock(&held);
}

static void test_a_log_that_blocks(void **state) {
  (void)state;
  job made = {0};
  _Atomic int calls = 0;
  open_net(&made, MOST);
  made.ranks[0].options.log = log_behind_a_lock;
  made.ranks[0].options.log_user = &calls;
  made.ranks[0].options.suspect_ns = 100000000;
  start_all(&made);
  (void)pthread_mutex_lock(&held);
  tdm_control_pause(made.ranks[2].control, true);
  while (atomic_load(&calls) == 0)
    (void)usleep(1000);
  tdm_control_progress(made.ranks[0].control, 0, 9);
  wait_progress(made.ranks[1].control, 0, 9);
  (void)pthread_mutex_unlock(&held);
  tdm_control_pause(made.ranks[2].control, false);
  close_net(&made);
}

/* Rank 2 hangs longer than the limit: all others lose it, and it is notified when it wakes. */
static void test_a_rank_that_is_silent_for_too_long_is_lost(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  for (int i = 0; i < MOST; i++)
    made.ranks[i].options.silence_ns = 2000000000;
  start_all(&made);
  tdm_control_progress(made.ranks[2].control, 0, 4211);
  wait_progress(made.ranks[0].control, 2, 4211);
  wait_progress(made.ranks[1].control, 2, 4211);
  const uint64_t begin_ns = tdm_time_ns();
  tdm_control_pause(made.ranks[2].control, true);
  for (int i = 0; i < 2; i++) {
    const tdm_control_failure failure = wait_failure(made.ranks[i].control);
    assert_int_equal(failure.rank, 2);
    assert_int_equal(failure.cause, TDM_CONTROL_SILENT);
    assert_in_range(failure.observer, 0, 1);
    assert_true(failure.silent_ns >= 2000000000);
    assert_int_equal(failure.progress[0], 4211);
    char text[TDM_CONTROL_TEXT_BYTES];
    (void)tdm_control_failure_text(&failure, text);
    assert_non_null(strstr(text, "rank 2 (host sim2, pid "));
    assert_non_null(strstr(text, "has not been heard of for 2"));
    assert_non_null(strstr(text, "0: 4211, 1: 0"));
    assert_non_null(strstr(text, failure.observer == 0 ? "by rank 0" : "by rank 1"));
  }
  assert_true(tdm_time_ns() - begin_ns >= 1900000000);
  tdm_control_pause(made.ranks[2].control, false);
  const tdm_control_failure own = wait_failure(made.ranks[2].control);
  assert_int_equal(own.rank, 2);
  assert_in_range(own.observer, 0, 1);
  for (int i = 0; i < MOST; i++)
    assert_int_equal(atomic_load(&made.ranks[i].failures), 1);
  close_net(&made);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void test_the_largest_limit_counts(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  static const uint64_t seconds[MOST] = {200, 500, 300};
  for (int i = 0; i < MOST; i++)
    made.ranks[i].options.silence_ns = UINT64_C(1000000000) * seconds[i];
  start_all(&made);
  for (int i = 0; i < MOST; i++)
    assert_int_equal(made.ranks[i].control->options.silence_ns, UINT64_C(500000000000));
  close_net(&made);
}

static void test_limits_of_the_environment(void **state) {
  (void)state;
  static const char *const refused[] = {"soon", "0.4", "0", "-1", "nan", "86401", "60s"};
  static const struct {
    const char *text;
    uint64_t ns;
  } taken[] = {{"0.5", 500000000},
               {"120", UINT64_C(120000000000)},
               {"86400", UINT64_C(86400000000000)},
               {"", UINT64_C(60000000000)}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    job made = {0};
    open_net(&made, 1);
    made.ranks[0].options.silence_ns = 0;
    (void)setenv("TANDEM_NET_SILENCE_SECONDS", refused[i], 1);
    (void)start_rank(&made.ranks[0]);
    assert_int_equal(made.ranks[0].status, TDM_INVALID_ARGUMENT);
    assert_non_null(strstr(made.ranks[0].message, "TANDEM_NET_SILENCE_SECONDS"));
    close_net(&made);
  }
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
    job made = {0};
    open_net(&made, 1);
    made.ranks[0].options.silence_ns = 0;
    (void)setenv("TANDEM_NET_SILENCE_SECONDS", taken[i].text, 1);
    start_all(&made);
    assert_int_equal(made.ranks[0].control->options.silence_ns, taken[i].ns);
    close_net(&made);
  }
  (void)unsetenv("TANDEM_NET_SILENCE_SECONDS");
}

/* ---- Beats ----------------------------------------------------------------------------------- */

/* Waits until rank `of` has received this many messages of its peer, counted anew each time. */
static void wait_beats(tdm_control *of, int peer, int count) {
  tdm_control_peer told;
  tdm_control_peer_get(of, peer, &told);
  for (uint64_t before_ns = told.heard_ns; count > 0; before_ns = told.heard_ns, count--)
    while (told.heard_ns == before_ns) {
      (void)usleep(1000);
      tdm_control_peer_get(of, peer, &told);
    }
}

/* A thread that computes may lose its core while it calls the channel. */
static void test_beats_wait_for_no_lock(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  start_all(&made);
  tdm_control *one = made.ranks[1].control;
  (void)pthread_mutex_lock(&one->lock);
  tdm_control_progress(one, 0, 12);
  wait_progress(made.ranks[0].control, 1, 12);
  wait_beats(made.ranks[0].control, 1, 10);
  (void)pthread_mutex_unlock(&one->lock);
  tdm_control_progress(made.ranks[0].control, 0, 13);
  wait_progress(one, 0, 13); /* waits until it has received the beats sent meanwhile */
  close_net(&made);
}

typedef struct blocking {
  tdm_allocator plain;
  pthread_mutex_t lock;
} blocking;

static void *allocate_behind_a_lock(void *user, size_t bytes, size_t alignment) {
  blocking *of = user;
  (void)pthread_mutex_lock(&of->lock);
  void *memory = of->plain.allocate(of->plain.user, bytes, alignment);
  (void)pthread_mutex_unlock(&of->lock);
  return memory;
}

static void release_behind_a_lock(void *user, void *memory, size_t bytes) {
  blocking *of = user;
  (void)pthread_mutex_lock(&of->lock);
  of->plain.release(of->plain.user, memory, bytes);
  (void)pthread_mutex_unlock(&of->lock);
}

/* Strangers come and go, and who computes holds the allocator. */
static void test_beats_wait_for_no_memory(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  blocking of = {.plain = made.ranks[1].options.allocator, .lock = PTHREAD_MUTEX_INITIALIZER};
  made.ranks[1].options.allocator =
      (tdm_allocator){allocate_behind_a_lock, release_behind_a_lock, &of};
  start_all(&made);
  tdm_control *one = made.ranks[1].control;
  (void)pthread_mutex_lock(&of.lock);
  for (int i = 0; i < 3; i++)
    (void)close(knock((uint16_t)tdm_control_port(one)));
  wait_count(one, STRANGERS, 3);
  wait_beats(made.ranks[0].control, 1, 10);
  (void)pthread_mutex_unlock(&of.lock);
  close_net(&made);
}

static int threads_of_beats(cpu_set_t *out_cores) {
  int count = 0;
  DIR *threads = opendir("/proc/self/task");
  assert_non_null(threads);
  for (const struct dirent *entry; (entry = readdir(threads)) != NULL;) {
    char path[300], name[32] = "";
    (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    const size_t bytes = file ? fread(name, 1, sizeof(name) - 1, file) : 0;
    if (file) (void)fclose(file);
    if (bytes == 0 || strcmp(name, "tandem-beats\n") != 0) continue;
    assert_int_equal(
        sched_getaffinity((pid_t)strtol(entry->d_name, NULL, 10), sizeof *out_cores, out_cores), 0);
    count++;
  }
  (void)closedir(threads);
  return count;
}

static void *start_on_one_core(void *user) {
  cpu_set_t all, first;
  CPU_ZERO(&first);
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  for (int core = 0; CPU_COUNT(&first) == 0; core++)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &first);
  assert_int_equal(sched_setaffinity(0, sizeof first, &first), 0);
  return start_rank(user);
}

/* Beats may use any core of the process, even if the thread that creates the context is bound to
 * one. */
static void test_beats_have_every_core(void **state) {
  (void)state;
  job made = {0};
  cpu_set_t all, cores;
  open_net(&made, 1);
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, start_on_one_core, &made.ranks[0]), 0);
  (void)pthread_join(thread, NULL);
  assert_int_equal(made.ranks[0].status, TDM_OK);
  assert_int_equal(threads_of_beats(&cores), 1);
  assert_true(CPU_EQUAL(&cores, &all));
  close_net(&made);
}

/* ---- A machine without an idle core ---------------------------------------------------------- */

enum { BUSY_THREADS_A_CORE = 2, MOST_BUSY = 256, BUSY_BEATS = 100 };

typedef struct busy {
  tdm_control *control;
  _Atomic bool *ends;
} busy;

/* Computes, and reports progress to the channel as often as possible. */
static void *compute(void *user) {
  const busy *of = user;
  for (uint64_t i = 0; !atomic_load_explicit(of->ends, memory_order_relaxed); i++) {
    tdm_control_peer told;
    tdm_control_progress(of->control, 0, i);
    if (i % 1000 == 0) tdm_control_peer_get(of->control, 0, &told);
  }
  return NULL;
}

/* The longest delay is printed and not checked, because the machine may be busy. */
static void test_beats_on_busy_cores(void **state) {
  (void)state;
  job made = {0};
  static pthread_t threads[MOST_BUSY];
  _Atomic bool ends = false;
  open_net(&made, 2);
  for (int i = 0; i < 2; i++)
    made.ranks[i].options.beat_ns = 0;
  start_all(&made);
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const int wanted = (int)cores * BUSY_THREADS_A_CORE;
  const int count = wanted < MOST_BUSY ? wanted : MOST_BUSY;
  busy of = {made.ranks[1].control, &ends};
  for (int i = 0; i < count; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, compute, &of), 0);
  wait_beats(made.ranks[0].control, 1, BUSY_BEATS);
  atomic_store(&ends, true);
  for (int i = 0; i < count; i++)
    (void)pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++)
    print_message("rank %d: of %d beats the latest was %.3f ms late, beside %d busy threads on %ld "
                  "cores\n",
                  i, BUSY_BEATS, (double)tdm_control_worst_delay_ns(made.ranks[i].control) * 1e-6,
                  count, cores);
  assert_false(tdm_control_failed(made.ranks[0].control, NULL));
  close_net(&made);
}

/* ---- A rank that does not read --------------------------------------------------------------- */

typedef struct look {
  tdm_loop_task task; /* must be the first field */
  tdm_control *control;
  bool narrows; /* gives the connection hardly any room */
  _Atomic bool is_full;
  _Atomic bool over;
} look;

static void on_look(tdm_loop_task *task) {
  look *at = (look *)task;
  const control_peer *peer = &at->control->peers[1];
  int bytes = 4096;
  if (at->narrows) (void)uv_send_buffer_size((uv_handle_t *)&peer->link->tcp, &bytes);
  atomic_store(&at->is_full, peer->link->writing && peer->out.count[peer->out.filling] > 0);
  atomic_store(&at->over, true);
}

static bool look_at(tdm_control *control, bool narrows) {
  look at = {.task = {.run = on_look}, .control = control, .narrows = narrows};
  tdm_loop_post(control->loop, &at.task);
  while (!atomic_load(&at.over))
    (void)usleep(1000);
  return atomic_load(&at.is_full);
}

/* However many beats it has not read, what matters reaches it. */
static void test_a_rank_that_reads_late_is_told(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  made.ranks[0].options.beat_ns = 1000000;
  begin(&made.ranks[0]);
  const played part = play(&made, (const uint16_t[MOST]){0, 1});
  const int peer = knock(part.addresses[0].port);
  const int room = 4096;
  assert_int_equal(setsockopt(peer, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
  say_message(peer, &part, CONTROL_HELLO, 1, 0);
  (void)pthread_join(made.ranks[0].thread, NULL);
  assert_int_equal(made.ranks[0].status, TDM_OK);
  tdm_control *control = made.ranks[0].control;
  (void)look_at(control, true);
  while (!look_at(control, false))
    continue;
  (void)usleep(200000); /* a hundred beats that have no room, or nearly */
  tdm_control_give_up(control, TDM_IO, "it has no disk");
  const control_message given_up = hear(peer, &part, CONTROL_GIVE_UP);
  assert_string_equal(given_up.reason, "it has no disk");
  (void)close(peer);
  close_net(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_silent_rank_is_suspected),
      cmocka_unit_test(test_a_log_that_blocks),
      cmocka_unit_test(test_a_rank_that_is_silent_for_too_long_is_lost),
      cmocka_unit_test(test_the_largest_limit_counts),
      cmocka_unit_test(test_limits_of_the_environment),
      cmocka_unit_test(test_beats_wait_for_no_lock),
      cmocka_unit_test(test_beats_wait_for_no_memory),
      cmocka_unit_test(test_beats_have_every_core),
      cmocka_unit_test(test_beats_on_busy_cores),
      cmocka_unit_test(test_a_rank_that_reads_late_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
