/* The parameter store, sessions, runs, sequences, and reports about them.
 *
 * A store holds the values of parameters. A session makes plans for a graph and runs them:
 * @code
 * tdm_session_options options = tdm_session_options_default();
 * options.loss = loss;
 * const tdm_optimizer optimizer = tdm_adam(1e-3);
 * options.optimizer = &optimizer;
 * tdm_session *session = tdm_session_create(graph, &options);
 * const tdm_feed feeds[] = {{"x", x_tensor, false}, {"target", target_tensor, false}};
 * double value;
 * tdm_status status = tdm_train_step(session, feeds, 2, NULL, 0, &value);
 * @endcode
 */
#ifndef TANDEM_GRAPH_SESSIONS_H
#define TANDEM_GRAPH_SESSIONS_H

#include <stdio.h>

#include "tandem/graph/building.h"
#include "tandem/graph/operations.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values of parameters and states, by name. Reference counted. */
typedef struct tdm_store tdm_store;

/* A graph that can be run: its plans, its store, and its runs in flight. Reference counted. */
typedef struct tdm_session tdm_session;

/* ---- The store ------------------------------------------------------------------------------- */

/* Creates an empty store. Sessions add the parameters and states of their graphs to it, by name.
 *
 * Several sessions may train with one store, as generator and discriminator of a GAN do. The store
 * owns the values of parameters, the states of optimizers (one set per parameter, whichever session
 * updates it) and the count of all training steps. A session owns its optimizers, learning rates,
 * momenta, seed and step count.
 *
 * A checkpoint contains what belongs to the store and to all sessions that train with it, whichever
 * of them saves it. Loading identifies sessions by the name of their loss and the parameters that
 * they train. So the same sessions must exist when it is loaded; any of them may load it. */
TDM_API tdm_store *tdm_store_create(tdm_context *context);

/* Adds a reference to the store and returns it. */
TDM_API tdm_store *tdm_store_retain(tdm_store *store);

/* Gives back a reference to the store. */
TDM_API void tdm_store_release(tdm_store *store);

/* Returns copies of all parameters and states as host tensors, in the order of their creation.
 * Waits for runs in flight.
 *
 * In a job of several ranks all of them call it, and each receives everything, whichever rank
 * stores it. This holds for tdm_session_save and tdm_session_state_dict too.
 * @param with_states true: include the states of optimizers, under names such as
 *     "optimizer/NAME/exp_avg". */
TDM_API tdm_tensor_list *tdm_store_save(tdm_store *store, bool with_states);

/* Sets parameters and states from list. Waits for runs in flight.
 *
 * - Names that the store does not have are kept for sessions to come, except those that begin with
 *   "checkpoint/", which are ignored.
 * - If no parameter has a given name, the prefix "module." of the name or of one of its parts is
 *   ignored.
 * - If a shape or dtype differs, nothing is changed, and the message names the tensor.
 * - If memory runs out half-way, the store is broken until everything in the list has been loaded.
 * - A broken store is repaired once all its parameters are set (tdm_store_status).
 * - In a job of several ranks all of them call it with the same complete list; it fails on all or
 *   on none, and a store that is broken on one rank is repaired on all of them together. This holds
 *   for tdm_session_load and tdm_session_load_state_dict too. */
TDM_API tdm_status tdm_store_load(tdm_store *store, const tdm_tensor_list *list) TDM_WARN_UNUSED;

/* Returns how often parameters were written; 0 for a new store. */
TDM_API uint64_t tdm_store_version(const tdm_store *store);

/* Returns the number of training steps that all sessions have done with the store. Random
 * operations use it, so that no two steps draw the same numbers. */
TDM_API uint64_t tdm_store_step(tdm_store *store);

/* Returns TDM_OK, or the error of an update phase that failed half-way. Such a store is broken: it
 * cannot be used until parameters are loaded. */
TDM_API tdm_status tdm_store_status(tdm_store *store);

/* ---- Sessions -------------------------------------------------------------------------------- */

