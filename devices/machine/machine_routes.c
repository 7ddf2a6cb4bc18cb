/* Which links a copy uses on a described machine. Invariant: links are numbered peer ports out and
 * in, host links up and down, network ports out and in, each kind by port. A kind without ports has
 * none. */
#include <assert.h>
#include <stdio.h>

#include "devices/machine/machine.h"

typedef enum port_kind { PEER, HOST_LINK, NETWORK, PORT_KINDS } port_kind;

static const tdm_machine_port *port_of(const tdm_machine *machine, port_kind kind) {
  if (kind == PEER) return &machine->peer;
  return kind == HOST_LINK ? &machine->host_link : &machine->network;
}

/* Returns the number of ports of a kind on one host. */
static uint32_t ports_per_host(const tdm_machine *machine, port_kind kind) {
  const tdm_machine_port *port = port_of(machine, kind);
  if (port->bytes_per_ns <= 0) return 0;
  return (machine->devices_per_host + port->sharing - 1) / port->sharing;
}

static uint32_t ports(const tdm_machine *machine, port_kind kind) {
  return machine->host_count * ports_per_host(machine, kind);
}

uint32_t tdm_machine_link_count(const tdm_machine *machine) {
  return 2 * (ports(machine, PEER) + ports(machine, HOST_LINK) + ports(machine, NETWORK));
}

/* Returns the kind of a link and converts *link to its number within the kind: ports outward, then
 * inward. */
static port_kind kind_of(const tdm_machine *machine, uint32_t *link) {
  port_kind kind = PEER;
  while (kind + 1 < PORT_KINDS && *link >= 2 * ports(machine, kind)) {
    *link -= 2 * ports(machine, kind);
    kind++;
  }
  return kind;
}

double tdm_machine_link_bytes_per_ns(const tdm_machine *machine, uint32_t link) {
  return port_of(machine, kind_of(machine, &link))->bytes_per_ns;
}

const char *tdm_machine_link_name(const tdm_machine *machine, uint32_t link, char *text,
                                  size_t capacity) {
  static const char *const ways[PORT_KINDS][2] = {
      {"to its peers", "from its peers"},
      {"up to the host", "down from the host"},
      {"out to the network", "in from the network"},
  };
  const port_kind kind = kind_of(machine, &link);
  const uint32_t count = ports(machine, kind);
  const bool inward = link >= count;
  const uint32_t port = inward ? link - count : link;
  const uint32_t per_host = ports_per_host(machine, kind);
  assert(per_host > 0); /* link belongs to machine */
  const uint32_t sharing = port_of(machine, kind)->sharing;
  const uint32_t first = port / per_host * machine->devices_per_host + port % per_host * sharing;
  const uint32_t end = (port / per_host + 1) * machine->devices_per_host;
  const uint32_t last = first + sharing < end ? first + sharing - 1 : end - 1;
  if (first == last)
    (void)snprintf(text, capacity, "paper:%u %s", first, ways[kind][inward]);
  else
    (void)snprintf(text, capacity, "paper:%u-%u %s", first, last, ways[kind][inward]);
  return text;
}

static void pass(const tdm_machine *machine, port_kind kind, uint32_t device, bool inward,
                 tdm_machine_route *route) {
  const tdm_machine_port *port = port_of(machine, kind);
  const uint32_t host = device / machine->devices_per_host % machine->host_count;
  const uint32_t place = device % machine->devices_per_host;
  uint32_t link = host * ports_per_host(machine, kind) + place / port->sharing;
  if (inward) link += ports(machine, kind);
  for (port_kind before = PEER; before < kind; before++)
    link += 2 * ports(machine, before);
  route->hops[route->hop_count++] = link;
  if (route->bytes_per_ns == 0 || port->bytes_per_ns < route->bytes_per_ns)
    route->bytes_per_ns = port->bytes_per_ns;
}

static uint32_t host_at(const tdm_machine *machine, int end) {
  return end < 0 ? (uint32_t)(TDM_MACHINE_HOST - end) : (uint32_t)end / machine->devices_per_host;
}

/* Returns a device at an end, whose network port is that of the end. */
static uint32_t device_at(const tdm_machine *machine, int end) {
  return end < 0 ? host_at(machine, end) * machine->devices_per_host : (uint32_t)end;
}

void tdm_machine_find_route(const tdm_machine *machine, int from, int to,
                            tdm_machine_route *out_route) {
  *out_route = (tdm_machine_route){.hop_count = 0};
  if (from == to) return;
  const uint32_t from_host = host_at(machine, from);
  const uint32_t to_host = host_at(machine, to);
  if (from >= 0 && to >= 0 && from_host == to_host && machine->peer.bytes_per_ns > 0) {
    pass(machine, PEER, (uint32_t)from, false, out_route);
    pass(machine, PEER, (uint32_t)to, true, out_route);
    out_route->latency_ns = machine->peer.latency_ns;
    return;
  }
  if (from >= 0) {
    pass(machine, HOST_LINK, (uint32_t)from, false, out_route);
    out_route->latency_ns += machine->host_link.latency_ns;
  }
  if (from_host != to_host) {
    pass(machine, NETWORK, device_at(machine, from), false, out_route);
    pass(machine, NETWORK, device_at(machine, to), true, out_route);
  }
  if (to >= 0) {
    pass(machine, HOST_LINK, (uint32_t)to, true, out_route);
    out_route->latency_ns += machine->host_link.latency_ns;
  }
  /* The network's latency covers the whole route. */
  if (from_host != to_host) out_route->latency_ns = machine->network.latency_ns;
}
