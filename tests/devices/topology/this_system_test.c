/* A description divides this machine into several NUMA nodes (HWLOC_SYNTHETIC, HWLOC_THISSYSTEM):
 * the queries to Linux for each of its nodes, and the node on which memory is requested. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "devices/topology/topology.h"
#include "tests/devices/support.h"

static tdm_allocator allocator;

static tdm_topology *open_as(const char *synthetic) {
  allocator = tdm_allocator_default();
  (void)unsetenv("HWLOC_XMLFILE"); /* what ./run_tests has read of this machine */
  (void)setenv("HWLOC_SYNTHETIC", synthetic, 1);
  (void)setenv("HWLOC_THISSYSTEM", "1", 1);
  tdm_topology *topology = NULL;
  const tdm_status status = tdm_topology_create(&allocator, NULL, &topology);
  (void)unsetenv("HWLOC_SYNTHETIC");
  (void)unsetenv("HWLOC_THISSYSTEM");
  assert_ok(status);
  return topology;
}

/* Creates two nodes of one processing unit each, which are no cores; where the process may run on
 * both. */
static tdm_topology *two_nodes(void) {
  tdm_topology *topology = open_as("numa:2 pu:1");
  if (tdm_topology_node_count(topology) < 2) {
    tdm_topology_destroy(topology);
    print_message("skipped: the process runs on fewer than two processors, 0 and 1\n");
    skip();
  }
  return topology;
}

static void a_node_is_asked_for_its_own_memory(void **state) {
  (void)state;
  tdm_topology *topology = two_nodes();
  assert_int_equal(tdm_topology_core_count(topology), 2);
  uint64_t bytes = 0;
  uint64_t free_bytes = 0;
  tdm_topology_memory(topology, 0, &bytes, &free_bytes);
  assert_int_equal(bytes, tdm_topology_node_bytes(topology, 0));
  assert_true(free_bytes > 0 && free_bytes <= bytes);
  /* The memory of all nodes, from Linux, not from the description. */
  uint64_t all_bytes = 0;
  tdm_topology_memory(topology, TDM_NODE_UNKNOWN, &all_bytes, &free_bytes);
  assert_int_not_equal(all_bytes, 2 * bytes);
  assert_true(free_bytes > 0 && free_bytes <= all_bytes);
  tdm_topology_destroy(topology);
}

static void what_is_no_node_has_no_memory(void **state) {
  (void)state;
  tdm_topology *topology = two_nodes();
  uint64_t bytes = 1;
  uint64_t free_bytes = 1;
  tdm_topology_memory(topology, 63, &bytes, &free_bytes);
  assert_int_equal(bytes, 0);
  assert_int_equal(free_bytes, 0);
  tdm_topology_destroy(topology);
}

/* If a machine has several nodes, memory is bound to that of the range's cores. */
static void memory_is_bound_to_the_nodes_of_a_range(void **state) {
  (void)state;
  tdm_topology *topology = two_nodes();
  tdm_core_range ranges[2];
  tdm_topology_divide(topology, 2, 0, false, ranges);
  const size_t bytes = 16 * 4096;
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(memory, MAP_FAILED);
  if (!tdm_topology_bind_memory(topology, &ranges[0], memory, bytes)) {
    print_message("skipped: the system binds no memory\n");
    (void)munmap(memory, bytes);
    tdm_topology_destroy(topology);
    skip();
  }
  memset(memory, 1, bytes);
  assert_int_equal(tdm_topology_memory_node(topology, memory, bytes), 0);
  assert_int_equal(munmap(memory, bytes), 0);
  tdm_topology_destroy(topology);
}

/* One that is described, and is not this one, places nothing and has nothing free. */
static void another_machine_has_no_memory_here(void **state) {
  (void)state;
  allocator = tdm_allocator_default();
  tdm_topology *topology = NULL;
  assert_ok(tdm_topology_create(&allocator, "numa:2 core:2 pu:2", &topology));
  tdm_core_range ranges[2];
  tdm_topology_divide(topology, 2, 0, false, ranges);
  char memory[64];
  assert_false(tdm_topology_bind_memory(topology, &ranges[0], memory, sizeof memory));
  assert_false(tdm_topology_bind_memory_to(topology, 0, memory, sizeof memory));
  assert_int_equal(tdm_topology_memory_node(topology, memory, sizeof memory), TDM_NODE_UNKNOWN);
  uint64_t bytes = 0;
  uint64_t free_bytes = 1;
  tdm_topology_memory(topology, 1, &bytes, &free_bytes);
  assert_int_equal(bytes, tdm_topology_node_bytes(topology, 1));
  assert_true(bytes > 0);
  assert_int_equal(free_bytes, 0);
  assert_string_equal(tdm_topology_processor(topology), "");
  tdm_topology_destroy(topology);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_node_is_asked_for_its_own_memory),
      cmocka_unit_test(what_is_no_node_has_no_memory),
      cmocka_unit_test(memory_is_bound_to_the_nodes_of_a_range),
      cmocka_unit_test(another_machine_has_no_memory_here),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