/* Value of tdm_session_options.micro_batches: the session chooses the number of micro-batches for
 * each set of shapes by measuring its first runs. */
#define TDM_MICRO_BATCHES_AUTO (-1)

/* Parameters that are updated by an optimizer of their own, or not at all.
 * @code
 * tdm_optimizer slow = tdm_adam(1e-4);
 * const tdm_parameter_group groups[] = {
 *     {"embedding", NULL}, // frozen
 *     {"encoder", &slow},
 * };
 * options.groups = groups;
 * options.group_count = 2;
 * @endcode
 */
typedef struct tdm_parameter_group {
  /* Paths of parameters, or of layers or scopes above them, separated by commas. '*' stands for any
   * characters: "encoder", "head.weight,tail", "*.bias". */
  const char *parameters;
  /* Copied. NULL: the parameters are frozen, and their gradients are not computed. */
  const tdm_optimizer *optimizer;
} tdm_parameter_group;

/* Maximum number of parameter groups. */
#define TDM_MAX_PARAMETER_GROUPS 15
/* Maximum of tdm_session_options.depth. */
#define TDM_MAX_DEPTH 1024
/* Maximum of tdm_session_options.queue_limit. */
#define TDM_MAX_QUEUE_LIMIT 1000000
/* Value of tdm_session_options.queue_limit: no limit. */
#define TDM_NO_QUEUE_LIMIT (-1)
/* Maximum of tdm_session_options.plan_limit. */
#define TDM_MAX_PLAN_LIMIT 1000000
/* Maximum of tdm_session_options.trace_runs. */
#define TDM_MAX_TRACE_RUNS 100000
/* Maximum of tdm_session_options.alike_ranks. */
#define TDM_MAX_ALIKE_RANKS 65536

/* Algorithm that sums gradients which are computed on several devices.
 *
 * HOME and CHAIN add them in the order of replicas, so they give the same bits. The home of the
 * parameter then sends the updated parameter to each device. The other algorithms add in another
 * order, the same in each run; a session with `deterministic` rejects them. With these, if the home
 * has a gradient too and all devices are of its kind, every device receives the sum and updates its
 * own copy of the parameter, with its own copies of the optimizer's states. */
typedef enum tdm_collective {
  /* The session chooses one for all sums of a plan, by the estimated times of the links. */
  TDM_COLLECTIVE_AUTO,
  TDM_COLLECTIVE_HOME, /* Each gradient is sent to the parameter's home. */
  /* The partial sum is sent from device to device in pieces, and finally to the home. Used where
   * each device has a direct route to the next. */
  TDM_COLLECTIVE_CHAIN,
  /* Ring algorithm with as many pieces as devices. Used where each device has a direct route to all
   * others. */
  TDM_COLLECTIVE_RING,
  /* Up a binomial tree and down again. Used under the same condition as RING. */
  TDM_COLLECTIVE_TREE,
  /* For the ranks of a job: an all-reduce of the communication library, for several gradients at
   * once. Used where each rank has a gradient: NCCL if all are on GPUs that it connects, otherwise
   * the library that connects the hosts. */
  TDM_COLLECTIVE_ALL_REDUCE,
  TDM_COLLECTIVE_COUNT /* Number of algorithms, AUTO included. */
} tdm_collective;

/* Returns the name of an algorithm: "auto", "home", "chain", "ring", "tree" or "all-reduce". NULL
 * for other numbers. */
TDM_API const char *tdm_collective_name(tdm_collective collective);

/* Options of a session. A number outside its range is INVALID_ARGUMENT, and so is a count that is
 * not 0 with a list that is NULL. */
