/* Initial values of parameters, from (seed, parameter name, element index) alone. */
#ifndef TANDEM_GRAPH_STORE_INITIALIZE_H
#define TANDEM_GRAPH_STORE_INITIALIZE_H

#include "graph/ir/ir.h"

/* Fills memory (spec: floating, or an integer dtype for zeros and constants) on its device. */
tdm_status tdm_initialize_memory(tdm_context *context, const tdm_memory *memory,
                                 const tdm_spec *spec, const char *name,
                                 const tdm_initializer *initializer, uint64_t seed) TDM_WARN_UNUSED;

#endif
