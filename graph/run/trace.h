/* A session's record of its latest runs: when each command was executed. Invariant: a recorded
 * run's plan outlives it (kept_runs), and records change only under `mutex`, which is taken at a
 * run's end to exchange two pointers. */
#ifndef TANDEM_GRAPH_RUN_TRACE_H
#define TANDEM_GRAPH_RUN_TRACE_H

#include "graph/report/timeline.h"
#include "graph/run/run.h"

typedef struct tdm_trace tdm_trace;

/* Creates a trace that keeps the latest `runs`. */
tdm_status tdm_trace_create(const tdm_allocator *allocator, size_t runs,
                            tdm_trace **out_trace) TDM_WARN_UNUSED;
/* Destroy it before the plans of the recorded runs. NULL is legal. */
void tdm_trace_destroy(tdm_trace *trace);

/* Reserves the record of a later run, so that recording cannot fail. trace may be NULL, here and
 * below: nothing is kept, and *out_record is NULL. */
tdm_status tdm_trace_reserve(tdm_trace *trace, size_t command_count,
                             struct tdm_kept_run **out_record) TDM_WARN_UNUSED;
/* Releases the record of a run that did not take place. */
void tdm_trace_drop(tdm_trace *trace, struct tdm_kept_run *record);
/* Numbers a run that is admitted. */
void tdm_trace_admit(tdm_trace *trace, tdm_run_moments *moments);
/* Copies the times of a run that has ended to its record, and keeps that instead of the oldest
 * one. */
void tdm_trace_keep(tdm_trace *trace, tdm_run_state *run);

/* Returns true if a recorded run has ended. */
bool tdm_trace_has_runs(tdm_trace *trace);
/* Builds the sorted timeline (timeline.h) of the recorded runs; the caller deinits it, also after a
 * failure. */
tdm_status tdm_trace_collect(tdm_trace *trace, tdm_timeline *out_timeline) TDM_WARN_UNUSED;

#endif