typedef struct tdm_session_options {
  size_t struct_size;
  /* Store of the parameters, of the same context. Default NULL: the session creates one. */
  tdm_store *store;
  /* Floating scalar that training minimizes. Default invalid: the session cannot train. */
  tdm_value loss;
  /* Optimizer of parameters that no group names; copied. Default NULL: none. It needs a loss. */
  const tdm_optimizer *optimizer;
  /* (group_count): parameters with optimizers of their own. A parameter belongs to the first group
   * that names it. An optimizer's clip_norm applies to the gradients of its own parameters. */
  const tdm_parameter_group *groups;
  /* Number of groups, 0 to TDM_MAX_PARAMETER_GROUPS. Default 0. */
  size_t group_count;
  /* Placement by names, which overrides that of the graph:
   * "embedding=cpu:0,rnn=sim:0,*=host:1/cpu:0". The environment variable TANDEM_PLACE takes
   * precedence. Default NULL: none. */
  const char *device_map;
  uint64_t seed; /* Seed of initial values and random operations. Default 0. */
  /* Maximum number of concurrent runs, 1 to TDM_MAX_DEPTH; training runs too. The inputs of a run
   * are copied to devices while the previous run computes. Each concurrent run has activations of
   * its own. Default 1. */
  int depth;
  /* Maximum number of submitted runs beyond depth that have not been delivered, 0 to
   * TDM_MAX_QUEUE_LIMIT. Default TDM_NO_QUEUE_LIMIT: any number. */
  int queue_limit;
  /* Maximum number of cached plans, 1 to TDM_MAX_PLAN_LIMIT. Default 64. */
  int plan_limit;
  /* true: results have the same bits regardless of placement, of the number of threads, and of the
   * other rows in a batch. Parallel regions and micro-batches still determine how the sums of
   * gradients are grouped. Default false. */
  bool deterministic;
  /* true: a loss that is infinite or NaN fails the run with NOT_FINITE before anything is updated.
   * Default false. */
  bool check_finite;
  /* true: a copy through pageable or unplanned memory is an error instead of being slower. Default
   * false. */
  bool strict;
  /* true: measure the time of every command, for tdm_session_explain. Default false. */
  bool profile;
  /* Number of latest runs whose timeline is kept for tdm_session_trace, 0 to TDM_MAX_TRACE_RUNS.
   * Default 0: nothing is recorded. */
  int trace_runs;
  /* Function that receives the tensors at points that tdm_observe marked. Default NULL: none. */
  tdm_observer observer;
  void *observer_user; /* First argument of observer. */
  /* Called on the context's loop, once after a submission failed with RESOURCE_EXHAUSTED, when
   * another one can succeed. Default NULL: not called. */
  void (*writable)(void *user);
  void *writable_user; /* Argument of writable. */
  /* Number of parts into which runs cut their batch, as torch.chunk does, so that devices that
   * depend on one another work at the same time; 1 to 64. Default 1.
   *
   * TDM_MICRO_BATCHES_AUTO measures 1, 2, 4, 8 and 16 parts and keeps the fastest. It is not
   * allowed with deterministic (INVALID_ARGUMENT) or in a job of several ranks (UNSUPPORTED).
   *
   * Results are those of the whole batch: losses are divided by its number of targets, and
   * gradients are summed in the order of the parts. The exception is batch normalization, which
   * normalizes each part by itself. */
  int micro_batches;
  /* Name of the dimension that micro-batches cut. Default NULL: the one that all inputs of the loss
   * (of the outputs, if there is no loss) have in common; "batch" if they have several. */
  const char *batch_dimension;
  /* true: elementwise operations that read one another are computed one by one instead of as one
   * kernel, for comparison. No bit of a result changes. Default false. */
  bool unfused;
  /* true: equal operations on equal operands on one device are computed each time instead of once,
   * for comparison. No bit of a result changes. Default false. */
  bool unmerged;
  /* Algorithm that sums gradients over devices. Default TDM_COLLECTIVE_AUTO. */
  tdm_collective collective;
  /* true: read parameters from their moving averages (tdm_optimizer.average_decay), which another
   * session with the same store computes or a checkpoint contains. So they can be evaluated while
   * the other session trains. Parameters without one, because they are frozen or their group has
   * none, are read as they are; INVALID_ARGUMENT if no parameter has one. Such a session cannot
   * train, and its state dict contains what it reads. Default false. */
  bool averages;
  /* For forecasts only (docs/forecast.md): the plan is that of one of this many identical ranks,
   * each with rows of its own, which sum their gradients. Only parameters on described devices may
   * be trained. 1 to TDM_MAX_ALIKE_RANKS. Default 1: one rank. */
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

/* Creates a session: checks shapes, placement and kernels of the whole graph, freezes the graph,
 * and adds its parameters to the store.
 * @param options NULL: all defaults.
 * @return NULL on failure: the error that is stored in the graph, or one whose message names the
 *     layer, its shapes and its devices. */
TDM_API tdm_session *tdm_session_create(tdm_graph *graph, const tdm_session_options *options);

/* Adds a reference to the session and returns it. */
TDM_API tdm_session *tdm_session_retain(tdm_session *session);

/* Gives back a reference to the session. It does not wait: a submitted run holds a reference until
 * its callback has returned. */
TDM_API void tdm_session_release(tdm_session *session);

/* Returns the session's store; borrowed. */
TDM_API tdm_store *tdm_session_store(tdm_session *session);

/* Returns the session's context; borrowed. */
TDM_API tdm_context *tdm_session_context(tdm_session *session);

/* Sets the learning rate of steps that are submitted, or begun by tdm_train_step, from here on.
 *
 * The rates of parameter groups change in proportion. Each becomes the group's initial rate times
 * learning_rate / initial rate of the session's optimizer. If the latter is 0, group rates do not
 * change. In a job of several ranks all set the same rate: a step is refused on all ranks if their
 * rates or momenta differ.
 * @param learning_rate finite, 0 or more, and so must be the resulting rates of groups; otherwise
 *     INVALID_ARGUMENT, and nothing changes. */
TDM_API tdm_status tdm_session_set_learning_rate(tdm_session *session,
                                                 double learning_rate) TDM_WARN_UNUSED;

/* Sets the learning rate of one parameter group, until tdm_session_set_learning_rate is called
 * again.
 * @param group index in tdm_session_options.groups.
 * @param learning_rate finite, 0 or more. */
TDM_API tdm_status tdm_session_set_group_learning_rate(tdm_session *session, size_t group,
                                                       double learning_rate) TDM_WARN_UNUSED;

/* Sets the momentum of SGD and RMSprop, and beta1 of Adam and its variants, for steps from here on,
 * in every group that has one. It replaces the value that the optimizer was created with, also in
 * bias correction, as PyTorch's schedulers do (cycle_momentum).
 * @param momentum in [0, 1). INVALID_ARGUMENT, and nothing changes, for another value, or if no
 *     group was created with a momentum that is not 0. */
TDM_API tdm_status tdm_session_set_momentum(tdm_session *session, double momentum) TDM_WARN_UNUSED;

/* Sets the momentum of one parameter group as tdm_session_set_momentum does.
 * @param group index in tdm_session_options.groups.
 * @param momentum in [0, 1). */
TDM_API tdm_status tdm_session_set_group_momentum(tdm_session *session, size_t group,
                                                  double momentum) TDM_WARN_UNUSED;

/* Returns the number of training steps that this session has done, for learning rate schedules. 0
 * if the session cannot train. tdm_checkpoint_load sets it to the saved number. tdm_store_step
 * counts the steps of all sessions of a store. */
TDM_API uint64_t tdm_session_step(tdm_session *session);

/* Prefix of names that only checkpoints use. Declaring a parameter or state whose path begins with
 * it is an error, so no scope at the top level can be called "checkpoint". */
#define TDM_CHECKPOINT_PREFIX "checkpoint/"

/* Returns everything that future steps depend on besides the graph, the options and the fed
 * tensors. The list contains the result of tdm_store_save with states. Under names with
 * TDM_CHECKPOINT_PREFIX it contains the step, the seed, the learning rates, momenta that were set,
 * and the names of the optimizers. Waits for runs in flight. tdm_checkpoint_save writes it to a
 * file.
 * @param out_list receives the list. */
TDM_API tdm_status tdm_session_save(tdm_session *session,
                                    tdm_tensor_list **out_list) TDM_WARN_UNUSED;

/* Restores what tdm_session_save returned, so that training continues from there. Waits for runs in
 * flight; none may be submitted meanwhile. tdm_checkpoint_load does it with a file.
 * @param list must contain every parameter and state of the store, and otherwise only states
 *     "optimizer/PARAMETER/NAME" of its parameters; other names with TDM_CHECKPOINT_PREFIX are
 *     ignored. If something is missing, unknown, or of another shape, dtype or optimizer, nothing
 *     is changed, and the message names it. */
TDM_API tdm_status tdm_session_load(tdm_session *session,
                                    const tdm_tensor_list *list) TDM_WARN_UNUSED;

/* Feeds and fetches. */

/* A tensor that is fed to an input. */
typedef struct tdm_feed {
  const char *name;   /* Path of the input. */
  tdm_tensor *tensor; /* The tensor, on any device. */
  /* For tdm_submit: true promises that the caller does not change the tensor's elements any more,
   * so that they are not copied. */
  bool handed_over;
} tdm_feed;

/* An output to fetch. */
typedef struct tdm_fetch {
  const char *name;   /* Path of the output. */
  tdm_tensor *tensor; /* Receives a reference, which the caller releases; NULL on failure. */
} tdm_fetch;

/* Makes the plan for given shapes, or finds it in the cache, without running it.
 * @param feeds (feed_count): only shapes and dtypes matter.
 * @param fetches (fetch_count): their tensors are not used.
 * @param training true: the plan of a training step. */
TDM_API tdm_status tdm_session_prepare(tdm_session *session, const tdm_feed *feeds,
                                       size_t feed_count, const tdm_fetch *fetches,
                                       size_t fetch_count, bool training) TDM_WARN_UNUSED;

/* Computes outputs and blocks until they are available. It may be called on any thread, also in
 * callbacks on the context's loop.
 * @code
 * tdm_feed feed = {"x", x_tensor, false};
 * tdm_fetch fetch = {"y", NULL};
 * tdm_status status = tdm_run(session, &feed, 1, &fetch, 1);
 * @endcode
 * @param feeds (feed_count): the inputs that the fetches depend on; others may be missing.
 * @param fetches (fetch_count): their tensors receive the outputs. */
TDM_API tdm_status tdm_run(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                           tdm_fetch *fetches, size_t fetch_count) TDM_WARN_UNUSED;

/* Computes one output and returns it: module(x) under torch.no_grad(). Blocks until it is
 * available.
 * @param feeds (feed_count).
 * @param output path of the output. */
TDM_API tdm_tensor *tdm_run_output(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                                   const char *output);

/* Runs one training step: forward pass, backward pass and update. Blocks until it is done.
 *
 * If the step fails before its update phase, nothing is changed. If it fails inside the update
 * phase, the store is broken until parameters are loaded (tdm_store_status).
 * @param feeds (feed_count).
 * @param fetches (fetch_count): outputs to fetch from the forward pass.
 * @param out_loss receives the loss; may be NULL. */
TDM_API tdm_status tdm_train_step(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                                  tdm_fetch *fetches, size_t fetch_count,
                                  double *out_loss) TDM_WARN_UNUSED;

/* Result of a submitted run. */
typedef struct tdm_run_result {
  uint64_t run_id;     /* Id of the run, as tdm_submit_with returned it. */
  tdm_status status;   /* TDM_OK, or why the run failed or was stopped. */
  const char *message; /* Message of the failure, "" if there is none. Borrowed during the call. */
  double loss;         /* Loss of a training run. */
  /* (fetch_count): tensors, which the callback must release. Names are borrowed during the call. */
  tdm_fetch *fetches;
  size_t fetch_count; /* Number of fetches; 0 if the run failed. */
} tdm_run_result;

/* Type of the function that receives the result of a run. It is called exactly once per run, on the
 * context's loop. It may call any function of the library. tdm_context_close then returns before
 * the context is closed. */
typedef void (*tdm_run_callback)(void *user, tdm_run_result *result);

/* Starts a run and returns immediately. Runs of a session start in the order of submission. Inputs
 * on the host are copied before the function returns, unless they are handed over. If the function
 * fails, callback is never called.
 * @code
 * static void finished(void *user, tdm_run_result *result) {
 *   if (result->status == TDM_OK) tdm_tensor_release(result->fetches[0].tensor);
 * }
 *
 * static tdm_status start(tdm_session *session, tdm_tensor *x) {
 *   const tdm_feed feed = {"x", x, false};
 *   const tdm_fetch fetch = {"y", NULL};
 *   return tdm_submit(session, false, &feed, 1, &fetch, 1, finished, NULL);
 * }
 * @endcode
 * @param training true: a training step.
 * @param feeds (feed_count).
 * @param fetches (fetch_count): names of outputs; their tensors are not used.
 * @param callback receives the result.
 * @param user first argument of callback. */
TDM_API tdm_status tdm_submit(tdm_session *session, bool training, const tdm_feed *feeds,
                              size_t feed_count, const tdm_fetch *fetches, size_t fetch_count,
                              tdm_run_callback callback, void *user) TDM_WARN_UNUSED;

/* Options of tdm_submit_with. */
typedef struct tdm_submit_options {
  size_t struct_size;
  /* true: a training step. false: compute the fetches only. Default false. */
  bool training;
  tdm_run_callback callback; /* Called once, when the run has ended. It must be set. */
  void *user;                /* First argument of callback. */
  /* Nanoseconds from the call, planning included, 1 or more. A run that has not ended by then is
   * stopped as tdm_run_cancel does, with DEADLINE_EXCEEDED. Default TDM_NO_DEADLINE. */
  uint64_t deadline_ns;
  struct tdm_sequence *sequence; /* Sequence that the run belongs to. Default NULL: none. */
} tdm_submit_options;
static inline tdm_submit_options tdm_submit_options_default(void) {
  tdm_submit_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_submit_options);
  options.deadline_ns = TDM_NO_DEADLINE;
  return options;
}

