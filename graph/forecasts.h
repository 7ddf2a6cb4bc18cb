/* Public part of graph/, like graph.h: what a run would take on this machine's devices or on those
 * of a machine that is described, found in virtual time. docs/forecast.md tells more. */
#ifndef TANDEM_GRAPH_FORECASTS_H
#define TANDEM_GRAPH_FORECASTS_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kernel times that were measured, by device class ("cpu/1": kind and team), operation, attributes
 * and operands. One thread at a time. docs/forecast.md tells what they are for. */
typedef struct tdm_costs tdm_costs;
TDM_API tdm_costs *tdm_costs_create(tdm_context *context); /* NULL on failure */
TDM_API void tdm_costs_release(tdm_costs *costs);          /* NULL is legal */
/* Takes the kernels' times of the session's latest plan: medians of its latest runs. The session
 * profiles, and has run. crowded: all that shares the memory computed at the same time; else
 * nothing did. What is there already is replaced. */
TDM_API tdm_status tdm_costs_learn(tdm_costs *costs, tdm_session *session,
                                   bool crowded) TDM_WARN_UNUSED;
/* Adds what a file has; all of it, or nothing on failure. UNAVAILABLE: there is no such file; IO:
 * it cannot be read, or is no regular file; CORRUPT_DATA: it holds no costs. Messages name it. */
TDM_API tdm_status tdm_costs_load(tdm_costs *costs, const char *path) TDM_WARN_UNUSED;
/* Writes the file as tdm_safetensors_save does: whole, or path stays untouched. */
TDM_API tdm_status tdm_costs_save(const tdm_costs *costs, const char *path) TDM_WARN_UNUSED;

typedef struct tdm_forecast_options {
  size_t struct_size;
  const tdm_costs *costs; /* NULL: none were measured */
  /* Of a plan that is one of alike ranks' (tdm_session_options.alike_ranks): how these sum their
   * gradients, by TDM_COLLECTIVE_RING, TREE or ALL_REDUCE; AUTO: as is quickest of the three. */
  tdm_collective ranks_sum;
  /* The same: every rank is simulated with all of its links, to compare; false: those of one host
   * (or of one rank, where it has several hosts) stand for all, which gives the same. */
  bool each_rank;
} tdm_forecast_options;
static inline tdm_forecast_options tdm_forecast_options_default(void) {
  tdm_forecast_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_forecast_options);
  options.ranks_sum = TDM_COLLECTIVE_AUTO;
  return options;
}

typedef struct tdm_forecast_queue {
  char name[40]; /* "paper:3 compute" */
  double busy_ns;
  double critical_ns; /* what of the step's longest chain is spent on it */
} tdm_forecast_queue;

typedef struct tdm_forecast_link {
  char name[56]; /* "paper:3 to its peers", "cpu:0 -> cpu:1" */
  double bytes;  /* in a step */
  double busy_ns;
  double critical_ns; /* what of the step's longest chain is spent on it */
  uint32_t copies;    /* in a step */
} tdm_forecast_link;

typedef struct tdm_forecast {
  double step_ns;             /* from submitting a run to its end, behind one like it */
  tdm_forecast_queue *queues; /* (queue_count), those with work */
  size_t queue_count;
  tdm_forecast_link *links; /* (link_count), those with traffic */
  size_t link_count;
  uint32_t measured_kernels; /* whose time was measured */
  uint32_t modelled_kernels; /* whose time follows from a machine's description */
  double room_bytes;         /* of a described device's memory; 0: nothing tells */
  uint32_t ranks;            /* alike, or a job's, that it is about; 1: the plan alone */
  uint32_t simulated_ranks;  /* whose queues and links are listed */
  tdm_collective ranks_sum;  /* how they sum gradients; AUTO where there is one rank */
} tdm_forecast;

/* What a run of the session's latest plan (tdm_session_prepare makes one) would take, found in
 * virtual time, executing nothing: on this machine's devices and on those described by
 * tdm_context_options.machine. Copies take what links tell, calibrated or not. options may be NULL.
 * UNSUPPORTED names a kernel whose time is neither in costs nor follows from a description. Of a
 * plan that is one of alike ranks', a step of them all: INVALID_ARGUMENT unless they fit the
 * machine as it is described. In a job of several ranks all of them call it, for the same plan,
 * with costs of their own steps, and get the same answer, or the same failure. The caller releases
 * *out_forecast. */
TDM_API tdm_status tdm_session_forecast(tdm_session *session, const tdm_forecast_options *options,
                                        tdm_forecast **out_forecast) TDM_WARN_UNUSED;
TDM_API void tdm_forecast_release(tdm_forecast *forecast); /* NULL is legal */

#ifdef __cplusplus
}
#endif
#endif
