/* Public part of graph/: describing a graph, operations of a user's own, the parameter store,
 * sessions and runs. Knows no layer (layers/) and no backend.
 *
 *   graph --(session: passes)--> plan --(run)--> queues of devices
 *
 * Building needs no check per call: invalid values pass through, the first error sticks and
 * tdm_session_create reports it. A graph is built by one thread; a session freezes it. */
#ifndef TANDEM_GRAPH_GRAPH_H
#define TANDEM_GRAPH_GRAPH_H

#include <stdio.h>

#include "devices/devices.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_graph tdm_graph;
typedef struct tdm_store tdm_store;
typedef struct tdm_session tdm_session;

/* One result of one node of one graph. All zeros: invalid. */
typedef struct tdm_value {
  uint32_t graph;
  uint32_t index;
} tdm_value;
static inline bool tdm_value_is_valid(tdm_value value) {
  return value.index != 0;
}

/* ---- Building ------------------------------------------------------------------------------ */

TDM_API tdm_graph *tdm_graph_create(tdm_context *context);
TDM_API tdm_graph *tdm_graph_retain(tdm_graph *graph);
TDM_API void tdm_graph_release(tdm_graph *graph); /* NULL is legal */
/* The first error of building, TDM_OK so far; sets the thread's message to it. */
TDM_API tdm_status tdm_graph_status(const tdm_graph *graph);
TDM_API tdm_context *tdm_graph_context(const tdm_graph *graph); /* borrowed */

/* What a run is fed under name. shape may have named dimensions. */
TDM_API tdm_value tdm_input(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape);
/* Lets runs fetch value under name; it is delivered on cpu:0. */
TDM_API void tdm_output(tdm_graph *graph, const char *name, tdm_value value);

/* Layers made from here on, in the innermost scope, live on device ("cpu:0"). */
TDM_API void tdm_place(tdm_graph *graph, const char *device);
/* The node that makes value lives on device, whatever its scope says. */
TDM_API void tdm_place_value(tdm_graph *graph, tdm_value value, const char *device);
/* Names made until the matching pop are prefixed with "name/"; a placement or dtype set inside ends
 * with it. */
TDM_API void tdm_scope_push(tdm_graph *graph, const char *name);
TDM_API void tdm_scope_pop(tdm_graph *graph);
/* The dtype of floating layers made from here on, in the innermost scope; default float32. */
TDM_API void tdm_scope_dtype(tdm_graph *graph, tdm_dtype dtype);
TDM_API tdm_dtype tdm_graph_dtype(const tdm_graph *graph);

/* Rank -1 and TDM_DTYPE_NONE for an invalid value. */
TDM_API tdm_shape tdm_value_shape(const tdm_graph *graph, tdm_value value);
TDM_API tdm_dtype tdm_value_dtype(const tdm_graph *graph, tdm_value value);

typedef enum tdm_initializer_kind {
  TDM_INIT_ZEROS,
  TDM_INIT_CONSTANT, /* a */
  TDM_INIT_UNIFORM,  /* in [a, b) */
  TDM_INIT_NORMAL,   /* mean a, deviation b */
} tdm_initializer_kind;

typedef struct tdm_initializer {
  tdm_initializer_kind kind;
  double a;
  double b;
  int64_t zero_row; /* >= 0: this row of dimension 0 is zeros instead; -1: none */
} tdm_initializer;

/* A trainable parameter: "path/name" in the store, created there by the first session that binds
 * it. shape is concrete. Naming one that the graph has, with equal shape and dtype, answers the
 * same value (tied weights). */
TDM_API tdm_value tdm_parameter(tdm_graph *graph, const char *name, tdm_dtype dtype,
                                tdm_shape shape, const tdm_initializer *initializer);
/* The same, but never trained by a gradient: running statistics, optimizer states. With `like`
 * valid it lives where that parameter lives. */
TDM_API tdm_value tdm_state(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape,
                            const tdm_initializer *initializer, tdm_value like);

/* A number for the path that name has in the innermost scope: the stream of a random operation. */
TDM_API uint64_t tdm_graph_stream(tdm_graph *graph, const char *name);

/* Makes name the sticky error (if none is yet) and answers the invalid value: for layers. */
TDM_API tdm_value tdm_graph_fail(tdm_graph *graph, tdm_status status, const char *format, ...)
    TDM_PRINTF(3, 4);
/* Puts the calling thread's last message, with its status, as the sticky error. */
TDM_API tdm_value tdm_graph_fail_message(tdm_graph *graph, tdm_status status);

/* ---- Operations ---------------------------------------------------------------------------- */

