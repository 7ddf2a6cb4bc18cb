/* What a stream of runs keeps. Invariant: whoever has claimed a sequence, a run or a call, alone
 * touches its values. */
#ifndef TANDEM_GRAPH_RUN_SEQUENCE_H
#define TANDEM_GRAPH_RUN_SEQUENCE_H

#include "graph/run/run.h"

tdm_session *tdm_sequence_session(const tdm_sequence *sequence); /* borrowed */
/* INVALID_ARGUMENT while somebody else has it, or, for a run, where it is broken. */
tdm_status tdm_sequence_claim(tdm_sequence *sequence, bool for_run) TDM_WARN_UNUSED;
/* Gives it back. */
void tdm_sequence_unclaim(tdm_sequence *sequence);
/* The k-th kept value of its graph, as what runs are fed; who has claimed it. */
const tdm_feed *tdm_sequence_feed(const tdm_sequence *sequence, size_t k);
/* The run has ended: others of its sequence may follow. */
void tdm_run_leave_sequence(tdm_run_state *run);

#endif
