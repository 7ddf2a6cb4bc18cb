/* Compares the threads of a process with the table in docs/architecture/devices.md: their names,
 * their processing units, and their time slices. Two ranks of a job, each with all kinds of devices
 * and a loader, have every thread of the table. Their creator is bound to one unit, so a thread
 * that is not bound separately is detected. */
#define _GNU_SOURCE /* affinity */
#include <ctype.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "devices/creation/job.h"
#include "devices/topology/topology.h"
#include "net/control.h"
#include "tandem/data/data.h"
#include "tests/devices/support.h"
#include "tests/options.h"
#include "tests/support/simnet.h"

enum { RANKS = 2, ITEMS = 4, MOST_ROWS = 32, CELLS = 6 };
enum { SHORT_SLICE_NS = 100000, WHY_TEXT = 200 };

/* ---- The table ------------------------------------------------------------------------------- */

enum { THREAD, HOW_MANY, RUNS_ON, TIME_SLICE, DOES, WHY };

typedef struct table_row {
  char name[16]; /* N stands for a number */
  char runs_on[32];
  char slice[16];
  int seen; /* threads of that name */
} table_row;

typedef struct table {
  table_row rows[MOST_ROWS];
  size_t count;
} table;

/* Copies a cell without the spaces and backticks around it. */
static void trim(char *out, size_t capacity, const char *cell) {
  while (*cell == ' ' || *cell == '`')
    cell++;
  size_t length = strlen(cell);
  while (length > 0 && strchr(" `\n", cell[length - 1]))
    length--;
  (void)snprintf(out, capacity, "%.*s", (int)length, cell);
}

static void read_row(char *line, table *out) {
  char *cells[CELLS] = {NULL}, *rest = NULL;
  size_t count = 0;
  for (char *cell = strtok_r(line, "|", &rest); cell && count < CELLS;
       cell = strtok_r(NULL, "|", &rest))
    cells[count++] = cell;
  assert_int_equal(count, CELLS);
  assert_in_range(out->count, 0, MOST_ROWS - 1);
  table_row *row = &out->rows[out->count++];
  trim(row->name, sizeof row->name, cells[THREAD]);
  trim(row->runs_on, sizeof row->runs_on, cells[RUNS_ON]);
  trim(row->slice, sizeof row->slice, cells[TIME_SLICE]);
}

/* Reads the rows of the section "Threads" whose first cell is a name. */
static void read_table(table *out) {
  FILE *file = fopen("docs/architecture/devices.md", "r");
  assert_non_null(file);
  char line[2000];
  bool inside = false;
  while (fgets(line, sizeof line, file)) {
    if (line[0] == '#') inside = strcmp(line, "## Threads\n") == 0;
    if (inside && strncmp(line, "| `", 3) == 0) read_row(line, out);
  }
  (void)fclose(file);
  assert_true(out->count > 0);
}

/* Returns true if name equals the pattern with a number instead of N. */
static bool matches(const char *pattern, const char *name) {
  for (; *pattern && *name; pattern++) {
    if (*pattern == 'N' && isdigit((unsigned char)*name)) {
      while (isdigit((unsigned char)*name))
        name++;
    } else if (*pattern == *name) {
      name++;
    } else {
      return false;
    }
  }
  return !*pattern && !*name;
}

static table_row *find_row(table *in, const char *name) {
  for (size_t i = 0; i < in->count; i++)
    if (matches(in->rows[i].name, name)) return &in->rows[i];
  return NULL;
}

/* ---- Units of threads ------------------------------------------------------------------------ */

static bool read_name(const char *task, char *name, size_t capacity) {
  char path[300];
  (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
  FILE *file = fopen(path, "r");
  if (!file) return false; /* it has ended */
  const bool read = fgets(name, (int)capacity, file) != NULL;
  (void)fclose(file);
  name[strcspn(name, "\n")] = '\0';
  return read;
}

/* Returns true on Linux 6.12 and later, where a thread's time slice can be read. */
static bool has_slices(void) {
  struct utsname system;
  int major = 0, minor = 0;
  return uname(&system) == 0 && sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 12));
}

static uint64_t slice_ns(int task) {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
  } has = {.size = sizeof has};
  assert_int_equal(syscall(SYS_sched_getattr, task, &has, sizeof has, 0), 0);
  return has.runtime_ns;
}

