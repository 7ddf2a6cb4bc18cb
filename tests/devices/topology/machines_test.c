/* Machines that are not here, recorded as hwloc XML (tests/devices/machines): which cores and which
 * memory their devices get, and which node is next to a GPU. */
#include "devices/topology/topology.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/devices/support.h"

typedef struct machine {
  tdm_allocator allocator;
  tdm_topology *topology;
} machine;

/* Reads the machine's XML into text. */
static void read_machine(const char *name, char text[1 << 16]) {
  char path[128];
  (void)snprintf(path, sizeof path, "tests/devices/machines/%s.xml", name);
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s is not there", path);
  const size_t bytes = fread(text, 1, (1 << 16) - 1, file);
  text[bytes] = '\0';
  (void)fclose(file);
  assert_true(bytes < (1 << 16) - 1);
}

static void open_machine(machine *one, const char *name) {
  static char text[1 << 16];
  read_machine(name, text);
  one->allocator = tdm_allocator_default();
  assert_ok(tdm_topology_create(&one->allocator, text, &one->topology));
}

typedef struct expected_device {
  const char *units; /* os indices of its processing units; NULL: the end */
  int node;
} expected_device;

/* Checks that there are the expected cpu devices, with these units and nodes. */
static void assert_devices(const machine *one, const expected_device *expected) {
  tdm_core_range ranges[16];
  size_t count = 0;
  while (expected[count].units)
    count++;
  tdm_topology_divide(one->topology, count, 0, false, ranges);
  for (size_t i = 0; i < count; i++) {
    char text[64];
    assert_string_equal(tdm_topology_range_text(one->topology, &ranges[i], text, sizeof(text)),
                        expected[i].units);
    assert_int_equal(tdm_topology_range_node(one->topology, &ranges[i]), expected[i].node);
    assert_false(tdm_topology_bind_thread(one->topology, &ranges[i]));
  }
}

static void assert_node_units(const machine *one, int node, const char *units) {
  char text[64];
  assert_string_equal(tdm_topology_node_text(one->topology, node, text, sizeof(text)), units);
  assert_false(tdm_topology_bind_thread_to(one->topology, node)); /* it is not this machine */
}

static int near_pci(const machine *one, const char *bus_id) {
  return tdm_topology_node_near_pci(one->topology, bus_id);
}

static void two_sockets_with_a_gpu_on_the_second(void **state) {
  (void)state;
  machine two;
  open_machine(&two, "two_sockets");
  assert_int_equal(tdm_topology_node_count(two.topology), 2);
  assert_int_equal(tdm_topology_core_count(two.topology), 8);
  assert_devices(&two, (const expected_device[]){{"0-3,8-11", 0}, {"4-7,12-15", 1}, {NULL, 0}});
  assert_devices(
      &two, (const expected_device[]){
                {"0-1,8-9", 0}, {"2-3,10-11", 0}, {"4-5,12-13", 1}, {"6-7,14-15", 1}, {NULL, 0}});
  /* A device on both sockets has no one node. */
  assert_devices(&two, (const expected_device[]){{"0-15", TDM_NODE_UNKNOWN}, {NULL, 0}});
  assert_int_equal(near_pci(&two, "0000:3b:00.0"), 1);
  assert_int_equal(near_pci(&two, "3b:00.0"), 1); /* domain 0 may be left out */
  assert_int_equal(near_pci(&two, "0000:18:00.0"), 0);
  assert_int_equal(near_pci(&two, "0000:99:00.0"), TDM_NODE_UNKNOWN);
  assert_int_equal(near_pci(&two, "nonsense"), TDM_NODE_UNKNOWN);
  assert_int_equal(near_pci(&two, "../../../../etc"), TDM_NODE_UNKNOWN);
  assert_int_equal(near_pci(&two, ""), TDM_NODE_UNKNOWN);
  assert_node_units(&two, 0, "0-3,8-11");
  assert_node_units(&two, 1, "4-7,12-15"); /* what feeds the GPU on the second socket */
  assert_node_units(&two, 2, "");
  assert_node_units(&two, TDM_NODE_UNKNOWN, "");
  assert_true(tdm_topology_node_bytes(two.topology, 1) == (uint64_t)64 << 30);
  assert_true(tdm_topology_node_bytes(two.topology, 0) == (uint64_t)64 << 30);
  assert_true(tdm_topology_node_bytes(two.topology, 2) == 0);
  assert_true(tdm_topology_node_bytes(two.topology, TDM_NODE_UNKNOWN) == 0);
  tdm_topology_destroy(two.topology);
}

