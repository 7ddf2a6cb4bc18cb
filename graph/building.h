/* Describing a graph: values, inputs and outputs, scopes and places, parameters, parallel
 * regions, places that are observed.
 *
 * Building needs no check per call: invalid values pass through, the first error sticks and
 * tdm_session_create reports it. Names are UTF-8, at least one character. A graph is built by one
 * thread; a session freezes it.
 *
 * The name of a layer, a loss, a function or a scope may be left out (NULL; "" is an error): it is
 * then the number of those in the innermost scope that were left out before it, "0", "1", ... as
 * torch.nn.Sequential numbers its modules, those without parameters too: linear, relu, linear have
 * "0.weight" and "2.weight", and load Sequential's files. What has a name does not count: so what
 * is a function and no module in PyTorch gets one, or moves the numbers behind it. A scope goes on
 * counting when it is pushed again. */
#ifndef TANDEM_GRAPH_BUILDING_H
#define TANDEM_GRAPH_BUILDING_H

#include <stdio.h>

#include "tandem/devices/devices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is described: nodes, parameters, where each lives. Counted references; one thread builds. */
typedef struct tdm_graph tdm_graph;

/* One result of one node of one graph. All zeros: invalid. */
typedef struct tdm_value {
  uint32_t graph; /* whose it is */
  uint32_t index; /* its number there, from 1 */
} tdm_value;
static inline bool tdm_value_is_valid(tdm_value value) {
  return value.index != 0;
}

/* ---- Building -------------------------------------------------------------------------------- */

/* Empty; retains the context. NULL, with a message, where memory is short. The caller releases it.
 */
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
/* The same, delivered as a tensor of device ("cuda:1"; "cuda": its first), wherever it is made.
 * device NULL: where it is made, so that it is not moved at all; of micro-batches, where the first
 * of them is made. In a job of several ranks the device is one of rank 0's, and each rank gets it
 * on its own device of that kind and number; making a session is UNAVAILABLE where a rank has none,
 * and INVALID_ARGUMENT where the device, named or not, is another rank's. */
TDM_API void tdm_output_on(tdm_graph *graph, const char *name, tdm_value value, const char *device);

/* Layers made from here on, in the innermost scope, live on device ("cuda:1"; "cuda": its first);
 * in a job of several ranks that is rank 0's, and "host:1/cuda:1" rank 1's. One that is not there
 * is the error of the first layer that would live on it, UNAVAILABLE. */
TDM_API void tdm_place(tdm_graph *graph, const char *device);
/* The node that makes value lives on device, whatever its scope says. */
TDM_API void tdm_place_value(tdm_graph *graph, tdm_value value, const char *device);
/* Names made until the matching pop are prefixed with "name/"; a placement or dtype set inside ends
 * with it. name may be NULL. */
TDM_API void tdm_scope_push(tdm_graph *graph, const char *name);
/* The same with "name/index/", as PyTorch names the members of a ModuleList; one pop ends it. */
TDM_API void tdm_scope_push_index(tdm_graph *graph, const char *name, int64_t index);
TDM_API void tdm_scope_pop(tdm_graph *graph);
/* The dtype of floating layers made from here on, in the innermost scope; default float32. */
TDM_API void tdm_scope_dtype(tdm_graph *graph, tdm_dtype dtype);
TDM_API tdm_dtype tdm_graph_dtype(const tdm_graph *graph);

/* evaluates: layers made from here on, in the innermost scope, compute in runs that train as in
 * runs that do not, as modules behind torch.nn.Module.eval: nothing is dropped, batch normalization
 * uses its running statistics and does not change them. For a frozen teacher in the graph of its
 * student. Parameters are trained as elsewhere: tdm_detach of the result, or a parameter group
 * without an optimizer, keeps them. Default false; a scope inherits it. */
TDM_API void tdm_scope_evaluate(tdm_graph *graph, bool evaluates);

/* Writes what has been built so far as layers below their scopes: what each computes, of which
 * dtype and shape its result is, where it was placed (if it was), and how many numbers the
 * parameters have that no layer above it reads; at the end their sum. As long as building has not
 * failed.
 *
 *   (embedding): embedding -> float32 [length, batch, 32], on cpu:0, 1792 parameters
 *   (block):
 *     (fc): linear -> float32 [batch, 10], 330 parameters
 *   2122 parameters
 */
TDM_API tdm_status tdm_graph_print(const tdm_graph *graph, FILE *out) TDM_WARN_UNUSED;

