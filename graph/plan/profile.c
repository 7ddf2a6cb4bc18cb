/* Rings of durations; see profile.h. */
#include "graph/plan/profile.h"

#include <stdlib.h>
#include <string.h>

struct tdm_profile_step {
  uint64_t durations_ns[TDM_PROFILE_KEPT]; /* ring of the latest durations */
  uint64_t count;                          /* number of durations so far */
};

tdm_status tdm_profile_init(tdm_profile *profile, tdm_region *region, size_t step_count) {
  profile->step_count = step_count;
  profile->steps =
      tdm_region_take(region, (step_count + 1) * sizeof(tdm_profile_step), "a profile");
  return profile->steps ? TDM_OK : TDM_OUT_OF_MEMORY;
}

void tdm_profile_add(tdm_profile *profile, const tdm_command_times *times) {
  for (size_t i = 0; i < profile->step_count; i++) {
    if (times[i].end_ns == 0) continue;
    tdm_profile_step *step = &profile->steps[i];
    step->durations_ns[step->count++ % TDM_PROFILE_KEPT] = times[i].end_ns - times[i].begin_ns;
  }
}

static int compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a;
  const uint64_t y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

double tdm_profile_median_ns(const tdm_profile *profile, size_t step) {
  if (!profile->steps || profile->steps[step].count == 0) return -1;
  const tdm_profile_step *kept = &profile->steps[step];
  const size_t count = kept->count < TDM_PROFILE_KEPT ? (size_t)kept->count : TDM_PROFILE_KEPT;
  uint64_t sorted[TDM_PROFILE_KEPT];
  memcpy(sorted, kept->durations_ns, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, compare);
  const size_t below = (count - 1) / 2, above = count / 2;
  return ((double)sorted[below] + (double)sorted[above]) / 2;
}
