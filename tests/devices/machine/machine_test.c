/* Descriptions of machines: errors are named, and routes and links follow the description. */
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

/* Reads every field, each with a different figure. */
static void every_figure_is_taken(void **state) {
  (void)state;
  const tdm_machine machine = parse(
      "{\"title\": \"a rack\", \"sources\": [\"s\", \"t\"], \"hosts\": 33, \"devices_per_host\": "
      "2, "
      "\"host\": {\"model\": \"h\", \"memory_bytes\": 2e6, \"flops_per_second\": "
      "{\"float32\": 3e9, \"float64\": 4e9}, \"memory_bytes_per_second\": 5e9, \"launch_us\": 6}, "
      "\"device\": {\"model\": \"d\", \"memory_bytes\": 7e6, \"flops_per_second\": "
      "{\"float16\": 8e9}, \"memory_bytes_per_second\": 9e9}, "
      "\"peer\": {\"latency_us\": 10, \"bytes_per_second\": 11e9, \"sharing\": 1}, "
      "\"host_link\": {\"latency_us\": 12, \"bytes_per_second\": 13e9}, "
      "\"network\": {\"latency_us\": 14, \"bytes_per_second\": 15e9, \"sharing\": 2}}");
  tdm_machine expected = {
      .title = "a rack",
      .host_count = 32, /* 64 devices are the maximum */
      .all_hosts = 33,
      .devices_per_host = 2,
      .host = {"h", 2e6, {[TDM_FLOAT32] = 3, [TDM_FLOAT64] = 4}, 5, 6000},
      .device = {"d", 7e6, {[TDM_FLOAT16] = 8}, 9, 0},
      .peer = {10000, 11, 1},
      .host_link = {12000, 13, 1},
      .network = {14000, 15, 2},
  };
  assert_string_equal(machine.title, expected.title);
  assert_int_equal(machine.host_count, expected.host_count);
  assert_int_equal(machine.all_hosts, expected.all_hosts);
  assert_int_equal(machine.devices_per_host, expected.devices_per_host);
  assert_memory_equal(&machine.host, &expected.host, sizeof machine.host);
  assert_memory_equal(&machine.device, &expected.device, sizeof machine.device);
  const tdm_machine_port *const ports[][2] = {{&machine.peer, &expected.peer},
                                              {&machine.host_link, &expected.host_link},
                                              {&machine.network, &expected.network}};
  for (size_t i = 0; i < TDM_COUNT_OF(ports); i++) {
    assert_true(ports[i][0]->latency_ns == ports[i][1]->latency_ns);
    assert_true(ports[i][0]->bytes_per_ns == ports[i][1]->bytes_per_ns);
    assert_int_equal(ports[i][0]->sharing, ports[i][1]->sharing);
  }
}

/* No more devices than can be planned for, and all where they are as many. */
static void hosts_are_planned_for_as_far_as_their_devices_can_be(void **state) {
  (void)state;
  static const struct {
    uint32_t hosts, each, planned;
  } cases[] = {{1, 64, 1}, {2, 32, 2}, {2, 33, 1}, {64, 1, 64}, {65536, 1, 64}, {3, 30, 2}};
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    char text[600];
    (void)snprintf(text, sizeof text,
                   HEAD "\"hosts\": %u, \"devices_per_host\": %u, " DEVICE HOST_LINK
                        ", \"network\": {\"latency_us\": 0, \"bytes_per_second\": 1e9}}",
                   cases[i].hosts, cases[i].each);
    const tdm_machine machine = parse(text);
    assert_int_equal(machine.all_hosts, cases[i].hosts);
    assert_int_equal(machine.host_count, cases[i].planned);
    assert_int_equal(tdm_machine_device_count(&machine), cases[i].planned * cases[i].each);
  }
}