/* Rank -1 and TDM_DTYPE_NONE for an invalid value. */
TDM_API tdm_shape tdm_value_shape(const tdm_graph *graph, tdm_value value);
TDM_API tdm_dtype tdm_value_dtype(const tdm_graph *graph, tdm_value value);

/* How a parameter begins: which numbers, by a and b of tdm_initializer. */
typedef enum tdm_initializer_kind {
  TDM_INIT_ZEROS,
  TDM_INIT_CONSTANT, /* a */
  TDM_INIT_UNIFORM,  /* in [a, b) */
  TDM_INIT_NORMAL,   /* mean a, deviation b */
} tdm_initializer_kind;

/* The same, with its numbers. */
typedef struct tdm_initializer {
  tdm_initializer_kind kind; /* 0: zeros */
  double a;                  /* the constant, the least value, the mean */
  double b;                  /* the bound that values stay below, the deviation */
  int64_t zero_row;          /* >= 0: this row of dimension 0 is zeros instead; -1: none */
} tdm_initializer;

/* What layers made from here on under `name` would declare as parameters and states are those under
 * `of`, which are there by then, of equal shape and dtype: trained once, by the sum of the
 * gradients of all who read them, and saved once, under `of`. Both are paths below the innermost
 * scope, of layers (tdm_tie(graph, "head", "embedding"): head.weight is embedding.weight), of
 * parameters
 * ("head.weight"), or of scopes. A layer that is applied twice is tied to itself. */
TDM_API void tdm_tie(tdm_graph *graph, const char *name, const char *of);

/* A trainable parameter: "path/name" in the store, created there by the first session that binds
 * it. shape is concrete. Naming one that the graph has, with equal shape and dtype, answers the
 * same value (tied weights); layers take one that was named before them, and two layers do not take
 * the same one unless they are tied. A path that begins with "checkpoint/" is INVALID_ARGUMENT:
 * such names are a checkpoint's own. */
TDM_API tdm_value tdm_parameter(tdm_graph *graph, const char *name, tdm_dtype dtype,
                                tdm_shape shape, const tdm_initializer *initializer);
/* The same, but never trained by a gradient: running statistics, optimizer states. With `like`
 * valid it lives where that parameter lives. */
TDM_API tdm_value tdm_state(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape,
                            const tdm_initializer *initializer, tdm_value like);

/* A tensor that belongs to the graph: data, of the caller's, holds its elements (shape, row-major)
 * and is copied before the function returns. It never changes, has no gradient, and is in no file
 * and no state dict. shape is concrete. Like a parameter it lives where the first layer that reads
 * it does, once for all sessions of a store, and other devices keep copies; replicas and
 * micro-batches read it as a whole. name is a path below the scope, used in messages and reports;
 * NULL: a number.
 *
 *   const float mean[] = {0.485F, 0.456F, 0.406F};
 *   tdm_value centre = tdm_constant(graph, "mean", TDM_FLOAT32, tdm_shape_of(3, 3, 1, 1), mean);
 */
TDM_API tdm_value tdm_constant(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape,
                               const void *data);

/* A parameter or state that the graph has, by its path below the innermost scope ("fc.weight"):
 * torch.nn.Module.get_parameter. INVALID_ARGUMENT, naming those that there are, where it has none.
 */
TDM_API tdm_value tdm_get_parameter(tdm_graph *graph, const char *name);

/* The name itself; for NULL the next number of the innermost scope, which lives as long as the
 * graph. For a layer of one's own, which uses its name at several places: called once, it counts
 * once. "?" where the graph is NULL, failed, or frozen. */
TDM_API const char *tdm_graph_name(tdm_graph *graph, const char *name);
/* The stream of a random operation: a number for the path that name has in the innermost scope, so
 * that it draws the same wherever it stands; another one each time it is asked for by one path, in
 * the order of asking, so that no two operations draw the same. */
TDM_API uint64_t tdm_graph_stream(tdm_graph *graph, const char *name);

/* Makes name the sticky error (if none is yet) and answers the invalid value: for layers. */
TDM_API tdm_value tdm_graph_fail(tdm_graph *graph, tdm_status status, const char *format, ...)
    TDM_PRINTF(3, 4);
/* Puts the calling thread's last message, with its status, as the sticky error. */
TDM_API tdm_value tdm_graph_fail_message(tdm_graph *graph, tdm_status status);

