/* One run of a plan, from binding to its outputs. Invariant: between admission and leaving the
 * store, the run holds its slot and nobody else touches its memory. */
#ifndef TANDEM_GRAPH_RUN_RUN_H
#define TANDEM_GRAPH_RUN_RUN_H

#include "core/loop.h"
#include "graph/run/session.h"

/* When a run came where, by tdm_time_ns. */
typedef struct tdm_run_moments {
  uint64_t number; /* in the order in which the session's runs were admitted, from 1 */
  uint64_t asked_ns;
  uint64_t launched_ns; /* it had its slot */
  uint64_t updating_ns; /* its update phase was submitted apart; 0: it was not */
  uint64_t ended_ns;
} tdm_run_moments;

/* How far a chained run is (chain.h). */
typedef enum tdm_run_stage {
  TDM_STAGE_ADMITTED, /* its memory is being bound */
  TDM_STAGE_BOUND,
  TDM_STAGE_EARLY,   /* the early programs are submitted */
  TDM_STAGE_DROPPED, /* and it ends with them */
  TDM_STAGE_LATE,    /* the whole main phase is */
  TDM_STAGE_UPDATING,
} tdm_run_stage;

typedef struct tdm_run_state {
  tdm_admission admission; /* first */
  tdm_loop_task task;
  tdm_timer deadline;
  uint64_t due_ns;            /* of the deadline; 0: none */
  uint64_t id;                /* of a submitted run */
  struct tdm_run_state *next; /* among the plan's idle ones */
  tdm_session *session;       /* retained while asynchronous */
  tdm_plan *plan;
  int slot;
  bool updating; /* the update phase was submitted; of a run that is not chained */
  bool settled;  /* the stage's submissions have ended; under the store's lock, as stage */
  tdm_run_stage stage;
  uint64_t *previous; /* of a chained run: the flight's previous_bases (program_count) */
  bool asynchronous;
  uint32_t bell; /* of a blocking caller */
  _Atomic uint32_t granted;
  _Atomic uint32_t done;
  tdm_status status; /* of the run, once done */
  char message[TDM_MESSAGE_BYTES];
  uint64_t began_ns;           /* it was launched; where the plan is tuned */
  uint64_t took_ns;            /* from then until it had settled */
  tdm_run_moments moments;     /* where the plan records */
  struct tdm_kept_run *record; /* where the session keeps a timeline, until the run has ended */
  tdm_flight flight;
  tdm_submission *submissions; /* per program */
  tdm_run_scalars *scalars;    /* per group of parameters that are updated alike; one at least */
  size_t scalar_count;
  uint8_t *conditions;  /* per condition of the plan */
  tdm_tensor **inputs;  /* per input of the plan's graph; retained while asynchronous */
  tdm_tensor **outputs; /* per delivery */
  tdm_run_callback callback;
  void *user;
  tdm_fetch *fetches; /* of an asynchronous run: names are the graph's */
} tdm_run_state;

/* INVALID_ARGUMENT, naming function, where the session or a list with a count is NULL. */
tdm_status tdm_run_check_request(const tdm_session *session, const tdm_run_request *request,
                                 const char *function) TDM_WARN_UNUSED;

/* An idle run of plan, or a fresh one; NULL when memory is short. */
tdm_run_state *tdm_run_take(tdm_session *session, tdm_plan *plan);
/* Gives a run back to its plan, outputs released. */
void tdm_run_give_back(tdm_session *session, tdm_run_state *run);
/* Which step of training the run is. */
static inline void tdm_run_set_step(tdm_run_state *run, uint64_t step) {
  for (size_t g = 0; g < run->scalar_count; g++)
    run->scalars[g].step = step;
}
/* Frees a plan's idle runs. */
void tdm_runs_destroy(tdm_session *session, tdm_plan *plan);

/* Finds the tensors fed for the plan's inputs. Checks are those of the plan's key. */
void tdm_run_set_inputs(tdm_run_state *run, const tdm_run_request *request);
/* Binds memory and submits the main phase; the run is admitted. adopt: may run part of it on the
 * calling thread. The run ends by itself either way: failures end it at once. */
void tdm_run_launch(tdm_run_state *run, bool adopt);
/* Binds where the rows of updates are read and logged, which goes round with the tables' versions.
 * follows: see tdm_plan_find_old. */
void tdm_run_bind_logs(tdm_run_state *run, bool follows);
/* The functions of run->admission. */
void tdm_run_init_admission(tdm_run_state *run);
/* Called when the run has ended and left the store (submit.c). Last touch of the run. */
void tdm_run_complete(tdm_run_state *run);
/* Takes over what the flight reports, unless it was only stopped. */
void tdm_run_note_failure(tdm_run_state *run);
/* Of the reason that the flight was stopped for. */
void tdm_run_note_stop(tdm_run_state *run, tdm_status status);
/* Asks for admission, unless the run was stopped already. True: it was admitted, and is the
 * caller's to launch. False: it may be gone. */
bool tdm_run_enter(tdm_run_state *run);
bool tdm_run_is_late(const tdm_run_state *run);
/* Stops the run once due_ns has passed, unless it has been delivered. */
void tdm_run_watch_deadline(tdm_run_state *run);
/* Shows the session's observer what a run that succeeded had at the observed places. */
void tdm_run_show(const tdm_run_state *run);
/* The loss of a training run that succeeded. */
double tdm_run_loss(const tdm_run_state *run);

#endif
