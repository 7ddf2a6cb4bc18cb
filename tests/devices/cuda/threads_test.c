/* Threads that feed an emulated GPU run on the processing units near it, for any affinity of the
 * creating thread. With a single unit the test proves nothing. Their sleeps are not longer than
 * requested. */
#define _GNU_SOURCE /* affinity */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/topology/topology.h"
#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/support.h"

static bool is_feeder(const char *task) {
  char path[300];
  char name[32] = "";
  (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
  FILE *file = fopen(path, "r");
  if (!file) return false;
  const bool read = fgets(name, sizeof(name), file) != NULL;
  (void)fclose(file);
  return read && strcmp(name, "tdm-cuda:0\n") == 0;
}

/* Returns the number of threads that feed cuda:0, or were created by one that does, and may run on
 * each unit of all. */
static size_t count_feeders(const cpu_set_t *all) {
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  size_t count = 0;
  for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    if (!is_feeder(task->d_name)) continue;
    cpu_set_t bound;
    assert_int_equal(sched_getaffinity(atoi(task->d_name), sizeof bound, &bound), 0);
    count += CPU_EQUAL(&bound, all);
  }
  (void)closedir(tasks);
  return count;
}

static void feeders_run_near_to_their_gpu(void **state) {
  (void)state;
  cpu_set_t all;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) skip();
  tdm_context *context = tdm_context_create(NULL); /* it sees all units */
  assert_non_null(context);
  const tdm_topology *topology = tdm_context_topology(context);
  if (tdm_topology_node_count(topology) != 1) {
    tdm_context_release(context);
    skip(); /* units of one node would not be all */
  }
  /* The emulated GPU is on no bus of this machine. */
  test_device(context, "cuda:0")->node = test_device(context, "cpu:0")->node;
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_ok(tdm_context_start(context)); /* until then, the calling thread executes copies */
  const float value = 1;
  tdm_tensor *here = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, 1), &value);
  tdm_tensor *there = tdm_tensor_to(here, "cuda:0", TDM_DTYPE_NONE);
  float read = 0;
  /* uploads and downloads, so that two threads have begun */
  assert_ok(tdm_tensor_read(there, &read, sizeof read));
  const size_t count = count_feeders(&all);
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
  assert_true(count >= 2);
  tdm_tensor_release(here);
  tdm_tensor_release(there);
  tdm_context_release(context);
}

/* Events are polled some tens of microseconds apart. A sleep may exceed its time by that much. */
static void feeders_look_at_events_when_it_is_time(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  assert_non_null(context);
  assert_ok(tdm_context_start(context));
  emulation_set_delay(1000000);
  const float value = 1;
  tdm_tensor *here = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, 1), &value);
  tdm_tensor *there = tdm_tensor_to(here, "cuda:0", TDM_DTYPE_NONE);
  float read = 0;
  assert_ok(tdm_tensor_read(there, &read, sizeof read));
  emulation_set_delay(0);
  tdm_tensor_release(here);
  tdm_tensor_release(there);
  tdm_context_release(context);
  assert_in_range(emulation_longest_slack(), 1, 1000);
}

static void a_thread_is_bound_to_a_node_that_is_there(void **state) {
  (void)state;
  cpu_set_t all;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_topology *topology = NULL;
  assert_ok(tdm_topology_create(&allocator, NULL, &topology));
  assert_false(tdm_topology_bind_thread_to(topology, TDM_NODE_UNKNOWN));
  assert_false(tdm_topology_bind_thread_to(topology, 100000));
  cpu_set_t bound;
  assert_int_equal(sched_getaffinity(0, sizeof bound, &bound), 0);
  assert_true(CPU_EQUAL(&bound, &all));
  tdm_topology_destroy(topology);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(feeders_run_near_to_their_gpu),
      cmocka_unit_test(feeders_look_at_events_when_it_is_time),
      cmocka_unit_test(a_thread_is_bound_to_a_node_that_is_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