/* ---- Parts, and parallel regions ------------------------------------------------------------- */

/* Cuts x along dimension (negative: from the end) into `count` parts, 1 to 64, of the sizes given,
 * which add up to x's; a name is the size of an input's that is fed. Parts that lie one after the
 * other in memory are views. Differentiable. */
TDM_API void tdm_split(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                       const tdm_dim *sizes, size_t count, tdm_value *out_parts);
/* PyTorch's chunk: x along dimension in `count` parts, 1 to 64, of ceil(size / count), the last of
 * which may be smaller. Where the dimension has a name, of what it is when it runs. A size that
 * fewer parts share out (5 in 4: 2, 2, 1) is an error. Differentiable. */
TDM_API void tdm_split_evenly(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                              size_t count, tdm_value *out_parts);
/* Puts 1 to 64 parts together along dimension; their other dimensions agree. Differentiable. */
TDM_API tdm_value tdm_concat(tdm_graph *graph, const char *name, const tdm_value *parts,
                             size_t count, int dimension);

/* How one value enters a parallel region. */
typedef struct tdm_scatter {
  tdm_value value;
  int dimension; /* that is cut; negative: from the end; TDM_BROADCAST: every replica reads all */
} tdm_scatter;
#define TDM_BROADCAST INT32_MIN

typedef struct tdm_parallel_options {
  size_t struct_size;
  const char *devices;        /* "cuda:0,cuda:1"; up to 64; one may stand twice; one alone: a
                                 pass-through. "cuda:*": all of the kind; "host:1/cuda:0": rank 1's
                                 in a job of several, and "*" for the 1 that of each rank */
  const char *output_device;  /* where results are put together; NULL: the first */
  const double *weights;      /* per device: rows are shared out in proportion; NULL: torch.chunk's
                                 chunks, ceil(rows / devices) each until they run out */
  const tdm_scatter *scatter; /* what is not named here is cut along dimension 0; scalars and
                                 parameters are broadcast */
  size_t scatter_count;
  bool spread_homes; /* parameters of the part have their homes on all of the devices, on each about
                        as many bytes; else on the first */
  double updated_everywhere; /* with spread_homes, of these bytes the share, 0 to 1, that every
                                device updates for itself */
  bool spread_rows; /* with spread_homes, of a large parameter every device has as many rows */
} tdm_parallel_options;
static inline tdm_parallel_options tdm_parallel_options_default(void) {
  tdm_parallel_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_parallel_options);
  return options;
}

/* Makes a parallel region of what has been built so far below scope ("block2", "" for everything,
 * or several that are one part together, "rnn,linear"): in every plan its nodes run once for each
 * chunk of rows, on a device of their own. Results are put together along the dimension that the
 * rows went into; gradients of parameters are summed at their home in the order of replicas. Values
 * that are cut must have equally many rows, at run time. Parallel regions may be nested, or follow
 * one another; of two over the same nodes the later one is around the other.
 *
 * A loss may be inside, so that no device has more of it than its rows' share: losses, sums and
 * means over the rows are the whole batch's, each replica's sum added in the order of replicas, on
 * the output device, a mean divided by what the whole batch counts (targets that are not ignored,
 * their weights, elements). What is made of these alone (two losses added) is computed there, once;
 * what goes on with them and with rows (x less its mean) waits for all replicas. So a loss differs
 * from that of one device by the rounding of sums of so many parts, and by nothing else; where the
 * chunks lie changes no bit with `deterministic`, how many there are does. Batch normalization
 * alone is of each replica's rows.
 *
 * Other functions of all rows (a maximum, a softmax along them), and what depends on where rows
 * stand among the others (slices, sorts, running sums and windows along them, reshapes that tear
 * them), would be those of each replica's rows. What is made of them, by whatever nodes, cannot
 * leave the part, and no sum or mean is made of it: a run is INVALID_ARGUMENT then, and its message
 * names the layer. Such layers belong outside of the part, which may be two with them in between.
 *
 * With spread_homes a device keeps the states of the optimizer for its own parameters alone, and
 * updates these alone (as ZeRO's first stage, Rajbhandari et al., "ZeRO: memory optimizations
 * toward training trillion parameter models", SC 2020): gradients go to the homes while the
 * backward pass computes, and what was updated to all other devices while the next run's forward
 * pass does. It holds for parameters that no session has bound before.
 *
 * With updated_everywhere as well gradients of about that share of the bytes, spread evenly over
 * the parameters in the order in which the part reads them, go around in rings: all devices keep
 * states of these and update their own copies, so that less has to cross under the next run's
 * forward pass, but more under the backward pass. A third is about right where both take as long.
 * Where the session is `deterministic` all gradients go to the homes, and where its options ask for
 * a `collective` all go by that; those that cannot be updated on every device, as it says there, go
 * to their homes.
 *
 * With spread_rows as well parameters of more than 1/32 of a device's share of the bytes, and of as
 * many rows (dimension 0) as there are devices, have their rows on all of them, but for those
 * updated everywhere and tables that are looked up. So as much crosses either way. Outside of the
 * library such a parameter is one, in files too. Every device puts it together for each of its
 * replicas, which takes memory for it, from where a run first reads it. Whole stay those that are
 * outputs, or whose gradients are asked for, and all of them in sessions of an optimizer that is
 * not is_by_element, of clip_norm with deterministic, or of a store that has one of them whole.
 * Sessions of one store want the same pieces, else making the second is INVALID_ARGUMENT.
 */
