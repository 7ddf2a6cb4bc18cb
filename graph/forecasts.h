/* Public part of graph/: forecasts of how long a run takes, on this machine's devices or on those
 * of a machine that is only described. A forecast executes nothing: it simulates the plan in
 * virtual time. docs/forecast.md explains it. */
#ifndef TANDEM_GRAPH_FORECASTS_H
#define TANDEM_GRAPH_FORECASTS_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Measured times of kernels, by class of device ("cpu/1": kind and number of threads), operation,
 * attributes and operands. One thread at a time may use it. */
typedef struct tdm_costs tdm_costs;

/* Creates an empty set of times. */
TDM_API tdm_costs *tdm_costs_create(tdm_context *context);

/* Releases the times. */
TDM_API void tdm_costs_release(tdm_costs *costs);

/* Adds the times of the kernels in the session's latest plan: the medians of its latest runs. Times
 * that exist already are replaced.
 * @param session must have `profile` set, and must have run.
 * @param crowded true: all devices that share the memory were computing at the same time. false: no
 *     other device was. */
TDM_API tdm_status tdm_costs_learn(tdm_costs *costs, tdm_session *session,
                                   bool crowded) TDM_WARN_UNUSED;

/* Adds the times of a file: all of them, or none on failure. UNAVAILABLE if there is no such file;
 * IO if it cannot be read or is not a regular file; CORRUPT_DATA if it contains no times. Messages
 * name the file. */
TDM_API tdm_status tdm_costs_load(tdm_costs *costs, const char *path) TDM_WARN_UNUSED;

/* Writes the times to a file, as tdm_safetensors_save does: path has either the old or the complete
 * new contents. */
TDM_API tdm_status tdm_costs_save(const tdm_costs *costs, const char *path) TDM_WARN_UNUSED;

/* Options of tdm_session_forecast. */
typedef struct tdm_forecast_options {
  size_t struct_size;
  const tdm_costs *costs; /* Measured times of kernels. Default NULL: none. */
  /* For a plan of identical ranks (tdm_session_options.alike_ranks). true: simulate every rank with
   * all of its links, for comparison. false: simulate those of one host (or one rank, if it has
   * several hosts), which represent all others. The result is the same. Default false. */
  bool each_rank;
} tdm_forecast_options;
static inline tdm_forecast_options tdm_forecast_options_default(void) {
  tdm_forecast_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_forecast_options);
  return options;
}

/* Forecast for one queue of a device. */
typedef struct tdm_forecast_queue {
  char name[40];      /* "paper:3 compute". */
  double busy_ns;     /* Nanoseconds of a step in which it is busy. */
  double critical_ns; /* Its share of the step's critical path, in nanoseconds. */
} tdm_forecast_queue;

/* Forecast for one link. */
typedef struct tdm_forecast_link {
  char name[56];      /* "paper:3 to its peers" or "cpu:0 -> cpu:1". */
  double bytes;       /* Bytes copied in a step. */
  double busy_ns;     /* Nanoseconds of a step in which it is busy. */
  double critical_ns; /* Its share of the step's critical path, in nanoseconds. */
  uint32_t copies;    /* Number of copies in a step. */
} tdm_forecast_link;

/* Forecast of one run. tdm_forecast_release releases it with everything that it points to. */
typedef struct tdm_forecast {
  /* Nanoseconds from the submission of a run to its end, following an identical run. */
  double step_ns;
  tdm_forecast_queue *queues; /* (queue_count): queues with work. */
  size_t queue_count;         /* Number of queues. */
  tdm_forecast_link *links;   /* (link_count): links with traffic. */
  size_t link_count;          /* Number of links. */
  uint32_t measured_kernels;  /* Number of kernels whose time was measured. */
  /* Number of kernels whose time follows from a description of the machine. */
  uint32_t modelled_kernels;
  double room_bytes;        /* Memory of a described device; 0: unknown. */
  uint32_t ranks;           /* Number of ranks, identical or those of a job; 1: the plan only. */
  uint32_t simulated_ranks; /* Number of ranks whose queues and links are listed. */
} tdm_forecast;

/* Forecasts a run of the session's latest plan (tdm_session_prepare makes one) on this machine's
 * devices, or on those that tdm_context_options.machine describes. Copies take the time that their
 * links state, calibrated or not.
 * @code
 * tdm_forecast *forecast;
 * if (tdm_session_forecast(session, NULL, &forecast) == TDM_OK)
 *   printf("%.3f ms\n", forecast->step_ns / 1e6);
 * tdm_forecast_release(forecast);
 * @endcode
 *
 * UNSUPPORTED if the time of a kernel is neither in costs nor follows from a description; the
 * message names the kernel. For a plan of identical ranks the forecast is a step of all of them,
 * and INVALID_ARGUMENT if they do not fit the described machine. In a job of several ranks all of
 * them call it, for the same plan and with costs of their own, and receive the same forecast or the
 * same failure.
 * @param options NULL: all defaults.
 * @param out_forecast receives the forecast; the caller releases it. */
TDM_API tdm_status tdm_session_forecast(tdm_session *session, const tdm_forecast_options *options,
                                        tdm_forecast **out_forecast) TDM_WARN_UNUSED;

/* Releases a forecast. */
TDM_API void tdm_forecast_release(tdm_forecast *forecast);

#ifdef __cplusplus
}
#endif
#endif
