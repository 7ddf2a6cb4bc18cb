/* What a session keeps of its latest runs: when each command was executed. Invariant: a kept run's
 * plan outlives it (kept_runs), and records change only under `mutex`, which whoever ends a run
 * takes to exchange two pointers. */
#ifndef TANDEM_GRAPH_RUN_TRACE_H
#define TANDEM_GRAPH_RUN_TRACE_H

#include "graph/report/timeline.h"
#include "graph/run/run.h"

typedef struct tdm_trace tdm_trace;

/* Keeps the latest `runs`. */
tdm_status tdm_trace_create(const tdm_allocator *allocator, size_t runs,
                            tdm_trace **out_trace) TDM_WARN_UNUSED;
/* Before the plans of the runs it keeps. NULL is legal. */
void tdm_trace_destroy(tdm_trace *trace);

/* Room for the record of a run that is to come, which it is then sure to have. trace may be NULL,
 * here and below: nothing is kept, and *out_record is NULL. */
tdm_status tdm_trace_reserve(tdm_trace *trace, size_t command_count,
                             struct tdm_kept_run **out_record) TDM_WARN_UNUSED;
/* Of a run that came to nothing. */
void tdm_trace_drop(tdm_trace *trace, struct tdm_kept_run *record);
/* Numbers a run that is admitted. */
void tdm_trace_admit(tdm_trace *trace, tdm_run_moments *moments);
/* Copies what a run that has ended recorded into its record, and keeps that; the oldest goes. */
void tdm_trace_keep(tdm_trace *trace, tdm_run_state *run);

/* Has a run ended that is kept? */
bool tdm_trace_has_runs(tdm_trace *trace);
/* The timeline of what is kept, sorted (timeline.h); the caller deinits it, also after a failure.
 */
tdm_status tdm_trace_collect(tdm_trace *trace, tdm_timeline *out_timeline) TDM_WARN_UNUSED;

#endif
