/* Descriptions of machines. Invariant: one that is accepted has a route between all of its ends,
 * over links that it has, with a bandwidth above 0. */
#include <math.h>
#include <stdlib.h>

#include "devices/machine/machine.h"
#include "tests/fuzz/support.h"

static void check_routes(const tdm_machine *machine) {
  const int devices = (int)tdm_machine_device_count(machine);
  const uint32_t links = tdm_machine_link_count(machine);
  fuzz_expect(devices >= 1 && devices <= TDM_MACHINE_MOST_DEVICES, "%d devices", devices);
  for (int from = TDM_MACHINE_HOST; from < devices; from++) {
    for (int to = TDM_MACHINE_HOST; to < devices; to++) {
      tdm_machine_route route;
      tdm_machine_find_route(machine, from, to, &route);
      fuzz_expect(route.hop_count <= TDM_MACHINE_MOST_HOPS && (route.hop_count > 0) == (from != to),
                  "%u hops from %d to %d", route.hop_count, from, to);
      fuzz_expect(isfinite(route.latency_ns) && route.latency_ns >= 0, "latency");
      fuzz_expect(from == to || route.bytes_per_ns > 0, "no bandwidth from %d to %d", from, to);
      for (uint32_t i = 0; i < route.hop_count; i++)
        fuzz_expect(route.hops[i] < links, "link %u of %u", route.hops[i], links);
    }
  }
  for (uint32_t link = 0; link < links; link++) {
    char name[56];
    fuzz_expect(tdm_machine_link_name(machine, link, name, sizeof name)[0] != '\0', "no name");
    fuzz_expect(tdm_machine_link_bytes_per_ns(machine, link) > 0, "link %u has none", link);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  char *text = fuzz_text(&input, NULL);
  tdm_machine machine;
  const tdm_status status = tdm_machine_parse(text, "fuzz", &machine);
  if (fuzz_judge(status)) check_routes(&machine);
  free(text);
  return 0;
}
