/* A machine that is described, not here: what its devices compute and hold, how they are linked.
 * Invariant: one that was read has every figure that its links and devices need, above 0.
 *
 *   hosts, each with devices of one model; a copy between two ends passes
 *     device and device of one host   both peer ports, where devices have them; else, as below,
 *                                     up one host link and down the other
 *     host 0 (cpu:0) and its device   that device's host link
 *     ends on different hosts         up, out of one host's network port, into the other's, down
 *   Nothing between the ports of two hosts narrows what they carry: the network is one switch, or
 * as good as one. A port carries its bandwidth each way. Host links and network ports may be shared
 * by the devices next to each other. */
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
  char model[48];      /* also the class under which measured kernel times are looked up */
  double memory_bytes; /* 0: no limit is told */
  double flops_per_ns[TDM_DTYPE_COUNT]; /* reached in products; 0: none is told */
  double memory_bytes_per_ns;           /* reached by kernels that stream */
  double launch_ns;                     /* least time of a kernel */
} tdm_machine_processor;

typedef struct tdm_machine_port {
  double latency_ns;
  double bytes_per_ns; /* each way; 0: there is no such port */
  uint32_t sharing;    /* devices of a host that share one, >= 1 */
} tdm_machine_port;

typedef struct tdm_machine {
  char title[96];
  uint32_t host_count; /* whose devices can be planned for: at most so many devices */
  uint32_t all_hosts;  /* as described, all alike: >= host_count */
  uint32_t devices_per_host;
  tdm_machine_processor host; /* what cpu:0 stands for; memory_bytes_per_ns 0: not described */
  tdm_machine_processor device;
  tdm_machine_port peer;      /* a device's own, to the other devices of its host */
  tdm_machine_port host_link; /* to the host's memory */
  tdm_machine_port network;   /* to other hosts; latency is that of a message from end to end */
} tdm_machine;

/* What a copy from one end to another passes. */
typedef struct tdm_machine_route {
  double latency_ns;
  double bytes_per_ns;                  /* of its narrowest link */
  uint32_t hops[TDM_MACHINE_MOST_HOPS]; /* links, all at once */
  uint32_t hop_count;
} tdm_machine_route;

/* Reads the JSON file at path (docs/forecast.md has its fields). IO and CORRUPT_DATA name the file
 * and the field. */
tdm_status tdm_machine_read(const char *path, tdm_machine *out_machine) TDM_WARN_UNUSED;
/* The same from text; `source` names it in messages. */
tdm_status tdm_machine_parse(const char *text, const char *source,
                             tdm_machine *out_machine) TDM_WARN_UNUSED;

/* The end of a route that is a host: 0 is TDM_MACHINE_HOST. */
static inline int tdm_machine_host(uint32_t host) {
  return TDM_MACHINE_HOST - (int)host;
}

static inline uint32_t tdm_machine_device_count(const tdm_machine *machine) {
  return machine->host_count * machine->devices_per_host;
}

/* Links, one for each way of each port, are numbered from 0. */
uint32_t tdm_machine_link_count(const tdm_machine *machine);
double tdm_machine_link_bytes_per_ns(const tdm_machine *machine, uint32_t link);
/* "paper:3 to peers", "host 1 from the network"; returns text. */
const char *tdm_machine_link_name(const tdm_machine *machine, uint32_t link, char *text,
                                  size_t capacity);
/* from and to are devices, or hosts: host 0, that is cpu:0, is TDM_MACHINE_HOST. A device of a host
 * behind the last is on a host of its own, whose links are those of the host that it stands for:
 * the host's number modulo host_count. So one host of many alike can carry what each of them does.
 */
void tdm_machine_find_route(const tdm_machine *machine, int from, int to,
                            tdm_machine_route *out_route);

#endif
