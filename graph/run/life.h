/* A run's life from its slot to its end: stages, and the transitions between them. Runs that train
 * may be in flight together, one after the other, as a chain. A single run is a chain of one, with
 * no run ahead.
 *
 *   stage      continues when                            by                             to
 *   ADMITTED   its memory is bound, or cannot be                                         BOUND
 *   BOUND      no run is ahead, or the one ahead is      submitting the early programs  UPLOADING
 *              UPLOADING or further
 *              it has failed, or was stopped                                             LEFT
 *   UPLOADING  no run is ahead, or a run of the same     submitting the rest of the     COMPUTING
 *              plan that is UPDATING                     main phase
 *              it was stopped, or is refused                                             DROPPED
 *   DROPPED    what was submitted has ended                                              LEFT
 *   COMPUTING  what was submitted has ended                                              COMPUTED
 *   COMPUTED   no run is ahead, all has succeeded and    closing the flight, and        UPDATING
 *              there is an update phase                  submitting the update phase
 *   UPDATING   what was submitted has ended                                              UPDATED
 *
 * It ends in LEFT and UPDATED. It ends in COMPUTED, after no run is ahead, if it does not continue.
 * Events are: bound, ended (the flight has settled), stopped, and every transition of the run
 * ahead.
 *
 * Invariants: on every queue, a run's commands after its early ones, and its updates, precede those
 * of the next run. A run enters its update phase only when the run ahead has left the store, so
 * parameters change in order. Stages of runs in a chain change, and their programs are submitted,
 * only under the store's lock, which gives submissions the order of the chain. Those of a chain of
 * one belong to its run and need no lock.
 *
 *   ahead   early | late ............ | update ..... |
 *   behind          early             |          late ............ | update |
 *   third           early                                          |     late ............ |
 *
 * The early programs only upload the run's inputs, into its own memory. They follow the early ones
 * of the run ahead, so that a third run's do not wait for uploads of the second in between. The
 * late ones follow the update phase of the run ahead: they wait for its commands by the plan's
 * waits for the preceding run. After a run of another plan, whose commands these waits cannot name,
 * they follow its end. */
#ifndef TANDEM_GRAPH_RUN_LIFE_H
#define TANDEM_GRAPH_RUN_LIFE_H

#include "graph/run/run.h"

/* Begins an admitted run: binds its memory and submits what is possible. adopt: the calling thread
 * may execute part of it. The run ends by itself, at once after a failure, and may be freed. */
void tdm_run_launch(tdm_run_state *run, bool adopt);
/* The function of run->flight, called when everything that was submitted has ended. */
void tdm_run_settled(tdm_flight *flight);
/* Advances all runs in the store that can continue, after one was stopped. */
void tdm_runs_go_on(tdm_store *store);

#endif
