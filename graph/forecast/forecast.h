/* From a plan to tasks in virtual time. Invariant: every step of the plan has exactly one task, on
 * the queue it would run on; one that a run behind another of the same plan passes over takes no
 * time. */
#ifndef TANDEM_GRAPH_FORECAST_FORECAST_H
#define TANDEM_GRAPH_FORECAST_FORECAST_H

#include "graph/forecast/costs.h"
#include "graph/forecast/virtual_time.h"

typedef struct tdm_forecasting {
  const tdm_plan *plan;
  const tdm_forecast_options *options;
  const tdm_machine *machine; /* NULL: none is described */
  tdm_virtual_schedule schedule;
  tdm_region region;
  uint32_t *task_of;       /* per step */
  double *kernel_ns;       /* per step that executes: alone */
  double *crowded;         /* per step that executes: how much slower with all neighbours busy */
  uint32_t *queue_of;      /* per queue of the plan: its virtual one */
  uint32_t *pair_link_of;  /* per (from, to) of real devices: the link; NONE: none yet */
  char (*queue_names)[40]; /* per virtual queue */
  char (*link_names)[56];  /* per virtual link */
  uint32_t barrier;        /* the task between the phases; TDM_VIRTUAL_NONE: there is none */
  uint32_t measured_kernels;
  uint32_t modelled_kernels;
} tdm_forecasting;

/* In this order (forecast_tasks.c): what kernels take; the main phase; what ends it, and the update
 * phase. */
tdm_status tdm_forecast_price(tdm_forecasting *state) TDM_WARN_UNUSED;
tdm_status tdm_forecast_add_main(tdm_forecasting *state) TDM_WARN_UNUSED;
tdm_status tdm_forecast_add_update(tdm_forecasting *state) TDM_WARN_UNUSED;

#endif
