/* Initial values of parameters, from (seed, parameter name, element index) alone. */
#ifndef TANDEM_GRAPH_STORE_INITIALIZE_H
#define TANDEM_GRAPH_STORE_INITIALIZE_H

#include "graph/ir/ir.h"

/* What has initial values: all of a parameter, or some of its rows. */
typedef struct tdm_initialized {
  const char *name;
  tdm_initializer initializer;
  uint64_t seed;
  int64_t first_row; /* 0 of a whole */
} tdm_initialized;

/* Fills memory (spec: floating, or an integer dtype for zeros and constants) on its device. */
tdm_status tdm_initialize_memory(tdm_context *context, const tdm_memory *memory,
                                 const tdm_spec *spec,
                                 const tdm_initialized *initialized) TDM_WARN_UNUSED;

#endif
