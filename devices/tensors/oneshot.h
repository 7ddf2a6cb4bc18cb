/* Copies and kernels outside of any plan, in flight together: put together, run, waited for once.
 *
 *   value (where it lies, which step makes it) --copy, execute--> value
 *
 * Invariant: a step waits for the steps that make what it reads, and for nothing else but its
 * queue. The first failure of putting together sticks, and running reports it. One thread. */
#ifndef TANDEM_DEVICES_TENSORS_ONESHOT_H
#define TANDEM_DEVICES_TENSORS_ONESHOT_H

#include "devices/context/context.h"

typedef struct tdm_oneshot_step tdm_oneshot_step;
typedef struct tdm_oneshot_memory tdm_oneshot_memory;

typedef struct tdm_oneshot {
  tdm_context *context;
  bool entered; /* the context is in use */
  tdm_status status;
  tdm_region region;
  tdm_oneshot_step *first; /* in the order they were added */
  tdm_oneshot_step *last;
  uint32_t step_count;
  uint32_t operand_count;       /* of all steps: an address each */
  tdm_oneshot_memory *memories; /* given back by deinit */
} tdm_oneshot;

typedef struct tdm_oneshot_value {
  tdm_spec spec;
  tdm_memory memory;
  tdm_oneshot_step *ready; /* makes it; NULL: it is there */
} tdm_oneshot_value;

/* Starts the context's devices. context outlives it; deinit accepts a zeroed one. */
void tdm_oneshot_init(tdm_oneshot *oneshot, tdm_context *context);
/* What was put together has been run, or never will be. */
void tdm_oneshot_deinit(tdm_oneshot *oneshot);

/* A value of spec in memory of device that lasts until deinit, pinned for partner unless
 * that is NULL. */
tdm_oneshot_value tdm_oneshot_take(tdm_oneshot *oneshot, tdm_device *device, tdm_device *partner,
                                   const tdm_spec *spec);
/* Copies value into memory, through the host where there is no direct route; answers it there. */
tdm_oneshot_value tdm_oneshot_copy(tdm_oneshot *oneshot, const tdm_oneshot_value *value,
                                   const tdm_memory *memory);
/* Runs operation on the device of its outputs: operands are inputs, then outputs, whose `ready` is
 * set. attributes are copied. UNSUPPORTED where the device has no such kernel. */
void tdm_oneshot_execute(tdm_oneshot *oneshot, const char *operation, const void *attributes,
                         size_t attribute_bytes, tdm_oneshot_value *operands, size_t input_count,
                         size_t output_count);
/* Hands everything to the queues and blocks until it has settled; the earliest failure of all. */
tdm_status tdm_oneshot_run(tdm_oneshot *oneshot) TDM_WARN_UNUSED;

#endif
