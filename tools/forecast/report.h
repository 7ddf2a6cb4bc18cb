/* What `tandem forecast` prints. */
#ifndef TOOLS_FORECAST_REPORT_H
#define TOOLS_FORECAST_REPORT_H

#include "core/json_writer.h"
#include "tandem/tandem.h"

/* How gradients are summed over the devices of one machine, by tdm_collective. */
enum { SUMMING_ALGORITHMS = TDM_COLLECTIVE_TREE + 1 };
/* "plan" (its own choice), "home", "chain", ... */
const char *summing_name(int algorithm);

/* Prints one step: its time, the parts of that time, and the traffic per link. */
void report_step(const tdm_forecast *forecast, const tdm_traffic *traffic);
void report_step_json(const tdm_forecast *forecast, const tdm_traffic *traffic,
                      tdm_json_writer *json);

/* A row of the scaling table: step_ns by each algorithm, and of one device. */
typedef struct scaling_row {
  int devices;
  int64_t batch;
  double step_ns[SUMMING_ALGORITHMS];
} scaling_row;

/* Prints a table of rows (count); the first is for one device. */
void report_scaling(const scaling_row *rows, size_t count);
void report_scaling_json(const scaling_row *rows, size_t count, tdm_json_writer *json);

#endif
