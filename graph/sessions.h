/* The parameter store, sessions, runs, and what they can be asked. Any thread, but for what a
 * comment says. */
#ifndef TANDEM_GRAPH_SESSIONS_H
#define TANDEM_GRAPH_SESSIONS_H

#include <stdio.h>

#include "tandem/graph/building.h"
#include "tandem/graph/operations.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The values of parameters and states, by name. Counted references. */
typedef struct tdm_store tdm_store;

/* A graph that can be run: its plans, its store, its runs in flight. Counted references. */
typedef struct tdm_session tdm_session;

/* ---- The store ------------------------------------------------------------------------------- */

/* Parameters and states by name, shared by sessions. Any thread.
 *
 * Several sessions may train with one store, as generator and discriminator of a GAN do. To the
 * store belong the values of parameters, the states of optimizers (those of a parameter are one,
 * whichever session updates it) and the count of all steps. To a session belong its optimizers,
 * learning rates, momenta, seed and step count. A checkpoint, whichever of the sessions it is saved
 * by, has what belongs to the store and to all sessions that train with it; they are found again by
 * the name of their loss and the parameters that they train. So it is loaded when the same sessions
 * exist, by any one of them. */
TDM_API tdm_store *tdm_store_create(tdm_context *context);
TDM_API tdm_store *tdm_store_retain(tdm_store *store);
TDM_API void tdm_store_release(tdm_store *store);
/* Copies of everything as host tensors, in creation order; states of optimizers too, as
 * "optimizer/NAME/exp_avg", if with_states. Waits for runs in flight. NULL on failure. In a job of
 * several ranks all of them call it, and each gets everything, whichever rank it lives on; so with
 * tdm_session_save and tdm_session_state_dict. A list that is loaded is whole and the same on all.
 */
TDM_API tdm_tensor_list *tdm_store_save(tdm_store *store, bool with_states);
/* Sets what it has under the list's names (a "module." in front of a name or of a part of it is
 * passed over where nothing has that name) and keeps the others for sessions to come, but for those
 * of a checkpoint's own ("checkpoint/..."), which are nobody's; mends a broken store once all its
 * parameters are set. Nothing is changed when a shape or dtype does not fit: the message names it.
 * A failure half-way, for want of memory, breaks the store until all that the list has is loaded.
 * In a job of several ranks all of them call it, and so tdm_session_load and
 * tdm_session_load_state_dict, with the same list: it fails on all or on none, and a store that is
 * broken on one rank is mended on all together. */
TDM_API tdm_status tdm_store_load(tdm_store *store, const tdm_tensor_list *list) TDM_WARN_UNUSED;
/* How often parameters were rewritten; 0 when fresh. */
TDM_API uint64_t tdm_store_version(const tdm_store *store);
/* Returns the training steps done with the store, by all of its sessions: the number by which
 * random operations draw, so that no two steps draw the same numbers. */
TDM_API uint64_t tdm_store_step(tdm_store *store);
/* TDM_OK, or why it is broken: a failure inside an update phase. */
TDM_API tdm_status tdm_store_status(tdm_store *store);

/* ---- Sessions -------------------------------------------------------------------------------- */

/* The number of micro-batches is chosen, for each set of shapes, by what its first runs take. */
#define TDM_MICRO_BATCHES_AUTO (-1)

/* Parameters that another optimizer than the session's updates, or none. */
typedef struct tdm_parameter_group {
  /* Paths of parameters, or layers or scopes that they are below, separated by commas; '*' stands
   * for any characters: "encoder", "head.weight,tail", "*.bias". */
  const char *parameters;
  const tdm_optimizer *optimizer; /* copied; NULL: they stay as they are, and no gradient of theirs
                                     is computed */
} tdm_parameter_group;
#define TDM_MAX_PARAMETER_GROUPS 15

/* Limits of tdm_session_options. */
#define TDM_MAX_DEPTH 1024
#define TDM_MAX_QUEUE_LIMIT 1000000
#define TDM_NO_QUEUE_LIMIT (-1)
#define TDM_MAX_PLAN_LIMIT 1000000
#define TDM_MAX_TRACE_RUNS 100000
#define TDM_MAX_ALIKE_RANKS 65536