TDM_API void tdm_data_parallel(tdm_graph *graph, const char *scope,
                               const tdm_parallel_options *options);
/* The same over the nodes between values, whatever their names: those that outputs need and that
 * inputs are not made of. Their set must be convex, every value that enters it an input or a
 * parameter, and every value of it that nodes outside read, or runs fetch, an output; otherwise the
 * error names the node and the value. options->scatter names inputs. */
TDM_API void tdm_data_parallel_between(tdm_graph *graph, const tdm_value *inputs,
                                       size_t input_count, const tdm_value *outputs,
                                       size_t output_count, const tdm_parallel_options *options);

/* ---- Modules on devices of their own --------------------------------------------------------- */

/* What a module of PyTorch's is: layers, below a scope, that a function of the user's builds. */
typedef struct tdm_module {
  const char *name; /* the scope's; borrowed, as the rest */
  /* Appends the layers that make something of input, and answers it. */
  tdm_value (*build)(tdm_graph *graph, void *user, tdm_value input);
  void *user;
  const char *device; /* that they live on ("cuda:1"); NULL: where the innermost scope does */
  int replica;        /* of those that tdm_replicate makes: its number, from 0 */
} tdm_module;

/* torch.nn.parallel.replicate: replicas (of which there is room for `capacity`) become module on
 * each of devices ("cuda:0,cuda:1", "cuda:*"; one may stand twice). They have the same parameters,
 * which live on the first replica's device; the others read copies that are refreshed when they are
 * old, and gradients are summed. Running statistics are those of the first replica. Answers how
 * many there are; 0 with the graph's error. */
TDM_API size_t tdm_replicate(tdm_graph *graph, const tdm_module *module, const char *devices,
                             tdm_module *replicas, size_t capacity);
/* torch.nn.parallel.parallel_apply: module i is applied to inputs[i], which makes outputs[i], for
 * `count` of them, each a replica or a module of its own. What needs nothing of one another runs
 * side by side. If one fails the run does, and its message names it. */
TDM_API void tdm_parallel_apply(tdm_graph *graph, const tdm_module *modules,
                                const tdm_value *inputs, size_t count, tdm_value *outputs);

/* ---- Gradients as values --------------------------------------------------------------------- */

/* d loss / d value, of value's dtype and shape: torch.autograd.grad. value is a parameter, an
 * input, or what a layer has made; both are floating, loss a number that value has a part in, else
 * it is INVALID_ARGUMENT (torch's allow_unused=False). The answer is a value like others, to be
 * fetched or read; it lies where value does unless it is placed. What nobody fetches or reads is
 * not computed.
 *
 * In a run that trains it is the gradient that the optimizer gets, bit for bit, before clipping; in
 * another one the gradient of the model as it is evaluated (dropout drops nothing, batch
 * normalization reads its running statistics), and needs no optimizer. Parallel regions
 * and micro-batches sum it as training does. That of a table that is looked up is dense, with zeros
 * where no id was.
 *
 * A gradient is not differentiated again: a loss that depends on what is trained by way of one is
 * UNSUPPORTED, as is the gradient of one. tdm_detach of it may be read by any loss. */
TDM_API tdm_value tdm_gradient_of(tdm_graph *graph, const char *name, tdm_value loss,
                                  tdm_value value);
