/* Copies and kernels outside of any plan, in flight together: put together, run, waited for once.
 *
 *   value (where it lies, which step makes it) --copy, execute--> value
 *
 * Invariant: a step waits for the steps that make what it reads, and for nothing else but its
 * queue. The first failure of putting together sticks, and running reports it. One thread. */
#ifndef TANDEM_DEVICES_ERRAND_H
#define TANDEM_DEVICES_ERRAND_H

#include "devices/context.h"

typedef struct tdm_errand_step tdm_errand_step;
typedef struct tdm_errand_memory tdm_errand_memory;

typedef struct tdm_errand {
  tdm_context *context;
  bool entered; /* the context is in use */
  tdm_status status;
  tdm_region region;
  tdm_errand_step *first; /* in the order they were added */
  tdm_errand_step *last;
  uint32_t step_count;
  uint32_t operand_count;      /* of all steps: an address each */
  tdm_errand_memory *memories; /* given back with the errand */
} tdm_errand;

typedef struct tdm_errand_value {
  tdm_spec spec;
  tdm_memory memory;
  tdm_errand_step *ready; /* makes it; NULL: it is there */
} tdm_errand_value;

/* Starts the context's devices. context outlives the errand; deinit accepts a zeroed errand. */
void tdm_errand_init(tdm_errand *errand, tdm_context *context);
/* What was put together has been run, or never will be. */
void tdm_errand_deinit(tdm_errand *errand);

/* A value of spec in memory of device that lasts as long as the errand, pinned for partner unless
 * that is NULL. */
tdm_errand_value tdm_errand_take(tdm_errand *errand, tdm_device *device, tdm_device *partner,
                                 const tdm_spec *spec);
/* Copies value into memory, through the host where there is no direct route; answers it there. */
tdm_errand_value tdm_errand_copy(tdm_errand *errand, const tdm_errand_value *value,
                                 const tdm_memory *memory);
/* Runs operation on the device of its outputs: operands are inputs, then outputs, whose `ready` is
 * set. attributes are copied. UNSUPPORTED where the device has no such kernel. */
void tdm_errand_execute(tdm_errand *errand, const char *operation, const void *attributes,
                        size_t attribute_bytes, tdm_errand_value *operands, size_t input_count,
                        size_t output_count);
/* Hands everything to the queues and blocks until it has settled; the earliest failure of all. */
tdm_status tdm_errand_run(tdm_errand *errand) TDM_WARN_UNUSED;

#endif
