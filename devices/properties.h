/* Public part of devices/: what a context's devices are, how much memory they have, and what copies
 * between them cost. */
#ifndef TANDEM_DEVICES_PROPERTIES_H
#define TANDEM_DEVICES_PROPERTIES_H

#include "tandem/devices/devices.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_device_properties {
  size_t struct_size; /* sizeof(tdm_device_properties), set by the caller */
  const char *kind;   /* "cpu", "sim", "cuda", "paper"; static */
  char model[128];    /* what it is: the processor of what is on the host, a GPU's name, place and
                         driver; "" where nothing more is known than its kind */
  int rank;           /* of the job; 0 where there is none */
  int index;          /* within its rank and kind */
  int numa_node; /* the system's number of the node nearest to it; -1: several are, or unknown */
  bool is_here; /* false: of another rank, or of a machine that is described: what follows is 0, but
                   for the memory that a description tells of */
  size_t threads; /* that its kernels use at most; 0 of GPUs */
  uint64_t
      memory_bytes;    /* in all; 0: unknown. Of what is on the host: that of its node, or of all */
  uint64_t free_bytes; /* of these, as the system tells at the moment; 0: none, or unknown */
} tdm_device_properties;

/* INVALID_ARGUMENT where there is no such device (it names those there are). Any thread. */
TDM_API tdm_status tdm_device_get_properties(tdm_context *context, const char *device,
                                             tdm_device_properties *out_properties) TDM_WARN_UNUSED;

/* Of copies from one device to another: latency + bytes / bandwidth. */
typedef struct tdm_link_properties {
  size_t struct_size; /* sizeof(tdm_link_properties), set by the caller */
  bool measured;      /* by tdm_context_calibrate, now or earlier; else a model's */
  double latency_us;
  double gigabytes_per_second; /* 10^9 bytes; 0: no limit */
} tdm_link_properties;

/* pinned: of the host's end, where one end is the host. UNSUPPORTED where copies go by way of a
 * third device, which the message names: each hop has properties of its own. Any thread. */
TDM_API tdm_status tdm_link_get_properties(tdm_context *context, const char *from, const char *to,
                                           bool pinned,
                                           tdm_link_properties *out_properties) TDM_WARN_UNUSED;
/* What one copy of so many bytes is predicted to take, measured sizes corrected for; fails
 * likewise. */
TDM_API tdm_status tdm_link_predict(tdm_context *context, const char *from, const char *to,
                                    bool pinned, uint64_t bytes, double *out_us) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