/* Starts a run with a deadline and an id by which it can be cancelled. Otherwise as tdm_submit.
 * Fails with RESOURCE_EXHAUSTED if the session's queue_limit is reached.
 * @param options callback must be set.
 * @param out_run_id receives the run's id, which is not 0, before callback can be called; may be
 *     NULL. */
TDM_API tdm_status tdm_submit_with(tdm_session *session, const tdm_submit_options *options,
                                   const tdm_feed *feeds, size_t feed_count,
                                   const tdm_fetch *fetches, size_t fetch_count,
                                   uint64_t *out_run_id) TDM_WARN_UNUSED;

/* Cancels a submitted run. A run that waits leaves the queue immediately; a run in flight skips the
 * commands that it has not begun. It may be called in callbacks.
 * @param run_id id of a run of this session; it may have ended long ago.
 * @return true if the run is being stopped: its callback receives CANCELLED. false, without any
 *     effect, if the run has ended, was stopped before, or has entered its update phase, which it
 *     completes. So a cancelled run leaves all parameters unchanged. */
TDM_API bool tdm_run_cancel(tdm_session *session, uint64_t run_id);

/* ---- Sequences ------------------------------------------------------------------------------- */

/* State of consecutive runs: one value for each tdm_kept of the session's graph, which runs read
 * and write in place on its device. One run of a sequence is in flight at a time. Runs of different
 * sequences are concurrent as the session's depth allows. Reference counted. */