/* x itself, of any dtype, through which no gradient flows back: torch.Tensor.detach. */
TDM_API tdm_value tdm_detach(tdm_graph *graph, const char *name, tdm_value x);

/* ---- Kept between runs ----------------------------------------------------------------------- */

/* A value that a run leaves to the next of its sequence (sessions.h), such as a cache of keys and
 * values or a recurrent state; zeros in a fresh sequence. shape is concrete. It lies on one device:
 * as a device map says of its name, else where the innermost scope is placed, else where the first
 * node is that reads it. Runs that need it are runs of a sequence, and do not train. */
TDM_API tdm_value tdm_kept(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape);
/* Writes rows (n, ...), of kept's dtype and sizes behind the first, over those rows of kept that
 * indices, int32 or int64 (n), name: torch.Tensor.index_copy_ along dimension 0. In place, in each
 * run that needs kept; indices are distinct, and one that names no row fails the run. Answers kept
 * with these rows, which is to be read in its place from here on; no gradient flows back from it to
 * rows. A run that fails or is cancelled may have written its rows. Not inside of a parallel
 * region. */
TDM_API tdm_value tdm_keep_rows(tdm_graph *graph, const char *name, tdm_value kept, tdm_value rows,
                                tdm_value indices);
/* The next run of the sequence begins with value, of kept's dtype and shape, in kept's place;
 * whatever this run reads of kept is as it began. A run that fails or is cancelled before it ends
 * leaves kept as it was. */
TDM_API void tdm_keep(tdm_graph *graph, const char *name, tdm_value kept, tdm_value value);

/* ---- Sharded tables -------------------------------------------------------------------------- */

typedef enum tdm_shard_by {
  TDM_SHARD_ROWS,  /* every device has some rows of each table (TorchRec's row-wise) */
  TDM_SHARD_TABLES /* every device has some of the tables, each as a whole (table-wise) */
} tdm_shard_by;

typedef struct tdm_shard_options {
  size_t struct_size;
  const char *devices; /* "cpu:0,cpu:1", "host:0/cuda:0,host:1/cuda:0"; up to 64, each once */
  tdm_shard_by by;
  const double *weights; /* per device: rows, or bytes of tables, are shared out in proportion;
                            NULL: torch.chunk's chunks of rows, or as evenly as tables allow */
} tdm_shard_options;
static inline tdm_shard_options tdm_shard_options_default(void) {
  tdm_shard_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_shard_options);
  options.by = TDM_SHARD_ROWS;
  return options;
}

/* Shards tables: those that what has been built so far below `scopes` ("users", "users,items", ""
 * for everything) looks up by ids (tdm_embedding, tdm_embedding_bag). A device looks up the rows
 * that it has, and keeps them: only ids go to it, and rows come back, all of one look-up in one
 * piece, to wherever the look-up is placed, where bags are made of them; of gradients those of rows
 * that were looked up go to it. Optimizer states lie beside their rows.
 *
 * Results and initial values are those of the whole table, bit for bit, and so are gradients but in
 * the last bit where bags are means or scaled; checkpoints have the table as one, whatever the
 * number of shards. By rows each shard answers every id of a look-up, with
 * zeros where another has the row, since plans are proven before ids are known: count n answers of
 * which n are read (tdm_session_explain tells the bytes).
 *
 * Sharding a table twice is an error. Where anything but such look-ups reads or delivers a table
 * that is sharded by rows, making a session is one. */
TDM_API void tdm_shard(tdm_graph *graph, const char *scopes, const tdm_shard_options *options);

/* ---- Observing ------------------------------------------------------------------------------- */

/* A place that tensors pass: sessions with an observer show what a run had there. Answers value to
 * go on with; what nothing goes on with is not observed. name is a path below the scope; inside a
 * parallel region every replica passes it. */
TDM_API tdm_value tdm_observe(tdm_graph *graph, const char *name, tdm_value value);

typedef struct tdm_observation {
  const char *name;         /* the place's path */
  int replica;              /* its number; 0 outside of parallel regions */
  const tdm_tensor *tensor; /* on cpu:0; borrowed for the call, or retained by the observer */
  int micro_batch;          /* its number; 0 where the batch is not cut */
} tdm_observation;

/* Called when a run has succeeded, for every place, replica after replica: by the thread in
 * tdm_run, or on the loop before the run's callback. */
typedef void (*tdm_observer)(void *user, const tdm_observation *observation);

#ifdef __cplusplus
}
#endif
#endif
