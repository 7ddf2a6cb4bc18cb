/* Training runs in flight together, one behind the other. Invariants: on every queue the late
 * commands and the updates of a run stand before those of the run behind it; a run enters its
 * update phase only when the run ahead has left the store, so parameters change in their order.
 *
 *   ahead   early | late ............ | update ..... |
 *   behind          early             |          late ............ | update |
 *   third           early                                          |     late ............ |
 *
 * The early programs only upload what the run is fed, into memory of its own: they follow the early
 * ones of the run ahead, so that a third run's do not stand behind what the second has to bring up
 * in between. The late ones follow the update phase of the run ahead, whose commands they wait for
 * by the plan's waits on the run before; behind a run of another plan, whose commands these waits
 * cannot name, they follow its end. */
#ifndef TANDEM_GRAPH_RUN_CHAIN_H
#define TANDEM_GRAPH_RUN_CHAIN_H

#include "graph/run/run.h"

/* Enters a run whose memory is bound (or that failed to: run->status) and submits what may be. */
void tdm_chain_launch(tdm_run_state *run);
/* All that was submitted of the run's stage has ended. */
void tdm_chain_settled(tdm_run_state *run);
/* Lets everybody in the store go on who can: somebody was stopped. */
void tdm_chain_advance(tdm_store *store);

#endif
