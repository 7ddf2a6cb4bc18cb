/* A run's life from its slot to its end: stages, and what takes a run from one to the next. Runs
 * that train may be in flight together, one behind the other; a run alone is a chain of one, with
 * nobody ahead.
 *
 *   stage      goes on when                               by                             to
 *   ADMITTED   its memory is bound, or cannot be                                         BOUND
 *   BOUND      nobody is ahead, or who is ahead is        submitting the early programs  UPLOADING
 *              UPLOADING or further
 *              it has failed, or was stopped                                             LEFT
 *   UPLOADING  nobody is ahead, or a run of the same      submitting the rest of the     COMPUTING
 *              plan that is UPDATING                      main phase
 *              it was stopped, or is refused                                             DROPPED
 *   DROPPED    what was submitted has ended                                              LEFT
 *   COMPUTING  what was submitted has ended                                              COMPUTED
 *   COMPUTED   nobody is ahead, all has succeeded and     closing the flight, and        UPDATING
 *              there is an update phase                   submitting the update phase
 *   UPDATING   what was submitted has ended                                              UPDATED
 *
 * It ends in LEFT and UPDATED, and in COMPUTED once nobody is ahead where it does not go on. Events
 * are: bound, ended (the flight has settled), stopped, and whatever moves the run ahead.
 *
 * Invariants: on every queue the commands of a run behind its early ones, and its updates, stand
 * before those of the run behind it; a run enters its update phase only when the run ahead has left
 * the store, so parameters change in their order. Stages of runs that may have company change, and
 * their programs are submitted, under the store's lock only, which makes the order of submission
 * that of the chain; those of a run alone are its own, and need no lock.
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
#ifndef TANDEM_GRAPH_RUN_LIFE_H
#define TANDEM_GRAPH_RUN_LIFE_H

#include "graph/run/run.h"

/* The run is admitted: binds its memory and submits what may be. adopt: may run part of it on the
 * calling thread. The run ends by itself, at once where something fails, and may be gone. */
void tdm_run_launch(tdm_run_state *run, bool adopt);
/* The function of run->flight: all that was submitted has ended. */
void tdm_run_settled(tdm_flight *flight);
/* Lets everybody in the store go on who can: somebody was stopped. */
void tdm_runs_go_on(tdm_store *store);

#endif