/* What a shape rule reads and writes. Dimensions may be names or unknown. An absent optional input
 * has dtype TDM_DTYPE_NONE. Rules set dtype and shape of every output; format stays dense. */
typedef struct tdm_infer {
  const void *attributes;
  const tdm_spec *inputs;
  size_t input_count;
  tdm_spec *outputs;
  size_t output_count;
} tdm_infer;

/* Do two dimensions agree within one run? Names equal only themselves; unknown agrees with all. */
TDM_API bool tdm_dim_agree(tdm_dim a, tdm_dim b);
/* The more certain of two agreeing dimensions: a size before a name before unknown. */
TDM_API tdm_dim tdm_dim_merge(tdm_dim a, tdm_dim b);

typedef struct tdm_gradient tdm_gradient;
typedef struct tdm_chunked tdm_chunked;

typedef struct tdm_operation {
  size_t struct_size;
  const char *name; /* finds the kernel; static storage, as the rest of the struct */
  size_t attribute_bytes;
  uint8_t min_inputs;
  uint8_t max_inputs;
  uint8_t output_count;
  bool is_view; /* the outputs are the first input's memory, one after the other: no kernel */
  /* overwrites[i] = j + 1: output i is input j, rewritten in place (persistent values only). */
  uint8_t overwrites[TDM_KERNEL_MAX_OUTPUTS];
  tdm_status (*infer)(tdm_infer *infer);
  /* Appends the operations that make the gradients of the inputs; NULL: none flows back. */
  tdm_status (*gradient)(tdm_gradient *gradient);
  /* How many outputs a node has, where that depends on its attributes; NULL: output_count. */
  size_t (*count_outputs)(const void *attributes);
  /* What stands in a node's place when a run trains: takes the same attributes and inputs, makes
   * the same outputs and perhaps more behind them. NULL: the node is itself in every run. */
  const struct tdm_operation *when_training;
  /* Appends what training writes into states besides the optimizer's, such as running statistics:
   * nodes that overwrite them join the update phase. Of replicas, only the first is asked. It may
   * use tdm_gradient_graph, _name, _attributes, _input and _output. NULL: nothing. */
  tdm_status (*persist)(tdm_gradient *gradient);
  /* Bit i: input i is there for `persist` alone; kernels see NULL in its place. */
  uint32_t persist_inputs;
  /* 1 + where in the attributes a tdm_chunk stands, of output 0, which wrapping fills for every
   * replica; 0: nowhere. */
  uint16_t chunk_at;
  /* How a node is computed in micro-batches, where it is not row by row; NULL: tdm_chunked_each. */
  tdm_status (*chunk)(tdm_chunked *chunked);
} tdm_operation;

/* Appends a node: name is its path below the scope; attributes are copied. inputs may hold invalid
 * values for absent optional ones. Answers the first output; outputs, unless NULL, gets all
 * output_count. operation must outlive the graph. */
TDM_API tdm_value tdm_append(tdm_graph *graph, const tdm_operation *operation, const char *name,
                             const void *attributes, const tdm_value *inputs, size_t input_count,
                             tdm_value *outputs);

/* What a gradient rule works with. Operations it appends become backward nodes that follow the
 * forward node's device. */
TDM_API tdm_graph *tdm_gradient_graph(tdm_gradient *gradient);
TDM_API const char *tdm_gradient_name(const tdm_gradient *gradient); /* of the forward node */
TDM_API const void *tdm_gradient_attributes(const tdm_gradient *gradient);
TDM_API tdm_value tdm_gradient_input(const tdm_gradient *gradient, size_t index);
TDM_API tdm_value tdm_gradient_output(const tdm_gradient *gradient, size_t index);
/* The adjoint of an output; invalid when nothing flows back through it. */
TDM_API tdm_value tdm_gradient_of_output(const tdm_gradient *gradient, size_t index);
/* Is the adjoint of this input needed? */
TDM_API bool tdm_gradient_wanted(const tdm_gradient *gradient, size_t index);
TDM_API void tdm_gradient_set(tdm_gradient *gradient, size_t index, tdm_value d_input);
/* The adjoint of a table as rows (n, dim), indices int64 (n) and count int64 (). */
TDM_API void tdm_gradient_set_sparse(tdm_gradient *gradient, size_t index, tdm_value rows,
                                     tdm_value indices, tdm_value count);

/* ---- Micro-batches: what a rule `chunk` works with ----------------------------------------- */

/* Where the rows of the batch lie in a value of which every micro-batch has a part. */
typedef struct tdm_cut {
  int dimension; /* that is cut; -1: none, all micro-batches read one value */
  int64_t outer; /* 1; more where a reshape made (length, batch) one dimension */
} tdm_cut;

