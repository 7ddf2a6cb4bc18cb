/* From a plan to tasks in virtual time. Invariant: every step of every simulated rank has a task on
 * the queue it would run on; one that a run behind another of the same plan passes over takes no
 * time. */
#ifndef TANDEM_GRAPH_FORECAST_FORECAST_H
#define TANDEM_GRAPH_FORECAST_FORECAST_H

#include "graph/forecast/costs.h"
#include "graph/forecast/virtual_time.h"

/* Gradients of a device that go together. */
typedef struct tdm_alike_bucket {
  double left;      /* bytes of the device's gradients that are in no bucket yet */
  double enough;    /* bytes of a bucket */
  double bytes;     /* in the one that is being filled */
  uint32_t first;   /* step; TDM_VIRTUAL_NONE: it is empty */
  uint32_t last;    /* step */
  uint32_t meeting; /* a queue for what all ranks begin and end together */
} tdm_alike_bucket;

/* The ranks that a plan is one of, and how many of them are simulated: those of one host, or of the
 * hosts of one rank, which stand for all others; or, unfolded, each. Rank r has the devices that
 * the plan has, `width` times r behind them. */
typedef struct tdm_alike {
  uint32_t ranks;      /* 1: the plan is all there is */
  uint32_t width;      /* devices of a rank */
  uint32_t simulated;  /* ranks */
  tdm_machine machine; /* the simulated hosts alone, whose links stand for those of the others */
  tdm_collective algorithm;
  double latency_ns;         /* of the slowest way from a rank to the next */
  double bytes_per_ns;       /* of the narrowest */
  size_t device_count;       /* of the context */
  tdm_alike_bucket *buckets; /* (device_count) */
  uint32_t *next;            /* per step: the one behind it in its bucket; NONE: it is the last */
  uint32_t *edges;           /* (device_count, simulated): queues of what ranks send; NONE: none */
} tdm_alike;

/* One rank that is simulated. */
typedef struct tdm_forecast_rank {
  const tdm_lowered *lowered; /* its steps; alike ranks have the plan's */
  double *step_ns;    /* per step: of kernels, alone; of copies between devices that are there */
  double *crowded;    /* per step that executes: how much slower with all neighbours busy */
  uint32_t *task_of;  /* per step: the task that it ends with */
  uint32_t *queue_of; /* per queue of its steps: the virtual one */
} tdm_forecast_rank;

typedef struct tdm_forecasting {
  const tdm_plan *plan;
  const tdm_forecast_options *options;
  const tdm_machine *machine; /* NULL: none is described */
  tdm_alike alike;
  bool is_job;              /* ranks are those of the plan's job, each with steps of its own */
  uint32_t rank_count;      /* that are simulated */
  tdm_forecast_rank *ranks; /* (rank_count) */
  tdm_lowered *lowered;     /* (rank_count) of a job: of the ranks that are elsewhere */
  uint32_t rank;            /* that tasks are being added for */
  tdm_virtual_schedule schedule;
  tdm_region region;
  uint32_t *pair_link_of;  /* per (from, to) of real devices: the link; NONE: none yet */
  uint32_t *port_of;       /* per (host; out, in or both ways) of a job: the link; NONE: none yet */
  uint32_t *both_ways_of;  /* per two ranks of a job, the lower first, likewise */
  char (*queue_names)[40]; /* per virtual queue */
  char (*link_names)[56];  /* per virtual link */
  uint32_t barrier;        /* the task between the phases; TDM_VIRTUAL_NONE: there is none */
  uint32_t measured_kernels;
  uint32_t modelled_kernels;
} tdm_forecasting;

/* Alike ranks (alike_ranks.c). Which there are, before all else: INVALID_ARGUMENT where the machine
 * has no room for them, or they would not be alike; then, with names made room for, how they are
 * linked. */
tdm_status tdm_alike_find(tdm_forecasting *state) TDM_WARN_UNUSED;
tdm_status tdm_alike_begin(tdm_forecasting *state) TDM_WARN_UNUSED;
/* What a step that shares something adds, once each simulated rank has a task of it. */
tdm_status tdm_alike_share(tdm_forecasting *state, size_t step) TDM_WARN_UNUSED;
/* How long all take to agree that none has failed, between the phases. */
double tdm_alike_vote_ns(const tdm_forecasting *state);

/* A job (job_ranks.c). The steps of all ranks; what they take, which each rank tells the others, on
 * all ranks or on none; where a message that begins here flows, with the task's latency; once all
 * ranks' main phases are there, what of them waits for other ranks; and how long it takes them to
 * agree between the phases. All ranks call the first two. */
tdm_status tdm_job_find(tdm_forecasting *state) TDM_WARN_UNUSED;
tdm_status tdm_job_tell_prices(tdm_forecasting *state, tdm_status priced) TDM_WARN_UNUSED;
tdm_status tdm_job_send(tdm_forecasting *state, const tdm_ir_node *node, double ns,
                        tdm_virtual_task *task) TDM_WARN_UNUSED;
tdm_status tdm_job_join(tdm_forecasting *state) TDM_WARN_UNUSED;
/* Of that what all-reduces wait for, also of devices of one rank. */
tdm_status tdm_job_join_sums(tdm_forecasting *state) TDM_WARN_UNUSED;
double tdm_job_vote_ns(const tdm_forecasting *state);
/* The first of the ranks that are on the same host as that one. */
uint32_t tdm_job_host(const tdm_forecasting *state, uint32_t rank);

/* The node that a step of the rank is. */
static inline const tdm_ir_node *tdm_forecast_node(const tdm_forecasting *state, uint32_t rank,
                                                   size_t step) {
  return tdm_ir_node_at(&state->plan->graph, state->ranks[rank].lowered->sources[step].node);
}

/* In this order (forecast_tasks.c): what the steps of state->rank take; the main phase; what ends
 * it, and the update phase. */
tdm_status tdm_forecast_price(tdm_forecasting *state) TDM_WARN_UNUSED;
tdm_status tdm_forecast_add_main(tdm_forecasting *state) TDM_WARN_UNUSED;
tdm_status tdm_forecast_add_update(tdm_forecasting *state) TDM_WARN_UNUSED;

#endif