/* Sets of processing units by the words of the table. */
typedef struct unit_sets {
  const tdm_topology *topology;
  tdm_context *context;
  cpu_set_t all;
  cpu_set_t creator;
} unit_sets;

/* Binds the calling thread for a moment, to see what that is. */
static cpu_set_t units_of(const tdm_topology *topology, const tdm_core_range *range, int node) {
  cpu_set_t before, bound;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  assert_true(range ? tdm_topology_bind_thread(topology, range)
                    : tdm_topology_bind_thread_to(topology, node));
  assert_int_equal(sched_getaffinity(0, sizeof bound, &bound), 0);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
  return bound;
}

/* Returns the device in the name of a thread: the first with that name, since both ranks divide the
 * machine in the same way. */
static const tdm_device *device_of(const unit_sets *sets, const char *name) {
  const size_t count = tdm_device_count(sets->context);
  for (size_t i = 0; i < count; i++) {
    const tdm_device *device = tdm_context_device(sets->context, i);
    const char *own = tdm_device_own_name(device);
    if (device->rank == 0 && strncmp(name + 4, own, strlen(own)) == 0) return device;
  }
  fail_msg("no device of rank 0 has a thread %s", name);
  return NULL;
}

static cpu_set_t units_by_words(const unit_sets *sets, const char *words, const char *name) {
  if (strcmp(words, "all cores") == 0) return sets->all;
  if (strcmp(words, "its creator's cores") == 0) return sets->creator;
  const tdm_device *first = tdm_context_device(sets->context, 0);
  if (strcmp(words, "the first device's cores") == 0)
    return units_of(sets->topology, tdm_context_cores(sets->context, first), 0);
  const tdm_device *device = device_of(sets, name);
  if (strcmp(words, "cores near the GPU") == 0) return units_of(sets->topology, NULL, device->node);
  assert_string_equal(words, "the device's cores");
  return units_of(sets->topology, tdm_context_cores(sets->context, device), 0);
}

/* Compares a thread with its row; writes the difference to why. */
static bool is_as_told(const unit_sets *sets, const char *task, const table_row *row,
                       const char *name, char *why) {
  const cpu_set_t wanted = units_by_words(sets, row->runs_on, name);
  cpu_set_t bound;
  if (sched_getaffinity(atoi(task), sizeof bound, &bound) != 0 || !CPU_EQUAL(&bound, &wanted)) {
    (void)snprintf(why, WHY_TEXT, "%s does not run on %s", name, row->runs_on);
    return false;
  }
  const bool is_short = strcmp(row->slice, "short") == 0;
  if (!is_short) assert_string_equal(row->slice, "usual");
  if (!has_slices() || (slice_ns(atoi(task)) == SHORT_SLICE_NS) == is_short) return true;
  (void)snprintf(why, WHY_TEXT, "the time slice of %s is not %s", name, row->slice);
  return false;
}

/* Compares the threads of ours, which have a row each; others have other names. */
static bool compare_threads(const unit_sets *sets, table *with, char *why) {
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  bool agrees = true;
  for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    char name[32] = "";
    if (!isdigit((unsigned char)task->d_name[0]) || !read_name(task->d_name, name, sizeof name))
      continue;
    if (strncmp(name, "tdm-", 4) != 0 && strncmp(name, "tandem-", 7) != 0) continue;
    table_row *row = find_row(with, name);
    if (!row) fail_msg("docs/architecture/devices.md has no row for the thread %s", name);
    row->seen++;
    agrees = is_as_told(sets, task->d_name, row, name, why) && agrees;
  }
  (void)closedir(tasks);
  return agrees;
}

/* Waits until threads that have just begun have bound themselves. */
static void expect_threads(const unit_sets *sets, table *with) {
  char why[WHY_TEXT] = "";
  const uint64_t end_ns = tdm_time_ns() + (uint64_t)60 * 1000000000;
  while (!compare_threads(sets, with, why)) {
    if (tdm_time_ns() > end_ns) fail_msg("%s", why);
    (void)usleep(1000);
  }
  for (size_t i = 0; i < with->count; i++)
    if (with->rows[i].seen == 0) fail_msg("there is no thread %s", with->rows[i].name);
}

/* ---- A job ----------------------------------------------------------------------------------- */

typedef struct rank {
  tdm_simnet *net;
  int number;
  cpu_set_t creator; /* what its thread is bound to once it has its context */
  tdm_context *context;
  pthread_t thread;
  pthread_barrier_t *started;
  pthread_barrier_t *looked_at;
} rank;