/* Checks values at a bound, and just beyond it. */
static void bounds_are_as_they_are_told(void **state) {
  (void)state;
  static const char device[] = "\"device\": {\"model\": \"%s\", \"memory_bytes\": %s, "
                               "\"flops_per_second\": {\"float32\": %s}, "
                               "\"memory_bytes_per_second\": %s, \"launch_us\": %s}, ";
  static const char link[] =
      "\"host_link\": {\"latency_us\": %s, \"bytes_per_second\": %s, \"sharing\": %s}";
  enum { FIELDS = 8, TITLE = 0 };
  static const struct {
    size_t field;
    const char *within, *beyond, *named;
  } cases[] = {
      {TITLE, "m2345678901234567890123456789012345678901234567", NULL, NULL},
      {TITLE, "m", "m23456789012345678901234567890123456789012345678", "model: is too long"},
      {1, "1", "0.5", "device.memory_bytes: 0.5 is not from 1 to 1e+18"},
      {1, "1e18", "2e18", "device.memory_bytes: 2e+18 is not"},
      {2, "1", "0.5", "device.flops_per_second.float32: 0.5 is not from 1 to 1e+20"},
      {2, "1e20", "2e20", "device.flops_per_second.float32: 2e+20 is not"},
      {3, "1e18", "2e18", "device.memory_bytes_per_second: 2e+18 is not"},
      {4, "0", "-1", "device.launch_us: -1 is not from 0 to 1e+06"},
      {4, "1e6", "2e6", "device.launch_us: 2e+06 is not"},
      {5, "0", "-1", "host_link.latency_us: -1 is not from 0 to 1e+06"},
      {5, "1e6", "2e6", "host_link.latency_us: 2e+06 is not"},
      {6, "1e18", "2e18", "host_link.bytes_per_second: 2e+18 is not"},
      {7, "1", "0", "host_link.sharing: 0 is not from 1 to 64"},
      {7, "64", "65", "host_link.sharing: 65 is not from 1 to 64"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    for (int beyond = 0; beyond < 2; beyond++) {
      const char *fields[FIELDS] = {"m", "1e6", "2e12", "1e12", "3", "5", "10e9", "2"};
      fields[cases[i].field] = beyond ? cases[i].beyond : cases[i].within;
      if (!fields[cases[i].field]) continue;
      char format[600], text[800];
      (void)snprintf(format, sizeof format, "%s%s%s}", HEAD, device, link);
      (void)snprintf(text, sizeof text, format, fields[0], fields[1], fields[2], fields[3],
                     fields[4], fields[5], fields[6], fields[7]);
      tdm_machine machine;
      const tdm_status status = tdm_machine_parse(text, "file", &machine);
      if (status != (beyond ? TDM_CORRUPT_DATA : TDM_OK))
        fail_msg("case %zu, %d: %s", i, beyond, tdm_last_message());
      if (beyond && !strstr(tdm_last_message(), cases[i].named))
        fail_msg("case %zu: \"%s\" does not say \"%s\"", i, tdm_last_message(), cases[i].named);
    }
  }
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

/* Checks two hosts of three devices. Two devices share a host link, the third has a separate one,
 * and all three share a network port. */
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
  assert_route(&machine, tdm_machine_host(1), 1, 20000, 1,
               "paper:3-5 out to the network, paper:0-2 in from the network, "
               "paper:0-1 down from the host");
  assert_route(&machine, tdm_machine_host(1), 4, 5000, 10, "paper:3-4 down from the host");
  const tdm_machine alone = parse(HEAD "\"devices_per_host\": 2, " DEVICE HOST_LINK "}");
  assert_route(&alone, 0, 1, 10000, 10, "paper:0-1 up to the host, paper:0-1 down from the host");
}

/* Checks routes between all ends of two hosts of two devices, whose peer ports are slower than a
 * byte in a nanosecond, and of a third host, represented by the first. */
static void all_routes_are_as_recorded(void **state) {
  (void)state;
  static const char expected[] =
      " 17>18 17>18>12 17>18>13 14 15 17>18>12 17>18>13\n"
      "16>19  12 13 16>19>14 16>19>15 16>18>12 16>18>13\n"
      "8>16>19 8  0>5 8>16>19>14 8>16>19>15 8>16>18>12 8>16>18>13\n"
      "9>16>19 9 1>4  9>16>19>14 9>16>19>15 9>16>18>12 9>16>18>13\n"
      "10 10>17>18 10>17>18>12 10>17>18>13  2>7 10>17>18>12 10>17>18>13\n"
      "11 11>17>18 11>17>18>12 11>17>18>13 3>6  11>17>18>12 11>17>18>13\n"
      "8>16>19 8>16>18 8>16>18>12 8>16>18>13 8>16>19>14 8>16>19>15  0>5\n"
      "9>16>19 9>16>18 9>16>18>12 9>16>18>13 9>16>19>14 9>16>19>15 1>4 \n";
  const tdm_machine machine =
      parse(HEAD "\"hosts\": 2, \"devices_per_host\": 2, " DEVICE
                 "\"peer\": {\"latency_us\": 1, \"bytes_per_second\": 0.5e9}, "
                 "\"network\": {\"latency_us\": 20, \"bytes_per_second\": 0.125e9, "
                 "\"sharing\": 2}, "
                 "\"host_link\": {\"latency_us\": 5, \"bytes_per_second\": 0.25e9}}");
  char text[2048] = "";
  size_t length = 0;
  for (int from = tdm_machine_host(1); from < 6; from++) {
    for (int to = tdm_machine_host(1); to < 6; to++) {
      tdm_machine_route route;
      tdm_machine_find_route(&machine, from, to, &route);
      const bool peers = route.hop_count > 0 && route.hops[0] < 8;
      bool far = false;
      for (uint32_t k = 0; k < route.hop_count; k++) {
        far |= route.hops[k] >= 16;
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%u", k ? ">" : "",
                                   route.hops[k]);
      }
      assert_true(route.latency_ns == (far ? 20000 : peers ? 1000 : 5000 * route.hop_count));
      assert_true(route.bytes_per_ns == (far                   ? 0.125
                                         : peers               ? 0.5
                                         : route.hop_count > 0 ? 0.25
                                                               : 0));
      length += (size_t)snprintf(text + length, sizeof text - length, to < 5 ? " " : "\n");
    }
  }
  assert_string_equal(text, expected);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(figures_are_taken),
      cmocka_unit_test(every_figure_is_taken),
      cmocka_unit_test(hosts_are_planned_for_as_far_as_their_devices_can_be),
      cmocka_unit_test(bounds_are_as_they_are_told),
      cmocka_unit_test(what_is_wrong_is_named),
      cmocka_unit_test(routes_follow_the_description),
      cmocka_unit_test(all_routes_are_as_recorded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
