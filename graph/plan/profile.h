/* How long the steps of a plan took. Invariant: of each step the latest durations are kept, so that
 * one run that was held up does not tell for the others. */
#ifndef TANDEM_GRAPH_PLAN_PROFILE_H
#define TANDEM_GRAPH_PLAN_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/allocate.h"
#include "core/status.h"
#include "devices/contract/device.h"

/* The latest that are kept of a step. */
#define TDM_PROFILE_KEPT 33

typedef struct tdm_profile_step tdm_profile_step;

typedef struct tdm_profile {
  tdm_profile_step *steps; /* (step_count); NULL: nothing is profiled */
  size_t step_count;
} tdm_profile;

/* In memory of the region's. */
tdm_status tdm_profile_init(tdm_profile *profile, tdm_region *region,
                            size_t step_count) TDM_WARN_UNUSED;
/* Takes the times of one run (step_count). */
void tdm_profile_add(tdm_profile *profile, const tdm_command_times *times);
/* The median of what is kept of a step, in ns; negative where there is none. */
double tdm_profile_median_ns(const tdm_profile *profile, size_t step);

#endif