static tdm_loader *start_loader(tdm_context *context, tdm_dataset **out_dataset) {
  static const char *const names[] = {"x"};
  const int64_t items[ITEMS] = {1, 2, 3, 4};
  tdm_tensor *tensor = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, ITEMS), items);
  assert_non_null(tensor);
  *out_dataset = tdm_dataset_from_tensors(context, names, &tensor, 1);
  tdm_tensor_release(tensor);
  assert_non_null(*out_dataset);
  const tdm_loader_options options = OPTIONS(tdm_loader_options, o.batch_size = 1, o.prefetch = 2);
  return tdm_loader_create(*out_dataset, &options);
}

/* An emulated GPU is on no bus: it is near to what cpu:0 is. */
static void place_gpus(tdm_context *context, int number) {
  const size_t count = tdm_device_count(context);
  int node = TDM_NODE_UNKNOWN;
  for (size_t i = 0; i < count; i++) {
    tdm_device *device = tdm_context_device(context, i);
    if (device->rank != number) continue;
    if (node == TDM_NODE_UNKNOWN) node = device->node;
    if (strncmp(tdm_device_own_name(device), "cuda", 4) == 0) device->node = node;
  }
}

static void ignore_log(void *user, tdm_log_level level, const char *message) {
  (void)user;
  (void)level;
  (void)message;
}

static void *live(void *user) {
  rank *self = user;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 1,
              o.sim = "latency_us=5,gigabytes_per_second=16");
  const tdm_control_options watch = {
      .struct_size = sizeof watch, .allocator = tdm_allocator_default(), .log = ignore_log};
  tdm_endpoint *endpoint;
  assert_ok(tdm_simnet_endpoint(self->net, self->number, &endpoint));
  assert_int_equal(sched_setaffinity(0, sizeof self->creator, &self->creator), 0);
  self->context = tdm_context_create_in_job(&options, endpoint, &watch);
  assert_non_null(self->context);
  place_gpus(self->context, self->number);
  assert_ok(tdm_context_start(self->context));
  tdm_dataset *dataset = NULL;
  tdm_loader *loader = start_loader(self->context, &dataset);
  assert_non_null(loader);
  (void)pthread_barrier_wait(self->started);
  (void)pthread_barrier_wait(self->looked_at);
  tdm_loader_release(loader);
  tdm_dataset_release(dataset);
  tdm_context_release(self->context);
  return NULL;
}

/* The first unit that the process may run on. */
static cpu_set_t one_of(const cpu_set_t *all) {
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
    if (CPU_ISSET(i, all)) CPU_SET(i, &one);
  return one;
}

static void threads_are_those_of_the_table(void **state) {
  (void)state;
  table told = {.count = 0};
  read_table(&told);
  unit_sets sets;
  assert_int_equal(sched_getaffinity(0, sizeof sets.all, &sets.all), 0);
  sets.creator = one_of(&sets.all);
  const tdm_allocator allocator = tdm_allocator_default();
  const tdm_simnet_options options = {
      .struct_size = sizeof options, .rank_count = RANKS, .loss_is_told = true};
  rank ranks[RANKS];
  tdm_simnet *net;
  pthread_barrier_t started, looked_at;
  assert_ok(tdm_simnet_create(&allocator, &options, &net));
  assert_int_equal(pthread_barrier_init(&started, NULL, RANKS + 1), 0);
  assert_int_equal(pthread_barrier_init(&looked_at, NULL, RANKS + 1), 0);
  for (int r = 0; r < RANKS; r++) {
    ranks[r] = (rank){.net = net,
                      .number = r,
                      .creator = sets.creator,
                      .started = &started,
                      .looked_at = &looked_at};
    assert_int_equal(pthread_create(&ranks[r].thread, NULL, live, &ranks[r]), 0);
  }
  (void)pthread_barrier_wait(&started);
  sets.context = ranks[0].context;
  sets.topology = tdm_context_topology(sets.context);
  expect_threads(&sets, &told);
  (void)pthread_barrier_wait(&looked_at);
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(pthread_join(ranks[r].thread, NULL), 0);
  assert_int_equal(pthread_barrier_destroy(&started), 0);
  assert_int_equal(pthread_barrier_destroy(&looked_at), 0);
  tdm_simnet_release(net);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(threads_are_those_of_the_table)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
