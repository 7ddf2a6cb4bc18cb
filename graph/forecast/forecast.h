/* From a plan to tasks in virtual time. Invariant: every step of the plan has exactly one task, on
 * the queue it would run on; a step that a ring or tree stands for has one that takes no time, so
 * that the order that other steps need is kept. */
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
  uint32_t *task_of;      /* per step */
  bool *passed_over;      /* per step: a ring or tree stands for it */
  bool *follows;          /* per step: reads such sums, in the main phase (clipping, say) */
  double *kernel_ns;      /* per step that executes: alone */
  double *crowded;        /* per step that executes: how much slower with all neighbours busy */
  uint32_t *queue_of;     /* per queue of the plan: its virtual one */
  uint32_t *sum_queue_of; /* per device: what carries its part of rings and trees; NONE: none yet */
  uint32_t *pair_link_of; /* per (from, to) of real devices: the link; NONE: none yet */
  char (*queue_names)[40]; /* per virtual queue */
  char (*link_names)[56];  /* per virtual link */
  uint32_t barrier;        /* the task between the phases; TDM_VIRTUAL_NONE: there is none */
  uint32_t measured_kernels;
  uint32_t modelled_kernels;
  uint32_t replaced_sums;
  uint32_t kept_sums;
} tdm_forecasting;

/* In this order (forecast_tasks.c): what kernels take; the main phase; sums (below); what ends the
 * main phase, and the update phase. */
tdm_status tdm_forecast_price(tdm_forecasting *state) TDM_WARN_UNUSED;
tdm_status tdm_forecast_add_main(tdm_forecasting *state) TDM_WARN_UNUSED;
tdm_status tdm_forecast_add_update(tdm_forecasting *state) TDM_WARN_UNUSED;
/* A task that copies bytes from one device to another, without waits, on a virtual queue. */
tdm_status tdm_forecast_add_copy(tdm_forecasting *state, int16_t from, int16_t to, double bytes,
                                 uint32_t queue, uint64_t order,
                                 uint32_t *out_task) TDM_WARN_UNUSED;
static inline uint64_t tdm_forecast_order(size_t step) {
  return (uint64_t)(step + 1) << 24;
}

/* One parameter's gradients, each on a device of its own, summed for its update. */
typedef struct tdm_forecast_sum {
  size_t update_step;
  size_t sum_step;  /* that ends the addition at home */
  size_t last_step; /* that makes one of the gradients, in plan order */
  double bytes;     /* of the gradient */
  double add_ns;    /* of adding one gradient to another */
  uint32_t count;
  int16_t devices[TDM_MACHINE_MOST_DEVICES]; /* (count), the home first */
  size_t ready[TDM_MACHINE_MOST_DEVICES];    /* (count): the step that makes the device's own */
  uint32_t done[TDM_MACHINE_MOST_DEVICES];   /* (count): the task after which it has the sum */
} tdm_forecast_sum;

/* Finds the sums that a ring or tree can stand for and marks the steps that it stands for
 * (forecast_sums.c); after pricing. They are the region's. */
tdm_status tdm_forecast_find_sums(tdm_forecasting *state, tdm_forecast_sum **out_sums,
                                  size_t *out_count) TDM_WARN_UNUSED;
/* Adds their tasks in the main phase, what follows them there on all devices but the home, which
 * has the plan's own steps, and these devices' updates in the update phase (forecast_rings.c). */
tdm_status tdm_forecast_add_sums(tdm_forecasting *state, tdm_forecast_sum *sums,
                                 size_t count) TDM_WARN_UNUSED;
tdm_status tdm_forecast_add_followers(tdm_forecasting *state, const tdm_forecast_sum *sums,
                                      size_t count) TDM_WARN_UNUSED;
tdm_status tdm_forecast_add_updates(tdm_forecasting *state, const tdm_forecast_sum *sums,
                                    size_t count) TDM_WARN_UNUSED;

#endif
