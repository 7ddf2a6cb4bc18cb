/* How kinds of devices are linked: a table of descriptors that //devices/kinds defines, and Bazel
 * chooses. Invariant: nothing in //devices names a kind but through this table. */
#ifndef TANDEM_DEVICES_CONTRACT_KIND_H
#define TANDEM_DEVICES_CONTRACT_KIND_H

#include "devices/contract/device.h"
#include "devices/kernel_list.h"

/* What the context read from its options and the environment for one kind. */
typedef struct tdm_kind_options {
  int count;            /* devices asked for; 0: as many as the kind finds. To create: in all */
  bool none;            /* none of the kind were asked for: it is not looked for, count is 0 */
  const char *settings; /* "latency_us=5,..."; NULL: none. Borrowed for the call */
  bool tf32;            /* products of float32 may be rounded so, where the kind can */
  bool nccl;            /* devices may sum with one another by an engine of the kind's */
} tdm_kind_options;

typedef struct tdm_kind {
  const char *name; /* static storage */
  /* Why this build has no devices of the kind; NULL if it has, and then all below are set. */
  const char *absent;
  const char *count_variable;    /* of the environment: how many devices; NULL: none */
  const char *settings_variable; /* of the environment: tdm_kind_options.settings; NULL: none */
  bool on_host;                  /* its devices' threads run on the host's cores */
  /* How many devices there are. OK with 0 devices is legal; out_reason, which is the
   * calling thread's until its next call, then says why. */
  tdm_status (*count)(tdm_context *context, const tdm_kind_options *options, size_t *out_count,
                      const char **out_reason);
  /* One device; ops, context, index, host_addressable and queues are set on return; the context
   * sets name, context_index, the queues' index and, of kinds on the host, node. The caller
   * destroys it through its ops. */
  tdm_status (*create)(tdm_context *context, const tdm_kind_options *options, int index,
                       tdm_device **out_device);
  /* Visits the kernels that come with the kind; NULL where another kind's serve. UNAVAILABLE when
   * there are none that this machine can run. */
  tdm_status (*each_kernel)(tdm_kernel_visitor visit, void *user);
  /* Of the host's own kind: the name of the instruction set that its kernels use on this machine,
   * by which their bits may differ; static. NULL in others. */
  const char *(*instructions)(void);
} tdm_kind;

/* In the order in which devices are listed; ends with NULL. The first is the host's. */
extern const tdm_kind *const tdm_device_kinds[];

#endif
