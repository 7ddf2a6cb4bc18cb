/* State between consecutive runs. Invariant: only the run or call that has claimed a sequence
 * accesses its values. */
#ifndef TANDEM_GRAPH_RUN_SEQUENCE_H
#define TANDEM_GRAPH_RUN_SEQUENCE_H

#include "graph/run/run.h"

tdm_session *tdm_sequence_session(const tdm_sequence *sequence); /* borrowed */
/* Claims it. Fails with INVALID_ARGUMENT if it is already claimed or, for a run, if it is
 * broken. */
tdm_status tdm_sequence_claim(tdm_sequence *sequence, bool for_run) TDM_WARN_UNUSED;
/* Releases it. */
void tdm_sequence_unclaim(tdm_sequence *sequence);
/* Returns the k-th kept value of its graph, as an input of runs. The caller has claimed it. */
const tdm_feed *tdm_sequence_feed(const tdm_sequence *sequence, size_t k);
/* Releases the sequence at the end of a run: other runs may follow. */
void tdm_run_leave_sequence(tdm_run_state *run);

#endif