typedef struct tdm_sequence tdm_sequence;

/* Creates a sequence whose values are zeros. Not possible in a job of several ranks, nor in a
 * session with micro-batches. */
TDM_API tdm_sequence *tdm_sequence_create(tdm_session *session);

/* Adds a reference to the sequence and returns it. */
TDM_API tdm_sequence *tdm_sequence_retain(tdm_sequence *sequence);

/* Gives back a reference to the sequence. */
TDM_API void tdm_sequence_release(tdm_sequence *sequence);

/* Computes outputs as tdm_run does, as the next run of the sequence. (tdm_submit_options.sequence
 * submits one.)
 * @code
 * tdm_sequence *sequence = tdm_sequence_create(session);
 * tdm_status status = tdm_sequence_run(sequence, &feed, 1, &fetch, 1);
 * @endcode
 *
 * INVALID_ARGUMENT if another run of the sequence is in flight. If a run fails in its last phase,
 * in which tdm_keep changes values, the sequence is broken: its runs fail until it is reset or all
 * of its values are set.
 * @param feeds (feed_count).
 * @param fetches (fetch_count): their tensors receive the outputs. */
TDM_API tdm_status tdm_sequence_run(tdm_sequence *sequence, const tdm_feed *feeds,
                                    size_t feed_count, tdm_fetch *fetches,
                                    size_t fetch_count) TDM_WARN_UNUSED;

