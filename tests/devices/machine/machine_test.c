/* Descriptions of machines: what is wrong with one is named, routes and links follow it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/context/context.h"
#include "devices/machine/machine.h"
#include "tests/devices/support.h"

#define HEAD "{\"title\": \"t\", \"sources\": [\"s\"], "
#define DEVICE                                                                                     \
  "\"device\": {\"model\": \"m\", \"memory_bytes\": 1000000, \"flops_per_second\": "               \
  "{\"float32\": 2e12}, \"memory_bytes_per_second\": 1e12, \"launch_us\": 3}, "
#define HOST_LINK "\"host_link\": {\"latency_us\": 5, \"bytes_per_second\": 10e9, \"sharing\": 2}"

static const char two_hosts[] = HEAD
    "\"hosts\": 2, \"devices_per_host\": 3, " DEVICE
    "\"peer\": {\"latency_us\": 1, \"bytes_per_second\": 100e9}, "
    "\"network\": {\"latency_us\": 20, \"bytes_per_second\": 1e9, \"sharing\": 3}, " HOST_LINK "}";

static tdm_machine parse(const char *text) {
  tdm_machine machine;
  if (tdm_machine_parse(text, "file", &machine) != TDM_OK) fail_msg("%s", tdm_last_message());
  return machine;
}

static void figures_are_taken(void **state) {
  (void)state;
  const tdm_machine machine = parse(two_hosts);
  assert_string_equal(machine.title, "t");
  assert_int_equal(tdm_machine_device_count(&machine), 6);
  assert_string_equal(machine.device.model, "m");
  assert_true(machine.device.flops_per_ns[TDM_FLOAT32] == 2000);
  assert_true(machine.device.flops_per_ns[TDM_FLOAT64] == 0);
  assert_true(machine.device.memory_bytes_per_ns == 1000);
  assert_true(machine.device.launch_ns == 3000);
  assert_true(machine.peer.bytes_per_ns == 100);
  assert_true(machine.host.memory_bytes_per_ns == 0);
}

static void what_is_wrong_is_named(void **state) {
  (void)state;
  static const struct {
    const char *text;
    const char *named;
  } cases[] = {
      {"[", "file:1: is no JSON"},
      {"[\x1b[2J", "invalid token near '?'"}, /* no terminal is to obey it */
      {"[]", "file: is no JSON object"},
      {"{}", "file: title: a text is wanted"},
      {"{\"title\": \"t\"}", "file: sources: a list is wanted"},
      {"{\"title\": \"t\", \"sources\": []}", "file: sources: a list is wanted"},
      {HEAD HOST_LINK "}", "file: device: is missing"},
      {HEAD DEVICE "\"title\": \"t\"}", "is no JSON"},
      {HEAD DEVICE "\"speed\": 3}", "file: speed: there is no such field"},
      {HEAD DEVICE "\"hosts\": 1}", "file: host_link: is missing"},
      {HEAD DEVICE HOST_LINK ", \"hosts\": 0}", "file: hosts: 0 is not from 1 to 65536"},
      {HEAD DEVICE HOST_LINK ", \"hosts\": 1.5}", "file: hosts: is no whole number"},
      {HEAD DEVICE HOST_LINK ", \"devices_per_host\": 65}", "65 is not from 1 to 64"},
      {HEAD DEVICE HOST_LINK ", \"hosts\": 2}", "file: network: is missing"},
      {HEAD DEVICE HOST_LINK ", \"peer\": 3}", "file: peer: is no object"},
      {HEAD DEVICE HOST_LINK ", \"peer\": {\"latency_us\": 1}}",
       "file: peer.bytes_per_second: is missing"},
      {HEAD DEVICE HOST_LINK ", \"peer\": {\"latency_us\": -1, \"bytes_per_second\": 1}}",
       "file: peer.latency_us: -1 is not from 0"},
      {HEAD DEVICE HOST_LINK
       ", \"peer\": {\"latency_us\": 1, \"bytes_per_second\": 1, \"sharing\": 2}}",
       "file: peer.sharing: a peer port is one device's own"},
      {HEAD DEVICE "\"host_link\": {\"latency_us\": 1, \"bytes_per_second\": \"fast\"}}",
       "file: host_link.bytes_per_second: is no number"},
      {HEAD "\"device\": {\"model\": \"m\"}, " HOST_LINK "}", "file: device.flops_per_second: an"},
      {HEAD "\"device\": {\"model\": \"m\", \"flops_per_second\": {\"int32\": 1}}, " HOST_LINK "}",
       "file: device.flops_per_second.int32: is no floating dtype"},
      {HEAD "\"device\": {\"model\": \"m\", \"flops_per_second\": {\"float32\": 1e9}}, " HOST_LINK
            "}",
       "file: device.memory_bytes_per_second: is missing"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    tdm_machine machine;
    assert_int_equal(tdm_machine_parse(cases[i].text, "file", &machine), TDM_CORRUPT_DATA);
    if (!strstr(tdm_last_message(), cases[i].named))
      fail_msg("case %zu: \"%s\" does not say \"%s\"", i, tdm_last_message(), cases[i].named);
  }
  tdm_machine machine;
  assert_int_equal(tdm_machine_read("/nowhere/machine.json", &machine), TDM_UNAVAILABLE);
  assert_non_null(strstr(tdm_last_message(), "/nowhere/machine.json"));
}

static void assert_route(const tdm_machine *machine, int from, int to, double latency_ns,
                         double bytes_per_ns, const char *names) {
  tdm_machine_route route;
  tdm_machine_find_route(machine, from, to, &route);
  char text[400] = "";
  char name[64];
  for (uint32_t k = 0; k < route.hop_count; k++) {
    if (k) strcat(text, ", ");
    strcat(text, tdm_machine_link_name(machine, route.hops[k], name, sizeof name));
    assert_true(route.hops[k] < tdm_machine_link_count(machine));
    assert_true(tdm_machine_link_bytes_per_ns(machine, route.hops[k]) >= bytes_per_ns);
  }
  assert_string_equal(text, names);
  assert_true(route.latency_ns == latency_ns);
  assert_true(route.bytes_per_ns == bytes_per_ns);
}

/* Two hosts of three devices; two share a host link (the third has one alone), three a network
 * port. */
static void routes_follow_the_description(void **state) {
  (void)state;
  const tdm_machine machine = parse(two_hosts);
  assert_int_equal(tdm_machine_link_count(&machine), 2 * (6 + 4 + 2));
  assert_route(&machine, 3, 3, 0, 0, "");
  assert_route(&machine, 0, 2, 1000, 100, "paper:0 to its peers, paper:2 from its peers");
  assert_route(&machine, TDM_MACHINE_HOST, 1, 5000, 10, "paper:0-1 down from the host");
  assert_route(&machine, 2, TDM_MACHINE_HOST, 5000, 10, "paper:2 up to the host");
  assert_route(&machine, 1, 5, 20000, 1,
               "paper:0-1 up to the host, paper:0-2 out to the network, "
               "paper:3-5 in from the network, paper:5 down from the host");
  assert_route(&machine, TDM_MACHINE_HOST, 3, 20000, 1,
               "paper:0-2 out to the network, paper:3-5 in from the network, "
               "paper:3-4 down from the host");
  const tdm_machine alone = parse(HEAD "\"devices_per_host\": 2, " DEVICE HOST_LINK "}");
  assert_route(&alone, 0, 1, 10000, 10, "paper:0-1 up to the host, paper:0-1 down from the host");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(figures_are_taken),
      cmocka_unit_test(what_is_wrong_is_named),
      cmocka_unit_test(routes_follow_the_description),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