/* How gradients that lie on several devices are summed. The first two add them in the order of
 * replicas, so they give the same bits; the others add them in another order, the same in each run,
 * and `deterministic` refuses them. In these, if the parameter's home has a gradient too and all
 * devices are of its kind, every device gets the sum and updates its own copy of the parameter,
 * with copies of the optimizer's states beside it; in the first two the home sends each device the
 * parameter again. */
typedef enum tdm_collective {
  TDM_COLLECTIVE_AUTO,  /* by what the links are estimated to take, for all sums of a plan */
  TDM_COLLECTIVE_HOME,  /* each crosses to the parameter's home */
  TDM_COLLECTIVE_CHAIN, /* the total goes from device to device, in pieces, and home in the end,
                           wherever each device has a direct route to the next */
  TDM_COLLECTIVE_RING,  /* around a ring in as many pieces as devices, wherever each has a direct
                           route to all others */
  TDM_COLLECTIVE_TREE,  /* up a binomial tree and down again, where a ring could go */
  TDM_COLLECTIVE_ALL_REDUCE, /* over ranks of a job by the engine that connects them, several
                                gradients at once, wherever each rank has one: NCCL where all are
                                on GPUs that it connects, else that of the hosts */
  TDM_COLLECTIVE_COUNT
} tdm_collective;
/* "auto", "home", "chain", "ring", "tree", "all-reduce"; NULL of any other number. */
TDM_API const char *tdm_collective_name(tdm_collective collective);

/* A number outside its range is INVALID_ARGUMENT, and so is a count without its list. */
typedef struct tdm_session_options {
  size_t struct_size;
  tdm_store *store;               /* NULL: one of its own */
  tdm_value loss;                 /* a floating scalar; invalid: the session cannot train */
  const tdm_optimizer *optimizer; /* copied */
  /* A parameter belongs to the first group that names it; those that none names go by `optimizer`.
   * An optimizer's clip_norm is about the gradients of its own parameters. */
  const tdm_parameter_group *groups; /* (group_count) */
  size_t group_count;                /* at most TDM_MAX_PARAMETER_GROUPS */
  const char *device_map; /* "embedding=cpu:0,rnn=sim:0,*=host:1/cpu:0"; TANDEM_PLACE is stronger */
  uint64_t seed;          /* of initial values and of random operations */
  int depth; /* runs in flight, training ones too: the inputs of one are uploaded under the compute
                of the one before; each has activations of its own; 1 to TDM_MAX_DEPTH,
                default 1 */
  int queue_limit; /* submitted runs beyond depth that are not delivered yet; 0 to
                      TDM_MAX_QUEUE_LIMIT; default TDM_NO_QUEUE_LIMIT: any number */
  int plan_limit;  /* cached plans; 1 to TDM_MAX_PLAN_LIMIT, default 64 */
  /* Results have the same bits wherever nodes are placed, however large teams are, in whatever
   * batch a row is; parallel regions and micro-batches still group the sums of
   * gradients. */
  bool deterministic;
  bool check_finite;     /* a loss that is not finite fails the run with NOT_FINITE, before anything
                            is updated */
  bool strict;           /* a copy through pageable or unplanned memory is an error */
  bool profile;          /* record times of every command, for tdm_session_explain */
  int trace_runs;        /* the latest runs whose timeline is kept, for tdm_session_trace; 1 to
                            TDM_MAX_TRACE_RUNS; 0: none, and then nothing is recorded */
  tdm_observer observer; /* NULL: places are passed unseen */
  void *observer_user;
  /* Called on the loop when there is room again, once after a submission was refused with
   * RESOURCE_EXHAUSTED; NULL: nobody asks. */
  void (*writable)(void *user);
  void *writable_user;
  /* Into how many parts (torch.chunk's) runs cut their batch, so that devices that follow one
   * another work at the same time; 1 to 64, default 1; or TDM_MICRO_BATCHES_AUTO. Results are
   * those of the whole batch: losses are divided by its targets, gradients are summed in the order
   * of the parts. Only batch normalization is of each part. */
  int micro_batches;
  const char *batch_dimension; /* its name; NULL: the one that all inputs of the loss (of the
                                  outputs, without a loss) share, "batch" if they share several */
  /* Elementwise operations that read one another are computed as one, which changes no bit of any
   * result; true: each by itself, to compare. */
  bool unfused;
  /* What computes the same of the same on one device is computed once, which changes no bit of any
   * result; true: each time, to compare. */
  bool unmerged;
  tdm_collective collective;
  /* Parameters are read from their moving averages, which another session with this store keeps
   * (tdm_optimizer.average_decay), or has saved; so they are evaluated while that one trains. Those
   * without one, frozen or of a group that keeps none, are read as they are; INVALID_ARGUMENT where
   * no parameter has one. Such a session does not train itself, and its state dict is what it
   * reads. */
  bool averages;
  /* For forecasts alone: the plan is that of one rank of so many alike, each with rows of its own,
   * which sum their gradients (docs/forecast.md). Trained are parameters on described devices
   * alone. 1 to TDM_MAX_ALIKE_RANKS; default 1: the plan is all there is. */
  int alike_ranks;
} tdm_session_options;
static inline tdm_session_options tdm_session_options_default(void) {
  tdm_session_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_session_options);
  options.depth = 1;
  options.queue_limit = TDM_NO_QUEUE_LIMIT;
  options.plan_limit = 64;
  options.micro_batches = 1;
  options.collective = TDM_COLLECTIVE_AUTO;
  options.alike_ranks = 1;
  return options;
}

