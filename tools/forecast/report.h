/* What `tandem forecast` prints. */
#ifndef TOOLS_FORECAST_REPORT_H
#define TOOLS_FORECAST_REPORT_H

#include "tandem.h"

/* How gradients are summed: by the plan's own choice, by a plan that sums at home, and by what a
 * forecast puts in the place of that. */
typedef struct summing_way {
  const char *name;
  tdm_collective collective;
  tdm_summation summation;
} summing_way;
enum { SUMMING_WAYS = 4 };
extern const summing_way summing_ways[SUMMING_WAYS]; /* "plan", "home", "ring", "tree" */

/* One step: its time, what it is made of, traffic per link. */
void report_step(const tdm_forecast *forecast, const tdm_traffic *traffic);

/* A row of the scaling table: step_ns of each way of summing, and of one device. */
typedef struct scaling_row {
  int devices;
  int64_t batch;
  double step_ns[SUMMING_WAYS];
} scaling_row;

/* rows (count); the first is of one device. */
void report_scaling(const scaling_row *rows, size_t count);

#endif
