/* Copies and kernels outside of any plan, in flight together: built, run and awaited once.
 *
 *   value (its memory, and the step that computes it) --copy, execute--> value
 *
 * Invariant: a step waits only for the steps whose results it reads, and for its queue. The first
 * failure while building sticks, and run returns it. Single-threaded. */
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
  tdm_oneshot_step *first; /* list of steps in the order in which they were added */
  tdm_oneshot_step *last;
  uint32_t step_count;
  uint32_t operand_count;       /* total of all steps: one address each */
  tdm_oneshot_memory *memories; /* released by deinit */
} tdm_oneshot;

typedef struct tdm_oneshot_value {
  tdm_spec spec;
  tdm_memory memory;
  tdm_oneshot_step *ready; /* the step that computes it; NULL: it is available */
} tdm_oneshot_value;

/* Begins a submission and starts the context's devices. context outlives it; deinit accepts a
 * zeroed struct. */
void tdm_oneshot_init(tdm_oneshot *oneshot, tdm_context *context);
/* Ends a submission, which was run or never will be. */
void tdm_oneshot_deinit(tdm_oneshot *oneshot);

/* Returns a value of spec in memory of device that lasts until deinit, pinned for partner unless
 * that is NULL. */
tdm_oneshot_value tdm_oneshot_take(tdm_oneshot *oneshot, tdm_device *device, tdm_device *partner,
                                   const tdm_spec *spec);
/* Copies value to memory, through the host if there is no direct route, and returns the copy. */
tdm_oneshot_value tdm_oneshot_copy(tdm_oneshot *oneshot, const tdm_oneshot_value *value,
                                   const tdm_memory *memory);
/* Runs operation on the device of its outputs. Operands are inputs, then outputs, whose `ready` is
 * set. attributes are copied. Fails with UNSUPPORTED if the device has no such kernel. */
void tdm_oneshot_execute(tdm_oneshot *oneshot, const char *operation, const void *attributes,
                         size_t attribute_bytes, tdm_oneshot_value *operands, size_t input_count,
                         size_t output_count);
/* Submits everything and blocks until it has settled. Returns the earliest failure. */
tdm_status tdm_oneshot_run(tdm_oneshot *oneshot) TDM_WARN_UNUSED;

#endif