TDM_API tdm_graph *tdm_chunked_graph(tdm_chunked *chunked);
TDM_API const char *tdm_chunked_name(const tdm_chunked *chunked); /* of the node */
TDM_API const void *tdm_chunked_attributes(const tdm_chunked *chunked);
TDM_API size_t tdm_chunked_count(const tdm_chunked *chunked); /* micro-batches; at most 64 */
TDM_API tdm_cut tdm_chunked_cut(const tdm_chunked *chunked, size_t input);
TDM_API tdm_shape tdm_chunked_shape(const tdm_chunked *chunked, size_t input); /* of the whole */
TDM_API tdm_shape tdm_chunked_output_shape(const tdm_chunked *chunked, size_t output);
TDM_API tdm_value tdm_chunked_input(const tdm_chunked *chunked, size_t input, size_t part);
/* The whole of an input, where it is not cut or was fed; invalid where there are only its parts. */
TDM_API tdm_value tdm_chunked_whole(const tdm_chunked *chunked, size_t input);
/* Computes the node for every micro-batch (attributes NULL: its own). An output is cut where the
 * parts' shapes differ from the whole's; one that is not, must be set whole before it is read. */
TDM_API tdm_status tdm_chunked_each(tdm_chunked *chunked, const void *attributes) TDM_WARN_UNUSED;
/* The same for a node that mixes what lies along dimension of input: INVALID_ARGUMENT if that is
 * where the rows are. */
TDM_API tdm_status tdm_chunked_rows(tdm_chunked *chunked, int dimension,
                                    size_t input) TDM_WARN_UNUSED;
/* After tdm_chunked_each: an output of a part; where its rows are; what stands for all parts. */
TDM_API tdm_value tdm_chunked_output(const tdm_chunked *chunked, size_t output, size_t part);
TDM_API void tdm_chunked_set_cut(tdm_chunked *chunked, size_t output, tdm_cut cut);
TDM_API void tdm_chunked_set_whole(tdm_chunked *chunked, size_t output, tdm_value whole);
/* The sum of one value a micro-batch, in their order. Differentiable. */
TDM_API tdm_value tdm_chunked_sum(tdm_chunked *chunked, const tdm_value *parts);

/* ---- Parts, and wrapping ------------------------------------------------------------------- */

/* Cuts x along dimension (negative: from the end) into `count` parts, 1 to 64, of the sizes given,
 * which add up to x's. Parts that lie one after the other in memory are views. Differentiable. */
TDM_API void tdm_split(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                       const tdm_dim *sizes, size_t count, tdm_value *out_parts);
/* Puts 1 to 64 parts together along dimension; their other dimensions agree. Differentiable. */
TDM_API tdm_value tdm_concat(tdm_graph *graph, const char *name, const tdm_value *parts,
                             size_t count, int dimension);

/* How one value enters a wrapped part. */
typedef struct tdm_scatter {
  tdm_value value;
  int dimension; /* that is cut; negative: from the end; TDM_BROADCAST: every replica reads all */
} tdm_scatter;
#define TDM_BROADCAST INT32_MIN

typedef struct tdm_parallel_options {
  size_t struct_size;
  const char *devices;        /* "cuda:0,cuda:1"; up to 64; one may stand twice; one alone: a
                                 pass-through */
  const char *output_device;  /* where results are put together; NULL: the first */
  const double *weights;      /* per device: rows are shared out in proportion; NULL: torch.chunk's
                                 chunks, ceil(rows / devices) each until they run out */
  const tdm_scatter *scatter; /* what is not named here is cut along dimension 0; scalars and
                                 parameters are broadcast */
  size_t scatter_count;
} tdm_parallel_options;

/* Wraps what has been built so far below scope ("block2", "" for everything, or several that are
 * one part together, "rnn,linear"): in every plan its nodes run once for each chunk of rows, on a
 * device of their own. Results are put together along the dimension that the rows went into;
 * gradients of parameters are summed at their home in the order of replicas. Values that are cut
 * must have equally many rows, at run time. Wrapped parts may be nested, or follow one another. */
TDM_API void tdm_data_parallel(tdm_graph *graph, const char *scope,
                               const tdm_parallel_options *options);
/* The same over the nodes between values, whatever their names: those that outputs need and that
 * inputs are not made of. Their set must be convex, every value that enters it an input or a
 * parameter, and every value of it that nodes outside read, or runs fetch, an output; otherwise the
 * error names the node and the value. options->scatter names inputs. */