/* Runs the shape rules, placement and kernel look-up; binds parameters in the store. options may
 * be NULL. NULL on failure: tdm_last_message() says which layer, its shapes and devices. */
TDM_API tdm_session *tdm_session_create(tdm_graph *graph, const tdm_session_options *options);
TDM_API tdm_session *tdm_session_retain(tdm_session *session);
/* Does not wait: a submitted run holds its session until its callback has been called. NULL is
 * legal. */
TDM_API void tdm_session_release(tdm_session *session);
TDM_API tdm_store *tdm_session_store(tdm_session *session);     /* borrowed */
TDM_API tdm_context *tdm_session_context(tdm_session *session); /* borrowed */
/* Of steps that are submitted, or begun by tdm_train_step, from here on. The rates of parameter
 * groups change in proportion: each is what its optimizer had at first, times as much as this is of
 * what the session's had; where that was 0, they stay. INVALID_ARGUMENT, and nothing changes,
 * unless all of them are finite and not negative. In a job of several ranks all set the same: a
 * step of which ranks have other rates or momenta is refused on all. */
TDM_API tdm_status tdm_session_set_learning_rate(tdm_session *session,
                                                 double learning_rate) TDM_WARN_UNUSED;
/* The same for one group of the options alone, until the call above is made again. */
TDM_API tdm_status tdm_session_set_group_learning_rate(tdm_session *session, size_t group,
                                                       double learning_rate) TDM_WARN_UNUSED;

/* SGD's and RMSprop's momentum and the beta1 of Adam and its kin, of steps from here on: the same
 * of every group that has one. It stands for what the optimizer was made with, also in the
 * correction of biases, as where PyTorch's schedulers set it (cycle_momentum). INVALID_ARGUMENT,
 * and nothing changes, unless it lies in [0, 1), and a group was made with a momentum that is not
 * 0. */
TDM_API tdm_status tdm_session_set_momentum(tdm_session *session, double momentum) TDM_WARN_UNUSED;
/* The same for one group of the options alone. */
TDM_API tdm_status tdm_session_set_group_momentum(tdm_session *session, size_t group,
                                                  double momentum) TDM_WARN_UNUSED;

/* Returns the training steps that this session has done: the count for its schedules. 0 for a
 * session that cannot train. tdm_checkpoint_load sets it to what was saved. tdm_store_step counts
 * the steps of all sessions of a store. */
TDM_API uint64_t tdm_session_step(tdm_session *session);

/* No parameter or state has a name that begins so: a scope at the top that is called "checkpoint"
 * is refused where its first parameter is declared. */
#define TDM_CHECKPOINT_PREFIX "checkpoint/"
/* All that the steps to come depend on besides the graph, the options and what is fed:
 * tdm_store_save with states, and under names with the prefix above the step, the seed, the
 * learning rates, momenta that were set, and the optimizers' names. Waits for runs in flight. On
 * failure *out_list is NULL.
 */
TDM_API tdm_status tdm_session_save(tdm_session *session,
                                    tdm_tensor_list **out_list) TDM_WARN_UNUSED;
