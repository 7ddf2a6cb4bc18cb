/* Durations of a plan's steps. Invariant: several recent durations of each step are stored, so that
 * one delayed run does not distort the result. */
#ifndef TANDEM_GRAPH_PLAN_PROFILE_H
#define TANDEM_GRAPH_PLAN_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/allocate.h"
#include "core/status.h"
#include "devices/contract/device.h"

/* Number of stored durations of a step. */
#define TDM_PROFILE_KEPT 33

typedef struct tdm_profile_step tdm_profile_step;

typedef struct tdm_profile {
  tdm_profile_step *steps; /* (step_count); NULL: no profile */
  size_t step_count;
} tdm_profile;

/* Initializes a profile with memory from the region. */
tdm_status tdm_profile_init(tdm_profile *profile, tdm_region *region,
                            size_t step_count) TDM_WARN_UNUSED;
/* Adds the times of one run (step_count). */
void tdm_profile_add(tdm_profile *profile, const tdm_command_times *times);
/* Returns the median of a step's stored durations in ns, negative if there are none. */
double tdm_profile_median_ns(const tdm_profile *profile, size_t step);

#endif