TDM_API void tdm_data_parallel_between(tdm_graph *graph, const tdm_value *inputs,
                                       size_t input_count, const tdm_value *outputs,
                                       size_t output_count, const tdm_parallel_options *options);

/* ---- Observing ----------------------------------------------------------------------------- */

/* A place that tensors pass: sessions with an observer show what a run had there. Answers value to
 * go on with; what nothing goes on with is not observed. name is a path below the scope; inside a
 * wrapped part every replica passes it. */
TDM_API tdm_value tdm_observe(tdm_graph *graph, const char *name, tdm_value value);

typedef struct tdm_observation {
  const char *name;         /* the place's path */
  int replica;              /* its number; 0 outside of wrapped parts */
  const tdm_tensor *tensor; /* on cpu:0; borrowed for the call, or retained by the observer */
  int micro_batch;          /* its number; 0 where the batch is not cut */
} tdm_observation;

/* Called when a run has succeeded, for every place, replica after replica: by the thread in
 * tdm_run, or on the loop before the run's callback. */
typedef void (*tdm_observer)(void *user, const tdm_observation *observation);

/* ---- Optimizers ---------------------------------------------------------------------------- */

typedef struct tdm_update tdm_update;

/* Appends the update phase: called once a training plan, with every parameter that has a gradient,
 * in the order the graph declares them. Nodes it appends that overwrite persistent values form the
 * last phase; each update follows its parameter's device. */
typedef struct tdm_optimizer_rule {
  const char *name;
  bool accepts_sparse;
  tdm_status (*append)(tdm_update *update);
} tdm_optimizer_rule;

typedef struct tdm_optimizer {
  const tdm_optimizer_rule *rule;
  double learning_rate; /* the first; tdm_session_set_learning_rate changes it */
  double clip_norm;   /* gradients are scaled so that their joint norm is at most this; 0: never */
  double settings[8]; /* the rule's own */
} tdm_optimizer;

TDM_API tdm_graph *tdm_update_graph(tdm_update *update);
TDM_API const tdm_optimizer *tdm_update_optimizer(const tdm_update *update);
TDM_API size_t tdm_update_count(const tdm_update *update);
TDM_API tdm_value tdm_update_parameter(const tdm_update *update, size_t index);
TDM_API const char *tdm_update_name(const tdm_update *update, size_t index);
TDM_API bool tdm_update_is_sparse(const tdm_update *update, size_t index);
/* Dense: the gradient. Sparse: its rows; indices and count by the other two. */
TDM_API tdm_value tdm_update_gradient(const tdm_update *update, size_t index);
TDM_API tdm_value tdm_update_indices(const tdm_update *update, size_t index);
TDM_API tdm_value tdm_update_rows_count(const tdm_update *update, size_t index);

/* ---- The store ----------------------------------------------------------------------------- */

/* Parameters and states by name, shared by sessions. Any thread. */
TDM_API tdm_store *tdm_store_create(tdm_context *context);
TDM_API tdm_store *tdm_store_retain(tdm_store *store);
TDM_API void tdm_store_release(tdm_store *store);
/* Copies of everything as host tensors, in creation order; states of optimizers too, as
 * "optimizer/NAME/exp_avg", if with_states. Waits for runs in flight. NULL on failure. */
TDM_API tdm_tensor_list *tdm_store_save(tdm_store *store, bool with_states);
/* Sets what it has under the list's names (a "module." in front of a name or of a part of it is
 * passed over where nothing has that name) and keeps the others for sessions to come; mends a
 * broken store once all its parameters are set. Nothing is changed when a shape or dtype does not
 * fit: the message names it. */
TDM_API tdm_status tdm_store_load(tdm_store *store, const tdm_tensor_list *list) TDM_WARN_UNUSED;
/* How often parameters were rewritten; 0 when fresh. */
TDM_API uint64_t tdm_store_version(const tdm_store *store);
/* TDM_OK, or why it is broken: a failure inside an update phase. */
TDM_API tdm_status tdm_store_status(tdm_store *store);

/* ---- Sessions ------------------------------------------------------------------------------ */

/* The number of micro-batches is chosen, for each set of shapes, by what its first runs take. */
#define TDM_MICRO_BATCHES_AUTO (-1)

