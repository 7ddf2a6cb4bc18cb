/* Dividing machines that are not here: hwloc's synthetic ones. A division is disjoint while there
 * are cores, then while there are processing units, then shared. */
#include "devices/topology/topology.h"

#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#include "tests/devices/support.h"

static tdm_allocator allocator;

static tdm_topology *make(const char *description) {
  allocator = tdm_allocator_default();
  tdm_topology *topology = NULL;
  assert_ok(tdm_topology_create(&allocator, description, &topology));
  return topology;
}

/* The processing units of each range must be the texts expected. */
static void assert_division(const char *machine, size_t cpus, size_t sims, bool sims_have_cores,
                            const char *const *expected) {
  tdm_topology *topology = make(machine);
  tdm_core_range ranges[16];
  ranges[cpus + sims] = (tdm_core_range){.first = 77};
  tdm_topology_divide(topology, cpus, sims, sims_have_cores, ranges);
  assert_int_equal(ranges[cpus + sims].first, 77);
  for (size_t i = 0; i < cpus + sims; i++) {
    char text[64];
    tdm_topology_range_text(topology, &ranges[i], text, sizeof(text));
    if (strcmp(text, expected[i]) != 0) {
      fail_msg("%s, %zu cpu, %zu sim: device %zu has %s, not %s", machine, cpus, sims, i, text,
               expected[i]);
    }
  }
  tdm_topology_destroy(topology);
}

static void machines_are_divided_by_cores(void **state) {
  (void)state;
  assert_division("numa:1 core:2 pu:1", 1, 0, false, (const char *[]){"0-1"});
  assert_division("numa:2 core:4 pu:2", 2, 0, false, (const char *[]){"0-7", "8-15"});
  assert_division("numa:2 core:4 pu:2", 1, 0, false, (const char *[]){"0-15"});
  assert_division("numa:2 core:4 pu:2", 4, 0, false,
                  (const char *[]){"0-3", "4-7", "8-11", "12-15"});
  assert_division("numa:1 core:7 pu:1", 3, 0, false, (const char *[]){"0-2", "3-4", "5-6"});
}

/* One core of two units is one core. If no cores are listed, units are counted. */
static void units_are_cores_where_none_are_told(void **state) {
  (void)state;
  static const struct {
    const char *machine;
    size_t cores, nodes, cache_bytes;
  } cases[] = {{"numa:1 core:1 pu:2", 1, 1, 0},
               {"numa:1 pu:3", 3, 1, 0},
               {"numa:2 core:2 pu:2", 4, 2, 0},
               {"numa:2 l3:1(size=8388608) l2:2(size=1048576) core:1 pu:1", 4, 2, 8388608},
               {"numa:1 l2:2(size=1048576) core:1 pu:1", 2, 1, 1048576}};
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    tdm_topology *topology = make(cases[i].machine);
    assert_int_equal(tdm_topology_core_count(topology), cases[i].cores);
    assert_int_equal(tdm_topology_node_count(topology), cases[i].nodes);
    assert_int_equal(tdm_topology_cache_bytes(topology), cases[i].cache_bytes);
    tdm_topology_destroy(topology);
  }
  assert_division("numa:1 core:1 pu:2", 2, 0, false, (const char *[]){"0", "1"});
  assert_division("numa:1 core:1 pu:2", 1, 1, false, (const char *[]){"0-1", "0-1"});
  assert_division("numa:1 pu:3", 2, 0, false, (const char *[]){"0-1", "2"});
}

static void sims_take_cores_only_when_given(void **state) {
  (void)state;
  assert_division("numa:1 core:2 pu:1", 1, 1, true, (const char *[]){"0", "1"});
  assert_division("numa:1 core:2 pu:1", 1, 1, false, (const char *[]){"0-1", "1"});
  assert_division("numa:2 core:4 pu:1", 2, 3, true,
                  (const char *[]){"0-1", "4-5", "2", "6-7", "3"});
  assert_division("numa:1 core:8 pu:1", 1, 2, true, (const char *[]){"0-2", "3-5", "6-7"});
}

static void units_serve_where_cores_end(void **state) {
  (void)state;
  assert_division("numa:1 core:2 pu:2", 3, 0, false, (const char *[]){"0-1", "2", "3"});
  assert_division("numa:1 core:2 pu:2", 2, 2, true, (const char *[]){"0", "2", "1", "3"});
  assert_division("numa:1 core:2 pu:1", 3, 1, true, (const char *[]){"0", "1", "0", "1"});
}