static void clusters_have_memory_of_their_own(void **state) {
  (void)state;
  machine clusters;
  open_machine(&clusters, "sub_numa");
  assert_int_equal(tdm_topology_node_count(clusters.topology), 4);
  assert_devices(&clusters, (const expected_device[]){
                                {"0-1", 0}, {"2-3", 1}, {"4-5", 2}, {"6-7", 3}, {NULL, 0}});
  assert_devices(&clusters, (const expected_device[]){
                                {"0-3", TDM_NODE_UNKNOWN}, {"4-7", TDM_NODE_UNKNOWN}, {NULL, 0}});
  assert_int_equal(near_pci(&clusters, "0000:b1:00.0"), 3);
  assert_int_equal(near_pci(&clusters, "0000:17:00.0"), 0); /* the first of the two next to it */
  tdm_topology_destroy(clusters.topology);
}

static void memory_without_cores_is_not_chosen(void **state) {
  (void)state;
  machine tiers;
  open_machine(&tiers, "memory_only");
  assert_int_equal(tdm_topology_node_count(tiers.topology), 2);
  assert_int_equal(tdm_topology_core_count(tiers.topology), 8);
  assert_devices(&tiers, (const expected_device[]){{"0-3", 0}, {"4-7", 1}, {NULL, 0}});
  assert_int_equal(near_pci(&tiers, "0000:3b:00.0"), 1);
  tdm_topology_destroy(tiers.topology);
}

static void memory_without_cores_serves_where_there_is_no_other(void **state) {
  (void)state;
  machine alone;
  open_machine(&alone, "hbm_alone");
  assert_int_equal(tdm_topology_node_count(alone.topology), 1);
  assert_devices(&alone, (const expected_device[]){{"0-3", 1}, {NULL, 0}});
  assert_int_equal(near_pci(&alone, "0000:3b:00.0"), 1);
  tdm_topology_destroy(alone.topology);
}

static void eight_gpus_over_two_sockets(void **state) {
  (void)state;
  machine eight;
  open_machine(&eight, "eight_gpus");
  const char *const bus_ids[8] = {"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0",
                                  "0000:9d:00.0", "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0"};
  for (int i = 0; i < 8; i++)
    assert_int_equal(near_pci(&eight, bus_ids[i]), i / 4);
  /* both nodes are equally near */
  assert_int_equal(near_pci(&eight, "0000:05:00.0"), TDM_NODE_UNKNOWN);
  assert_devices(&eight, (const expected_device[]){{"0-7", 0}, {"8-15", 1}, {NULL, 0}});
  tdm_topology_destroy(eight.topology);
}

static void a_container_limits_cores_and_perhaps_memory(void **state) {
  (void)state;
  machine limited;
  open_machine(&limited, "container");
  assert_int_equal(tdm_topology_node_count(limited.topology), 1);
  assert_int_equal(tdm_topology_core_count(limited.topology), 2);
  assert_devices(&limited, (const expected_device[]){{"1-2", 0}, {NULL, 0}});
  assert_devices(&limited, (const expected_device[]){{"1", 0}, {"2", 0}, {NULL, 0}});
  assert_int_equal(near_pci(&limited, "0000:18:00.0"), 0);
  assert_int_equal(near_pci(&limited, "0000:3b:00.0"), 1); /* memory there is allowed */
  assert_node_units(&limited, 0, "1-2");
  assert_node_units(&limited, 1, ""); /* no unit there is */
  tdm_topology_destroy(limited.topology);

  open_machine(&limited, "container_node");
  assert_int_equal(tdm_topology_core_count(limited.topology), 2);
  assert_devices(&limited, (const expected_device[]){{"5-6", 1}, {NULL, 0}});
  assert_int_equal(near_pci(&limited, "0000:3b:00.0"), 1);
  assert_int_equal(near_pci(&limited, "0000:18:00.0"), 1); /* the only memory there is */
  assert_true(tdm_topology_node_bytes(limited.topology, 0) == 0);
  tdm_topology_destroy(limited.topology);
}