/* The following functions fail with INVALID_ARGUMENT while a run of the sequence is in flight. */

/* Sets all values of the sequence to zeros. */
TDM_API tdm_status tdm_sequence_reset(tdm_sequence *sequence) TDM_WARN_UNUSED;

/* Returns a copy of one value on cpu:0.
 * @param name path of the tdm_kept.
 * @param out_tensor receives the copy. */
TDM_API tdm_status tdm_sequence_get(tdm_sequence *sequence, const char *name,
                                    tdm_tensor **out_tensor) TDM_WARN_UNUSED;

/* Sets one value.
 * @param name path of the tdm_kept.
 * @param tensor of the value's dtype and shape, on any device; copied. */
TDM_API tdm_status tdm_sequence_set(tdm_sequence *sequence, const char *name,
                                    tdm_tensor *tensor) TDM_WARN_UNUSED;

/* Creates a sequence of the same session with copies of all values. */
TDM_API tdm_sequence *tdm_sequence_copy(tdm_sequence *sequence);

/* ---- Reports --------------------------------------------------------------------------------- */

/* Copies between devices in one run of a plan. */
typedef struct tdm_traffic {
  uint64_t edge_transfers;     /* Number of copies from one node to another. */
  uint64_t edge_bytes;         /* Bytes of these copies. */
  uint64_t boundary_transfers; /* Number of copies of inputs, targets, outputs and the loss. */
  uint64_t boundary_bytes;     /* Bytes of these copies. */
  /* Number of copies that refresh copies of parameters which are out of date by one update. */
  uint64_t refresh_transfers;
  uint64_t refresh_bytes; /* Bytes of these copies. */
} tdm_traffic;