static void sharing_is_told(void **state) {
  (void)state;
  tdm_topology *topology = make("numa:1 core:2 pu:1");
  tdm_core_range ranges[4];
  tdm_topology_divide(topology, 1, 1, true, ranges);
  assert_false(ranges[0].shared);
  assert_false(ranges[1].shared);
  tdm_topology_divide(topology, 1, 1, false, ranges);
  assert_false(ranges[0].shared);
  assert_true(ranges[1].shared);
  assert_int_equal(ranges[1].count, 1);
  tdm_topology_divide(topology, 3, 1, true, ranges);
  for (size_t i = 0; i < 4; i++) {
    assert_true(ranges[i].shared);
    assert_int_equal(ranges[i].count, 1);
  }
  /* the topology is of another machine */
  assert_false(tdm_topology_bind_thread(topology, &ranges[0]));
  tdm_topology_destroy(topology);
}

static void this_machine_is_read_and_bound(void **state) {
  (void)state;
  tdm_topology *topology = make(NULL);
  assert_true(tdm_topology_node_count(topology) >= 1);
  assert_true(tdm_topology_core_count(topology) >= tdm_topology_node_count(topology));
  tdm_core_range range;
  tdm_topology_divide(topology, 1, 0, false, &range);
  assert_int_equal(range.count, tdm_topology_core_count(topology));
  assert_true(tdm_topology_bind_thread(topology, &range));
  tdm_topology_destroy(topology);
}

static void a_bad_description_is_refused(void **state) {
  (void)state;
  allocator = tdm_allocator_default();
  tdm_topology *topology = NULL;
  assert_status(tdm_topology_create(&allocator, "nonsense:x", &topology), TDM_INVALID_ARGUMENT);
  assert_null(topology);
  assert_message("nonsense");
  tdm_topology_destroy(NULL);
}

/* Only the requested device of this machine is read. hwloc, which lists all of them, builds a tree
 * whose text gives the same node. */
static void pci_devices_are_near_to_what_hwloc_says(void **state) {
  (void)state;
  hwloc_topology_t all;
  char *text = NULL;
  int bytes = 0;
  assert_int_equal(hwloc_topology_init(&all), 0);
  /* The plugin that also lists them opens a library that never gives its memory back. */
  (void)hwloc_topology_set_components(all, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "pci");
  assert_int_equal(
      hwloc_topology_set_type_filter(all, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT),
      0);
  assert_int_equal(hwloc_topology_load(all), 0);
  assert_int_equal(hwloc_topology_export_xmlbuffer(all, &text, &bytes, 0), 0);
  tdm_topology *listed = make(text);
  tdm_topology *here = make(NULL);
  hwloc_obj_t device = NULL;
  while ((device = hwloc_get_next_pcidev(all, device))) {
    char bus_id[32];
    (void)snprintf(bus_id, sizeof bus_id, "%04x:%02x:%02x.%01x", device->attr->pcidev.domain,
                   device->attr->pcidev.bus, device->attr->pcidev.dev, device->attr->pcidev.func);
    assert_int_equal(tdm_topology_node_near_pci(here, bus_id),
                     tdm_topology_node_near_pci(listed, bus_id));
  }
  assert_int_equal(tdm_topology_node_near_pci(here, "ffff:ff:1f.7"), TDM_NODE_UNKNOWN);
  assert_int_equal(tdm_topology_node_near_pci(here, "../../../../etc"), TDM_NODE_UNKNOWN);
  tdm_topology_destroy(here);
  tdm_topology_destroy(listed);
  hwloc_free_xmlbuffer(all, text);
  hwloc_topology_destroy(all);
}

int main(void) {
  (void)setenv("HWLOC_SYNTHETIC_VERBOSE", "0", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(machines_are_divided_by_cores),
      cmocka_unit_test(units_are_cores_where_none_are_told),
      cmocka_unit_test(sims_take_cores_only_when_given),
      cmocka_unit_test(units_serve_where_cores_end),
      cmocka_unit_test(sharing_is_told),
      cmocka_unit_test(this_machine_is_read_and_bound),
      cmocka_unit_test(pci_devices_are_near_to_what_hwloc_says),
      cmocka_unit_test(a_bad_description_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
