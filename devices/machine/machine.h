/* A described machine that is not present: the compute rates and memory of its devices, and their
 * links. Invariant: a machine that was read has every figure that its links and devices need, above
 * 0.
 *
 *   hosts, each with devices of one model; a copy between two ends passes
 *     device and device of one host   both peer ports, where devices have them; else, as below,
 *                                     up one host link and down the other
 *     host 0 (cpu:0) and its device   that device's host link
 *     ends on different hosts         up, out of one host's network port, into the other's, down
 *
 * The ports of two hosts are connected without a bottleneck: the network is one switch, or
 * equivalent. A port carries its bandwidth each way. Host links and network ports may be shared by
 * the devices next to each other. */
#ifndef TANDEM_DEVICES_MACHINE_MACHINE_H
#define TANDEM_DEVICES_MACHINE_MACHINE_H

#include "core/status.h"
#include "tandem/core/core.h"

enum {
  TDM_MACHINE_MOST_DEVICES = 64,
  TDM_MACHINE_MOST_HOSTS = 65536,
  TDM_MACHINE_MOST_HOPS = 4,
  TDM_MACHINE_HOST = -1
};

typedef struct tdm_machine_processor {
  char model[48];      /* processor model, which also selects the measured kernel times */
  double memory_bytes; /* 0: not specified, no limit */
  double flops_per_ns[TDM_DTYPE_COUNT]; /* achieved by products; 0: not specified */
  double memory_bytes_per_ns;           /* achieved by streaming kernels */
  double launch_ns;                     /* minimum time of a kernel */
} tdm_machine_processor;

typedef struct tdm_machine_port {
  double latency_ns;
  double bytes_per_ns; /* rate in each direction; 0: no such port */
  uint32_t sharing;    /* number of the host's devices that share a port, >= 1 */
} tdm_machine_port;

typedef struct tdm_machine {
  char title[96];
  uint32_t host_count; /* hosts that can be planned for, limited by the number of devices */
  uint32_t all_hosts;  /* described identical hosts: >= host_count */
  uint32_t devices_per_host;
  tdm_machine_processor host; /* represented by cpu:0; memory_bytes_per_ns 0: not described */
  tdm_machine_processor device;
  tdm_machine_port peer;      /* port of each device to the other devices of its host */
  tdm_machine_port host_link; /* port of each device to the host's memory */
  tdm_machine_port network; /* port to other hosts; latency is that of a message from end to end */
} tdm_machine;

/* The links of a copy from one end to another. */
typedef struct tdm_machine_route {
  double latency_ns;
  double bytes_per_ns;                  /* rate of its narrowest link */
  uint32_t hops[TDM_MACHINE_MOST_HOPS]; /* links, used simultaneously */
  uint32_t hop_count;
} tdm_machine_route;

/* Reads the JSON file at path (docs/forecast.md describes its fields). IO and CORRUPT_DATA name the
 * file and the field. */
tdm_status tdm_machine_read(const char *path, tdm_machine *out_machine) TDM_WARN_UNUSED;
/* Like tdm_machine_read, from text; messages name it `source`. */
tdm_status tdm_machine_parse(const char *text, const char *source,
                             tdm_machine *out_machine) TDM_WARN_UNUSED;

/* Returns the end of a route that is a host; host 0 is TDM_MACHINE_HOST. */
static inline int tdm_machine_host(uint32_t host) {
  return TDM_MACHINE_HOST - (int)host;
}

static inline uint32_t tdm_machine_device_count(const tdm_machine *machine) {
  return machine->host_count * machine->devices_per_host;
}

/* Returns the number of links, one for each direction of each port, numbered from 0. */
uint32_t tdm_machine_link_count(const tdm_machine *machine);
double tdm_machine_link_bytes_per_ns(const tdm_machine *machine, uint32_t link);
/* Writes "paper:3 to peers" or "host 1 from the network" to text, and returns text. */
const char *tdm_machine_link_name(const tdm_machine *machine, uint32_t link, char *text,
                                  size_t capacity);
/* Finds the route between two ends, which are devices or hosts; host 0, cpu:0, is TDM_MACHINE_HOST.
 * A device of a host beyond the last one is on a separate host, and uses the links of the host that
 * it represents: its host's number modulo host_count. So one host of many identical ones can model
 * the load of each. */
void tdm_machine_find_route(const tdm_machine *machine, int from, int to,
                            tdm_machine_route *out_route);

#endif
