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

/* How far a run is; life.h says what takes it on. */
typedef enum tdm_run_stage {
  TDM_STAGE_ADMITTED, /* it has a slot; its memory is being bound */
  TDM_STAGE_BOUND,
  TDM_STAGE_UPLOADING, /* the early programs are submitted */
  TDM_STAGE_DROPPED,   /* and no others will be */
  TDM_STAGE_LEFT,      /* it has ended without a main phase */
  TDM_STAGE_COMPUTING, /* the whole main phase is submitted */
  TDM_STAGE_COMPUTED,  /* and has ended */
  TDM_STAGE_UPDATING,  /* the update phase is submitted */
  TDM_STAGE_UPDATED,   /* and has ended */
} tdm_run_stage;

/* What an input of the plan's graph is in this run. */
typedef struct tdm_run_input {
  tdm_tensor *tensor; /* retained while the run is asynchronous */
  bool handed_over;
} tdm_run_input;

typedef struct tdm_run_state {
  tdm_admission admission; /* first */
  tdm_loop_task task;
  tdm_timer deadline;
  uint64_t due_ns;            /* of the deadline; 0: none */
  uint64_t id;                /* of a submitted run */
  struct tdm_run_state *next; /* among the plan's idle ones */
  tdm_session *session;       /* retained while asynchronous */
  tdm_plan *plan;
  struct tdm_sequence *sequence; /* whose run it is, until it has ended; NULL: none's */
  int slot;
  tdm_run_stage stage;
  uint64_t *previous; /* behind another run: the flight's previous_bases (program_count) */
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
  uint8_t *conditions;   /* per condition of the plan */
  tdm_run_input *inputs; /* per input of the plan's graph */
  tdm_tensor **outputs;  /* per delivery */
  tdm_run_callback callback;
  void *user;
  tdm_fetch *fetches; /* of an asynchronous run: names are the graph's */
} tdm_run_state;

/* INVALID_ARGUMENT, naming function, where the session or a list with a count is NULL. */
tdm_status tdm_run_check_request(const tdm_session *session, const tdm_run_request *request,
                                 const char *function) TDM_WARN_UNUSED;

/* The run that a request asks for: finds or makes its plan, and a run of it, idle or fresh, and
 * resolves what is fed. On failure *out_run is NULL. */
tdm_status tdm_run_open(tdm_session *session, const tdm_run_request *request,
                        tdm_run_state **out_run) TDM_WARN_UNUSED;
/* With status and the thread's message: a run that there is no memory for on this rank, or that
 * cannot be planned or submitted, other ranks may have begun, and would meet the next one's
 * messages instead. The job is over. What the caller asked for in a wrong way, others may have been
 * asked for, too: they hear of it, and the job is over only where they were not. What is refused
 * until there is room is nobody's business. */
void tdm_run_give_up(const tdm_session *session, tdm_status status);
/* Gives up the number of micro-batches of a run if the number is being chosen and the run's failure
 * depends on it. Returns true if the run may be repeated at once with another number. */
bool tdm_run_note_parts(const tdm_run_state *run);
/* Gives a run back to its plan, inputs and outputs released. */
void tdm_run_close(tdm_run_state *run);
/* Which step of training the run is. */
static inline void tdm_run_set_step(tdm_run_state *run, uint64_t step) {
  for (size_t g = 0; g < run->scalar_count; g++)
    run->scalars[g].step = step;
}
/* Frees a plan's idle runs. */
void tdm_runs_destroy(tdm_session *session, tdm_plan *plan);

/* Memory that should have been pinned: an error where that was promised, else told by the plan. */
tdm_status tdm_run_check_pinned(const tdm_run_state *run, const tdm_memory *memory) TDM_WARN_UNUSED;
/* Gives the run's operands their addresses; it has its slot. */
tdm_status tdm_run_bind(tdm_run_state *run) TDM_WARN_UNUSED;
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
/* Do other ranks wait for messages of the run, or for its vote? */
bool tdm_run_is_awaited(const tdm_run_state *run);
/* Stops the run once due_ns has passed, unless it has been delivered. */
void tdm_run_watch_deadline(tdm_run_state *run);
/* Shows the session's observer what a run that succeeded had at the observed places. */
void tdm_run_show(const tdm_run_state *run);
/* The loss of a training run that succeeded. */
double tdm_run_loss(const tdm_run_state *run);

#endif