/* Goes on from there. The list has every parameter and state that the store has, and besides only
 * "optimizer/PARAMETER/NAME" of its parameters; other names with the prefix are passed over. When
 * something is missing, unknown or of another shape, dtype or optimizer, nothing is changed, and
 * the message names it. Waits for runs in flight; none may be submitted meanwhile.
 * tdm_checkpoint_save and tdm_checkpoint_load do the same with files. */
TDM_API tdm_status tdm_session_load(tdm_session *session,
                                    const tdm_tensor_list *list) TDM_WARN_UNUSED;

/* A tensor under an input's name. tensor may lie on any device. */
typedef struct tdm_feed {
  const char *name;
  tdm_tensor *tensor;
  bool handed_over; /* tdm_submit: the caller does not touch the contents any more: no copy */
} tdm_feed;

/* What to fetch under an output's name; tensor gets a reference that the caller releases, NULL on
 * failure. */
typedef struct tdm_fetch {
  const char *name;
  tdm_tensor *tensor;
} tdm_fetch;

/* Makes (or finds) the plan for these shapes without running it. */
TDM_API tdm_status tdm_session_prepare(tdm_session *session, const tdm_feed *feeds,
                                       size_t feed_count, const tdm_fetch *fetches,
                                       size_t fetch_count, bool training) TDM_WARN_UNUSED;
/* Evaluates the fetches; blocks until they are there. Only the inputs that these need are asked
 * for. Legal on any thread, inside callbacks of the loop too. */
TDM_API tdm_status tdm_run(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                           tdm_fetch *fetches, size_t fetch_count) TDM_WARN_UNUSED;
/* The same for one output alone, which the caller owns: module(x) under torch.no_grad(). NULL on
 * failure. */
TDM_API tdm_tensor *tdm_run_output(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                                   const char *output);
/* Forward, backward and update; out_loss may be NULL. On failure before the update phase nothing
 * is changed; inside it the store is broken until parameters are loaded. */
TDM_API tdm_status tdm_train_step(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                                  tdm_fetch *fetches, size_t fetch_count,
                                  double *out_loss) TDM_WARN_UNUSED;

/* How a run has ended. */
typedef struct tdm_run_result {
  uint64_t run_id;     /* as tdm_submit_with has told it */
  tdm_status status;   /* TDM_OK, or why it failed or was stopped */
  const char *message; /* "" when status is TDM_OK; borrowed for the call */
  double loss;         /* of a training run */
  tdm_fetch *fetches;  /* tensors belong to the callback; names borrowed for the call */
  size_t fetch_count;
} tdm_run_result;

/* Called exactly once a run, on the context's loop. May call anything but tdm_context_close... of
 * the library's own loop. */
typedef void (*tdm_run_callback)(void *user, tdm_run_result *result);

/* Starts a run and returns at once; fetches name what to fetch (their tensor is not read). Host
 * inputs are copied before it returns unless handed over. Runs of a session start in the order
 * submitted. A failure here means that callback is never called. */
TDM_API tdm_status tdm_submit(tdm_session *session, bool training, const tdm_feed *feeds,
                              size_t feed_count, const tdm_fetch *fetches, size_t fetch_count,
                              tdm_run_callback callback, void *user) TDM_WARN_UNUSED;

typedef struct tdm_submit_options {
  size_t struct_size;
  bool training;                 /* a step; false: the fetches alone */
  tdm_run_callback callback;     /* called once, when the run has ended */
  void *user;                    /* which it is given */
  uint64_t deadline_ns;          /* from the call, which may have to plan; a run that has not ended
                                    by then is stopped, as by tdm_run_cancel, with
                                    DEADLINE_EXCEEDED; 1 or more, default
                                    TDM_NO_DEADLINE */
  struct tdm_sequence *sequence; /* whose run it is (below); NULL: none's */
} tdm_submit_options;
static inline tdm_submit_options tdm_submit_options_default(void) {
  tdm_submit_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_submit_options);
  options.deadline_ns = TDM_NO_DEADLINE;
  return options;
}

/* tdm_submit with a deadline, and an id to cancel by: *out_run_id (may be NULL) is written before
 * the callback can be called. 0 is no run's id. RESOURCE_EXHAUSTED beyond the session's
 * queue_limit. */