/* Reports what the plan of the latest prepare or run copies between devices in one run. */
TDM_API tdm_status tdm_session_traffic(tdm_session *session,
                                       tdm_traffic *out_traffic) TDM_WARN_UNUSED;

/* Reports what the latest run of that plan copied to refresh copies of parameters; nothing if they
 * were up to date. For a table with sparse gradients this is one row per id of each update since
 * the last refresh, if these are known; otherwise the whole table.
 * @param out_transfers receives the number of copies.
 * @param out_bytes receives their bytes. */
TDM_API tdm_status tdm_session_refreshed(tdm_session *session, uint64_t *out_transfers,
                                         uint64_t *out_bytes) TDM_WARN_UNUSED;

/* Memory that one device uses for the plan of the latest prepare or run. */
typedef struct tdm_memory_use {
  /* Parameters whose home is this device, with their states and logs of changed rows. */
  uint64_t parameters_bytes;
  uint64_t copies_bytes;      /* Copies of parameters whose home is another device. */
  uint64_t activations_bytes; /* Results and received values of one run in flight. */
  uint64_t outputs_bytes;     /* Fetched outputs of one run. */
} tdm_memory_use;

/* Reports the memory that a device uses for the latest plan.
 * @param device "cpu:0".
 * @param out_use receives the numbers; zeros if the plan does not use the device. */
TDM_API tdm_status tdm_session_memory(tdm_session *session, const char *device,
                                      tdm_memory_use *out_use) TDM_WARN_UNUSED;

/* Format of a printed plan. */
typedef enum tdm_plan_format {
  TDM_PLAN_TEXT, /* Text for readers: every node, and every transfer with its cause. */
  TDM_PLAN_DOT,  /* A graph for graphviz. */
  TDM_PLAN_JSON, /* JSON. */
} tdm_plan_format;

