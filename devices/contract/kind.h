/* The table of device kinds, which //devices/kinds defines and Bazel selects. Invariant: code in
 * //devices refers to kinds only through this table. */
#ifndef TANDEM_DEVICES_CONTRACT_KIND_H
#define TANDEM_DEVICES_CONTRACT_KIND_H

#include "devices/contract/device.h"
#include "devices/kernels/kernel_list.h"

/* One kind's settings from the context's options and the environment. */
typedef struct tdm_kind_options {
  int count;            /* requested devices; 0: as many as the kind finds. For create: the total */
  bool none; /* no devices were requested: the kind is not searched for, and count is 0 */
  const char *settings; /* "latency_us=5,..."; NULL: none. Borrowed for the call */
  bool tf32;            /* float32 products may be rounded to TF32, if the kind can do so */
  bool nccl;            /* devices may communicate with each other by the kind's engine */
} tdm_kind_options;

typedef struct tdm_kind {
  const char *name; /* static storage */
  /* Why this build has no devices of the kind. If NULL, all members below are set. */
  const char *absent;
  const char *count_variable;    /* environment variable for the number of devices; NULL: none */
  const char *settings_variable; /* environment variable for .settings; NULL: none */
  bool on_host;                  /* the devices' threads run on the host's cores */
  /* Counts the available devices. OK with 0 devices is legal; out_reason, valid on the calling
   * thread until its next call, is then the reason. */
  tdm_status (*count)(tdm_context *context, const tdm_kind_options *options, size_t *out_count,
                      const char **out_reason);
  /* Creates one device; ops, context, index, host_addressable and queues are set on return. The
   * context sets name, context_index, the queues' index and, for kinds on the host, node. The
   * caller destroys the device through its ops. */
  tdm_status (*create)(tdm_context *context, const tdm_kind_options *options, int index,
                       tdm_device **out_device);
  /* Visits the kernels of the kind; NULL if it uses those of another kind. Fails with UNAVAILABLE
   * if this machine cannot run any. */
  tdm_status (*each_kernel)(tdm_kernel_visitor visit, void *user);
  /* Returns the instruction set of the host's kernels on this machine, on which their result bits
   * may depend; static. NULL for kinds other than the host's. */
  const char *(*instructions)(void);
} tdm_kind;

/* In the order in which devices are listed, terminated by NULL. The first one is the host. */
extern const tdm_kind *const tdm_device_kinds[];

#endif