typedef struct tdm_session_options {
  size_t struct_size;
  tdm_store *store;               /* NULL: one of its own */
  tdm_value loss;                 /* a floating scalar; invalid: the session cannot train */
  const tdm_optimizer *optimizer; /* copied */
  const char *device_map; /* "embedding=cpu:0,rnn=sim:0,*=cpu:0"; TANDEM_PLACE is stronger */
  uint64_t seed;          /* of initial values and of random operations */
  int depth; /* runs in flight, training ones too: the inputs of one are uploaded under the compute
                of the one before; each has activations of its own; 0: 1 */
  int queue_limit; /* submitted runs beyond depth that are not delivered yet; 0: any number */
  int plan_limit;  /* cached plans; 0: 64 */
  bool deterministic;
  bool check_finite;     /* a loss that is not finite fails the run before anything is updated */
  bool strict;           /* a copy through pageable or unplanned memory is an error */
  bool profile;          /* record times of every command, for tdm_session_explain */
  int trace_runs;        /* the latest runs whose timeline is kept, for tdm_session_trace; 0: none,
                            and then nothing is recorded */
  tdm_observer observer; /* NULL: places are passed unseen */
  void *observer_user;
  /* Called on the loop when there is room again, once after a submission was refused with
   * RESOURCE_EXHAUSTED; NULL: nobody asks. */
  void (*writable)(void *user);
  void *writable_user;
  /* Into how many parts (torch.chunk's) runs cut their batch, so that devices that follow one
   * another work at the same time; 0 or 1: none; at most 64; or TDM_MICRO_BATCHES_AUTO. Results are
   * those of the whole batch: losses are divided by its targets, gradients are summed in the order
   * of the parts. */
  int micro_batches;
  const char *batch_dimension; /* its name; NULL: the one that all inputs of the loss (of the
                                  outputs, without a loss) share, "batch" if they share several */
} tdm_session_options;

/* Runs the shape rules, placement and kernel look-up; binds parameters in the store. options may
 * be NULL. NULL on failure: tdm_last_message() says which layer, its shapes and devices. */
TDM_API tdm_session *tdm_session_create(tdm_graph *graph, const tdm_session_options *options);
TDM_API tdm_session *tdm_session_retain(tdm_session *session);
/* The last release waits for runs in flight. NULL is legal. */
TDM_API void tdm_session_release(tdm_session *session);
TDM_API tdm_store *tdm_session_store(tdm_session *session); /* borrowed */
/* Of steps that are submitted, or begun by tdm_train_step, from here on. */
TDM_API void tdm_session_set_learning_rate(tdm_session *session, double learning_rate);

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
/* Forward, backward and update; out_loss may be NULL. On failure before the update phase nothing
 * is changed; inside it the store is broken until parameters are loaded. */
TDM_API tdm_status tdm_train_step(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                                  tdm_fetch *fetches, size_t fetch_count,
                                  double *out_loss) TDM_WARN_UNUSED;

typedef struct tdm_run_result {
  uint64_t run_id;
  tdm_status status;
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
  bool training;
  tdm_run_callback callback;
  void *user;
  uint64_t deadline_ns; /* from now; a run that has not ended by then is stopped, as by
                           tdm_run_cancel, with DEADLINE_EXCEEDED; 0: none */
} tdm_submit_options;

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

/* ---- Asking -------------------------------------------------------------------------------- */

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
  uint64_t outputs_bytes;     /* of one run's fetches, handed out on cpu:0 */
} tdm_memory_use;

/* Fills out_use for device, "cpu:0"; zeros where the plan does not use it. */
TDM_API tdm_status tdm_session_memory(tdm_session *session, const char *device,
                                      tdm_memory_use *out_use) TDM_WARN_UNUSED;

typedef enum tdm_plan_format {
  TDM_PLAN_TEXT, /* the plan told for a reader: every node, every transfer with its cause */
  TDM_PLAN_DOT,  /* for graphviz */
  TDM_PLAN_JSON,
} tdm_plan_format;

/* Writes the latest plan to out: per transfer its cause, bytes, route, queue, pinned or pageable,
 * predicted time, and the median of the latest measured times where the session profiles. */
TDM_API tdm_status tdm_session_explain(tdm_session *session, tdm_plan_format format,
                                       FILE *out) TDM_WARN_UNUSED;
typedef enum tdm_trace_format {
  TDM_TRACE_CHROME,  /* JSON in the Trace Event Format, which Perfetto and chrome://tracing open */
  TDM_TRACE_SUMMARY, /* text: busy shares, overlap, critical path, what bounds the runs */
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
/* Writes what a pass left behind ("lower", "place", "gradient", "layout", "transfer", "schedule",
 * "memory", "verify"; see docs/architecture.md) when the plan for the latest shapes is made
 * anew. */
TDM_API tdm_status tdm_session_print_pass(tdm_session *session, const char *pass,
                                          tdm_plan_format format, FILE *out) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