TDM_API tdm_status tdm_submit_with(tdm_session *session, const tdm_submit_options *options,
                                   const tdm_feed *feeds, size_t feed_count,
                                   const tdm_fetch *fetches, size_t fetch_count,
                                   uint64_t *out_run_id) TDM_WARN_UNUSED;
/* Stops a submitted run: true: its callback will be called with CANCELLED; one that waits leaves
 * the queue at once, one in flight passes over what it has not begun. False, and nothing happens:
 * the run has ended or was stopped already, or it has entered its update phase, which it completes.
 * So parameters are never half updated, and are unchanged by a run that was cancelled. Any thread,
 * callbacks too; run_id may be of a run long gone. */
TDM_API bool tdm_run_cancel(tdm_session *session, uint64_t run_id);

/* ---- Sequences ------------------------------------------------------------------------------- */

/* What one stream of runs keeps from run to run: a value for each tdm_kept of the session's graph,
 * on its device, where runs read and write it in place. One run of a sequence is in flight at a
 * time; those of different sequences go on together as the session's depth allows. Any thread. */
typedef struct tdm_sequence tdm_sequence;

/* All values are zeros. Not in a job of several ranks, nor where the session cuts batches into
 * micro-batches. NULL on failure. */
TDM_API tdm_sequence *tdm_sequence_create(tdm_session *session);
TDM_API tdm_sequence *tdm_sequence_retain(tdm_sequence *sequence);
TDM_API void tdm_sequence_release(tdm_sequence *sequence); /* NULL is legal */
/* tdm_run as the next run of the sequence (tdm_submit_options.sequence submits one).
 * INVALID_ARGUMENT while another of its runs is in flight. If a run fails in its last phase, where
 * values that tdm_keep names change, the sequence is broken: its runs are refused until it is
 * reset, or all of its values are set. */
TDM_API tdm_status tdm_sequence_run(tdm_sequence *sequence, const tdm_feed *feeds,
                                    size_t feed_count, tdm_fetch *fetches,
                                    size_t fetch_count) TDM_WARN_UNUSED;
/* Zeros everywhere, as when it was created. This and what follows: INVALID_ARGUMENT while a run of
 * the sequence is in flight. */
TDM_API tdm_status tdm_sequence_reset(tdm_sequence *sequence) TDM_WARN_UNUSED;
/* A copy of one value on cpu:0, which the caller releases. */
TDM_API tdm_status tdm_sequence_get(tdm_sequence *sequence, const char *name,
                                    tdm_tensor **out_tensor) TDM_WARN_UNUSED;
/* Copies a tensor of the value's dtype and shape, on any device, into it. */
TDM_API tdm_status tdm_sequence_set(tdm_sequence *sequence, const char *name,
                                    tdm_tensor *tensor) TDM_WARN_UNUSED;
/* A sequence of the same session that goes on from where this one is. NULL on failure. */
TDM_API tdm_sequence *tdm_sequence_copy(tdm_sequence *sequence);

/* ---- Asking ---------------------------------------------------------------------------------- */

typedef struct tdm_traffic {
  uint64_t edge_transfers; /* between nodes */
  uint64_t edge_bytes;
  uint64_t boundary_transfers; /* of inputs, targets, outputs, the loss */
  uint64_t boundary_bytes;
  uint64_t refresh_transfers; /* of derived copies of parameters, when they are old by one update */
  uint64_t refresh_bytes;
} tdm_traffic;

/* What the plan of the latest prepare or run moves in one run. */
TDM_API tdm_status tdm_session_traffic(tdm_session *session,
                                       tdm_traffic *out_traffic) TDM_WARN_UNUSED;

/* What the latest run of that plan has moved to refresh derived copies: nothing where they were
 * fresh; of a table with sparse gradients as many rows as there were ids in each update since, as
 * far as these are known, else the whole. */
TDM_API tdm_status tdm_session_refreshed(tdm_session *session, uint64_t *out_transfers,
                                         uint64_t *out_bytes) TDM_WARN_UNUSED;

/* What one device holds for the plan of the latest prepare or run. */
typedef struct tdm_memory_use {
  uint64_t parameters_bytes;  /* at home here, with their states and logs of rows */
  uint64_t copies_bytes;      /* of parameters whose home is elsewhere */
  uint64_t activations_bytes; /* of one run in flight: what it computes and what arrives */
  uint64_t outputs_bytes;     /* of one run's fetches, handed out here */
} tdm_memory_use;

