/* Converts a plan to tasks in virtual time. Invariant: every step of every simulated rank has a
 * task on its queue. A step that a run skips after another run of the same plan takes no time. */
#ifndef TANDEM_GRAPH_FORECAST_FORECAST_H
#define TANDEM_GRAPH_FORECAST_FORECAST_H

#include "graph/forecast/costs.h"
#include "graph/forecast/virtual_time.h"

/* Gradients of a device that are shared together. */
typedef struct tdm_alike_bucket {
  double left;      /* bytes of the device's gradients that are in no bucket yet */
  double enough;    /* bytes of a bucket */
  double bytes;     /* bytes in the bucket that is being filled */
  uint32_t first;   /* step; TDM_VIRTUAL_NONE: it is empty */
  uint32_t last;    /* step */
  uint32_t meeting; /* the queue for what all ranks begin and end together */
} tdm_alike_bucket;

/* The identical ranks to which a plan belongs, and how many of them are simulated: those of one
 * host, or of the hosts of one rank, which represent all others, or, if unfolded, all of them. Rank
 * r has the plan's devices, with indices shifted by `width` times r. */
typedef struct tdm_alike {
  uint32_t ranks;      /* 1: only the plan itself */
  uint32_t width;      /* number of devices of a rank */
  uint32_t simulated;  /* number of ranks */
  tdm_machine machine; /* description of the simulated hosts; their links also represent those of
                        * other hosts */
  double latency_ns;         /* latency of the slowest route from a rank to the next */
  double bytes_per_ns;       /* rate of the narrowest route */
  size_t device_count;       /* number of the context's devices */
  tdm_alike_bucket *buckets; /* (device_count) */
  uint32_t *next;            /* per step: the next one in its bucket; NONE: it is the last */
  uint32_t *edges;           /* (device_count, simulated): queues of what ranks send; NONE: none */
} tdm_alike;

/* One simulated rank. */
typedef struct tdm_forecast_rank {
  const tdm_lowered *lowered; /* steps of the rank; identical ranks share those of the plan */
  double *step_ns;    /* per step: of kernels without neighbours; of copies between real devices */
  double *crowded;    /* per executed step: slowdown factor with all neighbours busy */
  uint32_t *task_of;  /* per step: the task with which it ends */
  uint32_t *queue_of; /* per queue of its steps: the virtual queue */
} tdm_forecast_rank;

typedef struct tdm_forecasting {
  const tdm_plan *plan;
  const tdm_forecast_options *options;
  const tdm_machine *machine; /* NULL: no machine is described */
  tdm_alike alike;
  bool is_job;              /* ranks are those of the plan's job, each with its own steps */
  uint32_t rank_count;      /* number of simulated ranks */
  tdm_forecast_rank *ranks; /* (rank_count) */
  tdm_lowered *lowered;     /* (rank_count) in a job: of the other ranks */
  uint32_t rank;            /* the rank whose tasks are being added */
  tdm_virtual_schedule schedule;
  tdm_region region;
  uint32_t *pair_link_of;  /* (real devices, real devices): virtual link of each pair; NONE: none
                            * yet */
  uint32_t *port_of;       /* (hosts; out, in or both ways) of a job: virtual link of each port;
                            * NONE: none yet */
  uint32_t *both_ways_of;  /* per pair of ranks of a job, the lower one first: virtual link; NONE:
                            * none yet */
  char (*queue_names)[40]; /* per virtual queue */
  char (*link_names)[56];  /* per virtual link */
  uint32_t barrier;        /* the task between the phases; TDM_VIRTUAL_NONE: none */
  uint32_t measured_kernels;
  uint32_t modelled_kernels;
} tdm_forecasting;

/* Identical ranks (alike_ranks.c). _find determines them first; it fails with INVALID_ARGUMENT if
 * the machine has no room for them, or they would not be identical. The next function, called after
 * names were allocated, adds the links between them. */
tdm_status tdm_alike_find(tdm_forecasting *state) TDM_WARN_UNUSED;
tdm_status tdm_alike_begin(tdm_forecasting *state) TDM_WARN_UNUSED;
/* Adds the shared part of a step, after each simulated rank has a task for it. */
tdm_status tdm_alike_share(tdm_forecasting *state, size_t step) TDM_WARN_UNUSED;
/* Returns how long all ranks take, between the phases, to agree that none has failed. */
double tdm_alike_vote_ns(const tdm_forecasting *state);

/* A job (job_ranks.c), in this order: finds the steps of all ranks; exchanges their times, on all
 * ranks or on none; adds the links of a message that begins here, and the task's latency. After all
 * ranks' main phases were added: adds their waits for other ranks, and the time of agreeing between
 * the phases. All ranks call the first two. */
tdm_status tdm_job_find(tdm_forecasting *state) TDM_WARN_UNUSED;
tdm_status tdm_job_tell_prices(tdm_forecasting *state, tdm_status priced) TDM_WARN_UNUSED;
tdm_status tdm_job_send(tdm_forecasting *state, const tdm_ir_node *node, double ns,
                        tdm_virtual_task *task) TDM_WARN_UNUSED;
tdm_status tdm_job_join(tdm_forecasting *state) TDM_WARN_UNUSED;
/* Adds the waits of all-reduces, also of devices of one rank. */
tdm_status tdm_job_join_sums(tdm_forecasting *state) TDM_WARN_UNUSED;
double tdm_job_vote_ns(const tdm_forecasting *state);
/* Returns the first of the ranks on the same host as that one. */
uint32_t tdm_job_host(const tdm_forecasting *state, uint32_t rank);

/* Returns the node of a rank's step. */
static inline const tdm_ir_node *tdm_forecast_node(const tdm_forecasting *state, uint32_t rank,
                                                   size_t step) {
  return tdm_ir_node_at(&state->plan->graph, state->ranks[rank].lowered->sources[step].node);
}

/* Called in this order (forecast_tasks.c): compute the times of the steps of state->rank; add the
 * main phase; add its end, and the update phase. */
tdm_status tdm_forecast_price(tdm_forecasting *state) TDM_WARN_UNUSED;
tdm_status tdm_forecast_add_main(tdm_forecasting *state) TDM_WARN_UNUSED;
tdm_status tdm_forecast_add_update(tdm_forecasting *state) TDM_WARN_UNUSED;

#endif
