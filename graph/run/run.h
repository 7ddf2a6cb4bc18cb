/* One run of a plan, from binding to its outputs. Invariant: between admission and leaving the
 * store, the run holds its slot, and only the run accesses its memory. */
#ifndef TANDEM_GRAPH_RUN_RUN_H
#define TANDEM_GRAPH_RUN_RUN_H

#include "core/loop.h"
#include "graph/run/session.h"

/* Times of a run, in tdm_time_ns. */
typedef struct tdm_run_moments {
  uint64_t number; /* position in the order of admissions in the session, from 1 */
  uint64_t asked_ns;
  uint64_t launched_ns; /* time at which the run got its slot */
  uint64_t updating_ns; /* time at which the separate update phase was submitted; 0: there is
                         * none */
  uint64_t ended_ns;
} tdm_run_moments;

/* The stage of a run; life.h defines the transitions. */
typedef enum tdm_run_stage {
  TDM_STAGE_ADMITTED, /* has a slot; its memory is being bound */
  TDM_STAGE_BOUND,
  TDM_STAGE_UPLOADING, /* the early programs are submitted */
  TDM_STAGE_DROPPED,   /* the early programs are submitted, and no others will be */
  TDM_STAGE_LEFT,      /* ended without a main phase */
  TDM_STAGE_COMPUTING, /* the whole main phase is submitted */
  TDM_STAGE_COMPUTED,  /* the main phase has ended */
  TDM_STAGE_UPDATING,  /* the update phase is submitted */
  TDM_STAGE_UPDATED,   /* the update phase has ended */
} tdm_run_stage;

/* An input of the plan's graph in this run. */
typedef struct tdm_run_input {
  tdm_tensor *tensor; /* retained while the run is asynchronous */
  bool handed_over;
} tdm_run_input;

typedef struct tdm_run_state {
  tdm_admission admission; /* must be the first field */
  tdm_loop_task task;
  tdm_timer deadline;
  uint64_t due_ns;            /* time of the deadline; 0: none */
  uint64_t id;                /* id of a submitted run */
  struct tdm_run_state *next; /* next in the plan's list of idle runs */
  tdm_session *session;       /* retained while asynchronous */
  tdm_plan *plan;
  struct tdm_sequence *sequence; /* its sequence, until it has ended; NULL: none */
  int slot;
  tdm_run_stage stage;
  uint64_t *previous; /* (program_count): previous_bases of the flight, if another run precedes
                       * it */
  bool asynchronous;
  uint32_t bell; /* bell of a blocking caller */
  _Atomic uint32_t granted;
  _Atomic uint32_t done;
  tdm_status status; /* status of the run, valid when done */
  char message[TDM_MESSAGE_BYTES];
  uint64_t began_ns;           /* time at which the run was launched, if the plan is tuned */
  uint64_t took_ns;            /* time in ns from began_ns until the run had settled */
  tdm_run_moments moments;     /* times of the run, if the plan records them */
  struct tdm_kept_run *record; /* record in the session's timeline until the run has ended; NULL:
                                * none */
  tdm_flight flight;
  tdm_submission *submissions; /* per program */
  tdm_run_scalars *scalars;    /* per group of parameters with the same update rule; at least one */
  size_t scalar_count;
  uint8_t *conditions;   /* per condition of the plan */
  tdm_run_input *inputs; /* per input of the plan's graph */
  tdm_tensor **outputs;  /* per delivery */
  tdm_run_callback callback;
  void *user;
  tdm_fetch *fetches; /* fetches of an asynchronous run: names are the graph's */
} tdm_run_state;

/* Fails with INVALID_ARGUMENT, naming function, if the session or a list with a count is NULL. */
tdm_status tdm_run_check_request(const tdm_session *session, const tdm_run_request *request,
                                 const char *function) TDM_WARN_UNUSED;

/* Opens the run of a request: finds or creates its plan, and an idle or new run of it, and resolves
 * its inputs. On failure *out_run is NULL. */
tdm_status tdm_run_open(tdm_session *session, const tdm_run_request *request,
                        tdm_run_state **out_run) TDM_WARN_UNUSED;
/* Gives up the job, with status and the thread's message, because of a run that cannot be planned
 * or submitted or lacks memory on this rank. Other ranks may have begun the run, and would receive
 * the next one's messages instead. If the caller's request was invalid, the other ranks' may have
 * been too: they are notified, and the job ends only if theirs were valid. A refusal until there is
 * room does not concern other ranks. */
void tdm_run_give_up(const tdm_session *session, tdm_status status);
/* Abandons the number of micro-batches of a run if the number is being chosen and the run's failure
 * depends on it. Returns true if the run may be repeated at once with another number. */
bool tdm_run_note_parts(const tdm_run_state *run);
/* Gives a run back to its plan after releasing its inputs and outputs. */
void tdm_run_close(tdm_run_state *run);
/* Sets the number of the run's training step. */
static inline void tdm_run_set_step(tdm_run_state *run, uint64_t step) {
  for (size_t g = 0; g < run->scalar_count; g++)
    run->scalars[g].step = step;
}
/* Frees a plan's idle runs. */
void tdm_runs_destroy(tdm_session *session, tdm_plan *plan);

/* Handles memory that should have been pinned: an error if that was promised, otherwise the plan
 * logs it. */
tdm_status tdm_run_check_pinned(const tdm_run_state *run, const tdm_memory *memory) TDM_WARN_UNUSED;
/* Sets the addresses of the run's operands; it has its slot. */
tdm_status tdm_run_bind(tdm_run_state *run) TDM_WARN_UNUSED;
/* Binds where the rows of updates are read and logged, which rotates with the tables' versions.
 * follows: see tdm_plan_find_old. */
void tdm_run_bind_logs(tdm_run_state *run, bool follows);
/* Sets the functions of run->admission. */
void tdm_run_init_admission(tdm_run_state *run);
/* Called when the run has ended and left the store (submit.c). It is the last access to the run. */
void tdm_run_complete(tdm_run_state *run);
/* Copies the flight's failure, unless it was only stopped. */
void tdm_run_note_failure(tdm_run_state *run);
/* Records the reason for which the flight was stopped. */
void tdm_run_note_stop(tdm_run_state *run, tdm_status status);
/* Requests admission, unless the run was already stopped. Returns true if it was admitted and the
 * caller has to launch it; false if it may have been freed. */
bool tdm_run_enter(tdm_run_state *run);
bool tdm_run_is_late(const tdm_run_state *run);
/* Returns true if other ranks wait for messages of the run, or for its vote. */
bool tdm_run_is_awaited(const tdm_run_state *run);
/* Stops the run when due_ns has passed, unless it has been delivered. */
void tdm_run_watch_deadline(tdm_run_state *run);
/* Passes the values at the observed places of a successful run to the session's observer. */
void tdm_run_show(const tdm_run_state *run);
/* Returns the loss of a successful training run. */
double tdm_run_loss(const tdm_run_state *run);

#endif