/* Fills out_use for device, "cpu:0"; zeros where the plan does not use it. */
TDM_API tdm_status tdm_session_memory(tdm_session *session, const char *device,
                                      tdm_memory_use *out_use) TDM_WARN_UNUSED;

typedef enum tdm_plan_format {
  TDM_PLAN_TEXT, /* the plan told for a reader: every node, every transfer with its cause */
  TDM_PLAN_DOT,  /* for graphviz */
  TDM_PLAN_JSON,
} tdm_plan_format;

/* Writes the layers of the latest plan to out, as Keras and torchinfo do, a line each: its path and
 * its (last) operation, the devices that compute it, its result with the sizes that were fed, how
 * many trained numbers it reads that no layer above it reads, the bytes that its forward nodes make
 * in a run, all replicas and micro-batches together, and, where the session profiles, the median
 * times of its nodes, forward, backward and updates, added up. What is computed as a part of a
 * later layer (fused) makes nothing and takes no time of its own. Any thread; INVALID_ARGUMENT
 * where there is no plan yet (tdm_session_prepare makes one).
 *
 *   layer                  device  output           parameters  bytes  time
 *   -----------------------------------------------------------------------
 *   embedding (embedding)  cpu:0   float32 [3, 6]          120   72 B     -
 *   head (linear)          sim:0   float32 [3, 20]           0  240 B     -
 *   -----------------------------------------------------------------------
 *   parameters: 120; with all states 480 B
 *   a run makes 312 B forward, transfers 792 B
 */
TDM_API tdm_status tdm_session_print_summary(tdm_session *session, FILE *out) TDM_WARN_UNUSED;
/* Writes the latest plan to out: per transfer its cause, bytes, route, queue, pinned or pageable,
 * predicted time, and the median of the latest measured times where the session profiles. */
TDM_API tdm_status tdm_session_explain(tdm_session *session, tdm_plan_format format,
                                       FILE *out) TDM_WARN_UNUSED;
typedef enum tdm_trace_format {
  TDM_TRACE_CHROME,  /* JSON in the Trace Event Format, which Perfetto and chrome://tracing open */
  TDM_TRACE_SUMMARY, /* text: busy shares, overlap, critical path, what bounds the runs, the nodes
                        that most time went to, bytes of every link */
} tdm_trace_format;

/* Writes the timeline of the latest trace_runs runs that have ended. Chrome: a process per device,
 * a thread per queue, an event for every command that was executed ("kernel", "transfer",
 * "update") with its run, its bytes, route and kind of host memory, and the commands it depends on,
 * as arrows too where they lie on another queue; an event of category "wait" where a queue waited;
 * a process "runs" with a thread per slot. Times are microseconds since the first of them, of one
 * clock for all devices (otherData.origin_ns of CLOCK_MONOTONIC); those of two GPUs agree to some
 * ten microseconds. Recording costs a look at the clock before and after each command, on a GPU two
 * events; the plans of kept runs are not evicted. Any thread; runs in flight go on.
 * INVALID_ARGUMENT where the session keeps none, or no run has ended. */
TDM_API tdm_status tdm_session_trace(tdm_session *session, tdm_trace_format format,
                                     FILE *out) TDM_WARN_UNUSED;
/* Writes a page of HTML that any browser draws by itself, without the network: the latest plan,
 * what it moves, the memory of each device, and, where the session keeps timelines (trace_runs) and
 * a run has ended, what ran when and what bounds it. Times in the plan are measured where the
 * session profiles. Takes memory of the page's size while it is written. Any thread; runs in flight
 * go on. INVALID_ARGUMENT where there is no plan yet; IO where out takes no more. */
TDM_API tdm_status tdm_session_report(tdm_session *session, FILE *out) TDM_WARN_UNUSED;
/* Writes what a pass left behind ("lower", "place", "gradient", "layout", "fuse", "transfer",
 * "schedule", "memory", "verify"; see docs/architecture.md) when the plan for the latest shapes is
 * made anew. */
TDM_API tdm_status tdm_session_print_pass(tdm_session *session, const char *pass,
                                          tdm_plan_format format, FILE *out) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