static void machines_have_keys_of_their_own(void **state) {
  (void)state;
  const char *const names[] = {"two_sockets", "sub_numa",  "memory_only",   "hbm_alone",
                               "eight_gpus",  "container", "container_node"};
  uint64_t keys[TDM_COUNT_OF(names)];
  /* Files of links that were measured before are found by these. */
  static const uint64_t recorded[TDM_COUNT_OF(names)] = {
      0xc8c875afd32192e2, 0x82b7140936000f96, 0xc762a0f39b4996ef, 0x80a23022a69f6df4,
      0x2c7136a46809c7a2, 0x3d3465841d6a9f57, 0x6593a4e64cb26ae7};
  for (size_t i = 0; i < TDM_COUNT_OF(names); i++) {
    machine one;
    open_machine(&one, names[i]);
    keys[i] = tdm_topology_key(one.topology);
    if (keys[i] != recorded[i]) fail_msg("%s has the key 0x%" PRIx64, names[i], keys[i]);
    tdm_topology_destroy(one.topology);
    open_machine(&one, names[i]);
    assert_true(tdm_topology_key(one.topology) == keys[i]);
    tdm_topology_destroy(one.topology);
    for (size_t k = 0; k < i; k++)
      assert_true(keys[k] != keys[i]);
  }
}

/* Returns the key of two_sockets with the first `old` replaced by `new`. */
static uint64_t key_with(const char *old, const char *new) {
  static char text[1 << 16];
  static char changed[1 << 17];
  read_machine("two_sockets", text);
  const char *at = strstr(text, old);
  assert_non_null(at);
  (void)snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, new,
                 at + strlen(old));
  machine one = {.allocator = tdm_allocator_default()};
  assert_ok(tdm_topology_create(&one.allocator, changed, &one.topology));
  const uint64_t key = tdm_topology_key(one.topology);
  tdm_topology_destroy(one.topology);
  return key;
}

/* Another processor or a node without memory is another machine. The size of a node's memory does
 * not count: a virtual machine gets and gives memory while it runs. */
static void a_key_changes_with_processors_and_not_with_the_size_of_memory(void **state) {
  (void)state;
  const uint64_t key = key_with("68719476736", "68719476736");
  static const char *const sizes[] = {"68600000000", "68800000000", "34359738368", "137438953472"};
  for (size_t i = 0; i < TDM_COUNT_OF(sizes); i++)
    assert_true(key_with("68719476736", sizes[i]) == key);
  assert_true(key_with("68719476736", "0") != key);
  const char *const package = "complete_nodeset=\"0x00000001\" gp_index=\"2\">";
  const uint64_t one = key_with(package, "complete_nodeset=\"0x00000001\" gp_index=\"2\">"
                                         "<info name=\"CPUModel\" value=\"one\"/>");
  const uint64_t other = key_with(package, "complete_nodeset=\"0x00000001\" gp_index=\"2\">"
                                           "<info name=\"CPUModel\" value=\"other\"/>");
  assert_true(one != key && other != key && one != other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_sockets_with_a_gpu_on_the_second),
      cmocka_unit_test(clusters_have_memory_of_their_own),
      cmocka_unit_test(memory_without_cores_is_not_chosen),
      cmocka_unit_test(memory_without_cores_serves_where_there_is_no_other),
      cmocka_unit_test(eight_gpus_over_two_sockets),
      cmocka_unit_test(a_container_limits_cores_and_perhaps_memory),
      cmocka_unit_test(machines_have_keys_of_their_own),
      cmocka_unit_test(a_key_changes_with_processors_and_not_with_the_size_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