/* Writes the layers of the latest plan to out, one per line, as Keras and torchinfo do.
 * @code{.unparsed}
 * layer                  device  output           parameters  bytes  time
 * -----------------------------------------------------------------------
 * embedding (embedding)  cpu:0   float32 [3, 6]          120   72 B     -
 * head (linear)          sim:0   float32 [3, 20]           0  240 B     -
 * -----------------------------------------------------------------------
 * parameters: 120; with all states 480 B
 * a run makes 312 B forward, transfers 792 B
 * @endcode
 * - layer: its path and its (last) operation.
 * - device: the devices that compute it.
 * - output: its result, with the sizes that were fed.
 * - parameters: number of trained elements that it reads and no layer above it reads.
 * - bytes: results of its forward nodes in a run, for all replicas and micro-batches together.
 * - time: if the session profiles, the sum of the median times of its forward, backward and update
 *   nodes.
 *
 * A layer that is fused into a later one has no bytes and no time of its own. INVALID_ARGUMENT if
 * there is no plan; tdm_session_prepare makes one. */
TDM_API tdm_status tdm_session_print_summary(tdm_session *session, FILE *out) TDM_WARN_UNUSED;

/* Writes the latest plan to out. For each transfer it has the cause, bytes, route, queue, kind of
 * host memory (pinned or pageable), predicted time, and the median of the latest measured times if
 * the session profiles. */
TDM_API tdm_status tdm_session_explain(tdm_session *session, tdm_plan_format format,
                                       FILE *out) TDM_WARN_UNUSED;

/* Format of a timeline. */
typedef enum tdm_trace_format {
  TDM_TRACE_CHROME, /* JSON in the Trace Event Format, which Perfetto and chrome://tracing open. */
  /* Text: how busy each queue was, overlap of copies and kernels, the critical path, what bounds
   * the runs, the most expensive nodes, and the bytes of every link. */
  TDM_TRACE_SUMMARY,
} tdm_trace_format;

/* Writes the timeline of the latest runs that have ended; tdm_session_options.trace_runs is their
 * number. Runs in flight continue.
 *
 * TDM_TRACE_CHROME has a process per device and a thread per queue, and a process "runs" with a
 * thread per concurrent run. Each executed command is an event ("kernel", "transfer" or "update")
 * with its run, its bytes, its route, its kind of host memory, and the commands that it depends on;
 * arrows show dependencies between queues. Events of category "wait" show that a queue waited.
 * Times are microseconds since the first event, on one clock for all devices (otherData.origin_ns
 * is the origin on CLOCK_MONOTONIC); the clocks of two GPUs agree to about ten microseconds.
 *
 * Recording reads the clock before and after each command; on a GPU it records two events. Plans of
 * recorded runs are not evicted from the cache. INVALID_ARGUMENT if trace_runs is 0, or no run has
 * ended. */
TDM_API tdm_status tdm_session_trace(tdm_session *session, tdm_trace_format format,
                                     FILE *out) TDM_WARN_UNUSED;

/* Writes an HTML page about the latest plan: what it copies, the memory of each device, and, if
 * trace_runs is not 0 and a run has ended, the timeline and what bounds the run. Any browser
 * displays it without network access. Times in the plan are measured if the session profiles. Needs
 * memory of the page's size while it writes. Runs in flight continue.
 *
 * INVALID_ARGUMENT if there is no plan; IO if out cannot be written to. */
TDM_API tdm_status tdm_session_report(tdm_session *session, FILE *out) TDM_WARN_UNUSED;

/* Makes the plan for the latest shapes again and writes the result of one pass.
 * @param pass name of a pass, such as "gradient", "place", "transfer", "schedule" or "memory";
 *     docs/architecture.md describes all of them.
 * @param format format of the result.
 * @param out receives the text. */
TDM_API tdm_status tdm_session_print_pass(tdm_session *session, const char *pass,
                                          tdm_plan_format format, FILE *out) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
