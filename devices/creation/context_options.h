/* A context's settings from its options and the environment. Invariant: options take precedence
 * over a kind's own variable, that over TANDEM_DEVICES, and that over the devices that the kind
 * finds. */
#ifndef TANDEM_DEVICES_CREATION_CONTEXT_OPTIONS_H
#define TANDEM_DEVICES_CREATION_CONTEXT_OPTIONS_H

#include "devices/contract/kind.h"
#include "devices/contract/red_zones.h"

enum { TDM_MAX_KINDS = 8, TDM_MAX_DEVICES_OF_KIND = 64 };

/* One per entry of tdm_device_kinds, in its order. A count above 0, or `none`, was requested by
 * name. */
typedef struct tdm_context_plan {
  tdm_kind_options kinds[TDM_MAX_KINDS];
  tdm_red_zones red_zones;
} tdm_context_plan;

/* Copies options (NULL: all defaults) of any earlier struct_size. */
tdm_status tdm_context_options_read(const tdm_context_options *options,
                                    tdm_context_options *out_options) TDM_WARN_UNUSED;
/* Returns the limit of silence in the options; 0: none, or one that tdm_context_plan_read
 * refuses. */
uint64_t tdm_context_silence_ns(const tdm_context_options *options);
/* Reads the plan. Its strings belong to the options and the environment. */
tdm_status tdm_context_plan_read(const tdm_context_options *options,
                                 tdm_context_plan *out_plan) TDM_WARN_UNUSED;

#endif
