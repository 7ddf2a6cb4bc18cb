/* First values of parameters and states: initial ones, computed only from (seed, parameter name,
 * element index), and loaded ones. Copies to devices with their own memory are collected and run
 * together, because waiting for each takes longer. */
#ifndef TANDEM_GRAPH_STORE_INITIALIZE_H
#define TANDEM_GRAPH_STORE_INITIALIZE_H

#include "devices/tensors/oneshot.h"
#include "graph/ir/ir.h"

/* A value to initialize: a whole parameter, or some of its rows. */
typedef struct tdm_initialized {
  const char *name;
  tdm_initializer initializer;
  uint64_t seed;
  int64_t first_row;    /* 0 for a whole parameter */
  const void *elements; /* elements of a constant, whose initializer is not read; otherwise NULL */
} tdm_initialized;

/* Copies that have not run yet. {.context = context} is empty. Their sources and targets must stay
 * valid until tdm_uploads_run or tdm_uploads_drop. Single-threaded. */
typedef struct tdm_uploads {
  tdm_context *context;
  tdm_oneshot oneshot;
  tdm_address staging; /* `left` bytes of free memory for more initial values */
  size_t left;
  size_t bytes; /* total of all waiting copies */
} tdm_uploads;

/* Fills memory (spec: floating, or an integer dtype for zeros and constants) on its device: at once
 * if the host can address it, otherwise when the uploads run. */
tdm_status tdm_uploads_initialize(tdm_uploads *uploads, const tdm_memory *memory,
                                  const tdm_spec *spec,
                                  const tdm_initialized *initialized) TDM_WARN_UNUSED;
/* Copies to->bytes bytes when the uploads run; 0 bytes are legal. */
tdm_status tdm_uploads_copy(tdm_uploads *uploads, const tdm_memory *from,
                            const tdm_memory *to) TDM_WARN_UNUSED;
/* Returns true if enough bytes are waiting to copy them now. */
bool tdm_uploads_are_many(const tdm_uploads *uploads);
/* Runs all copies, blocks until they have ended, and returns the first failure. The uploads are
 * empty afterwards. */
tdm_status tdm_uploads_run(tdm_uploads *uploads) TDM_WARN_UNUSED;
/* Drops all copies that have not run. */
void tdm_uploads_drop(tdm_uploads *uploads);

#endif
