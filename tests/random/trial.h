/* One random case: a model, a machine, views of the model on it, and actions, drawn from one seed.
 * It is executed with tandem.h and with the oracle. A failure is returned as text and does not fail
 * the test by itself, so that a smaller case can be tried again. */
#ifndef TANDEM_TESTS_RANDOM_TRIAL_H
#define TANDEM_TESTS_RANDOM_TRIAL_H

#include "tests/random/oracle.h"
#include "tests/random/view.h"

enum { MOST_VIEWS = 3, MOST_ACTIONS = 14, FAILURE_TEXT = 1024 };

typedef enum action_kind {
  ACTION_RUN,      /* blocking */
  ACTION_TRAIN,    /* blocking, a step or two */
  ACTION_FLY,      /* submitted runs of several views, some stopped, sessions released meanwhile */
  ACTION_THREADS,  /* threads run and save while this one trains */
  ACTION_SAVE,     /* the store equals that of the oracle */
  ACTION_LOAD,     /* fresh parameters */
  ACTION_RESTORE,  /* saves, trains, and restores the saved state, through a file or in memory */
  ACTION_RATE,     /* another learning rate */
  ACTION_MOMENTUM, /* another momentum, as schedules with cycles set */
  ACTION_AVERAGES, /* a session that reads the averages of parameters */
  ACTION_BAD,      /* runs that fail change nothing */
  ACTION_SEQUENCE, /* runs of several sequences, in turn */
  ACTION_CLOSE,    /* closes the session; the next action of the view opens it again */
  ACTION_KINDS
} action_kind;

typedef struct action {
  action_kind kind;
  int view;
  uint64_t seed;
} action;

typedef struct trial {
  random_model model;
  random_machine machine;
  random_view views[MOST_VIEWS];
  int view_count;
  bool loads_first; /* the store has parameters before any session binds them */
  bool hands_over;  /* each view has its own store, which receives the contents of the previous
                     * view's store */
  action actions[MOST_ACTIONS];
  int action_count;
} trial;

/* Executed actions, over all trials. */
typedef struct tally {
  uint64_t compared; /* runs */
  uint64_t inexact;  /* runs that say nothing */
  uint64_t trained;
  uint64_t stopped; /* cancelled, or past their deadlines */
  uint64_t saves;
  uint64_t handed; /* from a store to the next */
  uint64_t kept;   /* runs of sequences that were compared */
} tally;

/* kinds: of DRAW_REAL: to be compared with itself on one device (peers_test.c); DRAW_WIDER. */
void trial_draw(trial *it, uint64_t seed, int kinds);
void trial_print(const trial *it, FILE *out);
/* Returns false if a result differs from the oracle or a call failed; failure describes it. */
bool trial_run(const trial *it, tally *counts, char failure[FAILURE_TEXT]);

/* ---- A trial under way: what its actions share ----------------------------------------------- */

typedef struct running {
  const trial *trial;
  tally *counts;
  char *failure;
  tdm_context *context;
  tdm_store *store;
  tdm_session *sessions[MOST_VIEWS]; /* NULL: not open */
  int holder; /* the view that was opened last, if contents of stores are moved */
  bool has_holder;
  double rates[MOST_VIEWS];
  double momenta[MOST_VIEWS]; /* negative: those of the groups */
  _Atomic uint64_t observations;
  oracle *oracle;
  uint64_t steps; /* trained with the store */
  bool spent;     /* the oracle no longer has the contents of the store */
} running;

/* Writes the failure, with the library's message; returns false. */
bool trial_fail(running *it, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool trial_open(running *it, int view);
/* Moves the store's contents to a store of the view's own, and opens a session on that. */
bool hand_over(running *it, int view);
/* Adds a parameter as the oracle has it. */
bool list_add_parameter(running *it, tdm_tensor_list *list, int parameter);
bool trial_act(running *it, const action *what);

/* ---- Runs ------------------------------------------------------------------------------------ */

typedef struct try_run {
  int view;
  bool trains;
  uint64_t seed;
  int64_t rows;
  tdm_feed feeds[MOST_NODES];
  size_t feed_count;
  tdm_fetch fetches[MOST_OUTPUTS];
  int outputs[MOST_OUTPUTS]; /* outputs of the model, one per fetch */
  size_t fetch_count;
  char names[MOST_NODES][16];
  double loss;
  tdm_status status;
  char message[256]; /* where status is none of success */
} try_run;

/* Creates the inputs of a run, and draws its fetches. A run of a sequence may also fetch values
 * that depend on kept ones. */
bool run_begin(running *it, try_run *run, int view, bool trains, uint64_t seed);
bool run_begin_in_sequence(running *it, try_run *run, int view, uint64_t seed);
void run_end(try_run *run);
/* Returns true if the fetches and the loss equal the oracle's latest run; `tell`: writes the
 * failure. */
bool run_agrees(running *it, const try_run *run, bool tell);
/* Evaluates the run by the oracle, which trains if the run did; compares unless it is inexact. */
bool run_check(running *it, const try_run *run);
/* Writes that the run failed; returns false. */
bool run_failed(running *it, const try_run *run);
/* Executes it blocking. */
void run_execute(running *it, try_run *run);
/* Returns true if the view can fetch the output by a run without a sequence. */
bool can_fetch(const trial *it, int view, int output);
bool go_in_sequences(running *it, const action *what);
/* Returns an element of a tensor of floats. */
double tensor_element(const tdm_tensor *tensor, int64_t index);
/* Returns the present training options of a view. */
oracle_training run_training(const running *it, int view);

bool fly(running *it, const action *what);
bool go_in_threads(running *it, const action *what);
/* Compares the list with the oracle's parameters. */
bool list_agrees(running *it, const tdm_tensor_list *list, bool tell);

#endif
