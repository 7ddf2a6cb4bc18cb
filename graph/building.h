/* Describing a graph: values, inputs and outputs, scopes and placement, parameters, parallel
 * regions, gradients, state between runs, sharded tables and observers.
 *
 * A graph is described by calls that append layers to it. tdm_session_create freezes it; nothing
 * can be appended afterwards.
 *
 * @par Conventions of all functions that build a graph
 * - Errors: the first error is stored in the graph, and further calls do nothing. A function that
 *   returns a tdm_value then returns an invalid value, which later calls accept. So a program need
 *   not check each call: tdm_session_create reports the stored error. tdm_graph_status returns it
 *   earlier.
 * - Threads: one thread at a time builds a graph.
 * - `graph` is the graph to append to.
 * - `name` is the name of the layer or function below the innermost scope, at least one character.
 *   It appears in messages and reports, and parameters are found by it: the weight of a layer "fc"
 *   in a scope "block" is "block/fc.weight". "" is an error.
 * - `name` of a layer, loss, function or scope may be NULL, which selects the next number of the
 *   innermost scope: "0", "1", ... as torch.nn.Sequential numbers its modules. Layers without
 *   parameters are counted too: linear, relu and linear without names have the parameters
 *   "0.weight", "2.weight" and so on, and load files of a Sequential. A layer that has a name is
 *   not counted. So give names to layers that are functions and not modules in PyTorch; otherwise
 *   they shift the numbers of the layers after them. A scope continues to count when it is pushed
 *   again. Names of inputs, outputs, parameters and states cannot be NULL.
 * - `x`, `a`, `b` and other values are results of earlier calls on the same graph. An invalid value
 *   is accepted only if the graph has an error already, or if a comment allows it.
 * - Shapes have any number of dimensions unless a comment states otherwise, and a dimension may be
 *   a size or a name, whose size is known when the graph runs. "n must be a size" excludes names.
 * - Dimensions are numbered from 0. A negative number counts from the end: -1 is the last one.
 *   Functions for any number of dimensions take a list, `dimensions`, and its length, `count`; each
 *   dimension occurs once. They are the reductions tdm_sum, tdm_mean, tdm_variance, tdm_std,
 *   tdm_norm, tdm_prod and tdm_logsumexp, and tdm_flip and tdm_permute. In a reduction `count` 0
 *   selects all dimensions, and `dimensions` may be NULL. All other functions take one `dimension`,
 *   also tdm_max, tdm_min and tdm_median, which select an element. If `keep` is true, a reduced
 *   dimension remains with size 1; otherwise it is removed.
 * - Gradients flow from a result to every floating value that it was computed from, unless a
 *   comment states otherwise.
 *
 * @code
 * tdm_graph *graph = tdm_graph_create(context);
 * tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
 * tdm_value y = tdm_linear(graph, "fc", x, 2);
 * tdm_value sums = tdm_sum(graph, NULL, y, (int[]){-1}, 1, false); // (batch)
 * tdm_value mean = tdm_mean(graph, NULL, y, NULL, 0, false);       // ()
 * tdm_output(graph, "y", y);
 * @endcode
 */
#ifndef TANDEM_GRAPH_BUILDING_H
#define TANDEM_GRAPH_BUILDING_H

#include <stdio.h>

#include "tandem/devices/devices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A description of a model: its nodes, its parameters, and the device of each. Reference counted.
 */
typedef struct tdm_graph tdm_graph;

/* A handle to one result of one node of one graph. All zeros: an invalid value. */
typedef struct tdm_value {
  uint32_t graph; /* Identifies the graph. */
  uint32_t index; /* Number of the value in that graph, from 1; 0: invalid. */
} tdm_value;
/* The invalid value: an optional argument that is omitted, and the result of a layer that fails. */
#ifdef __cplusplus
#define TDM_NO_VALUE (tdm_value{0, 0})
#else
#define TDM_NO_VALUE ((tdm_value){0, 0})
#endif

/* Returns true if value refers to a result. */
static inline bool tdm_value_is_valid(tdm_value value) {
  return value.index != 0;
}

/* ---- Graphs, inputs, outputs and scopes ------------------------------------------------------ */

/* Creates an empty graph. It retains the context. Returns NULL if there is no memory. */
TDM_API tdm_graph *tdm_graph_create(tdm_context *context);

/* Adds a reference to the graph and returns it. */
TDM_API tdm_graph *tdm_graph_retain(tdm_graph *graph);

/* Gives back a reference to the graph. */
TDM_API void tdm_graph_release(tdm_graph *graph);

/* Returns the first error of building, or TDM_OK if there is none. It also sets the calling
 * thread's message to that of the error. */
TDM_API tdm_status tdm_graph_status(const tdm_graph *graph);

/* Returns the context of the graph; borrowed. */
TDM_API tdm_context *tdm_graph_context(const tdm_graph *graph);

/* Declares an input: a tensor that each run is fed under this name.
 * @param name path below the innermost scope; the graph must not have another input of that path.
 * @param dtype any dtype.
 * @param shape may have names, whose sizes are those of the tensor that is fed.
 * @return the input's value. */
TDM_API tdm_value tdm_input(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape);

/* Declares an output: runs can fetch value under this name. It is delivered on cpu:0. */
TDM_API void tdm_output(tdm_graph *graph, const char *name, tdm_value value);

/* Declares an output that is delivered on a given device, wherever value is computed.
 * @param device for example "cuda:1"; "cuda" is the first of that kind. NULL: the device that
 *     computes value, so that it is not copied. With micro-batches, this is the device of the first
 *     one.
 *
 * In a job of several ranks, device names a device of rank 0, and every rank receives the output on
 * its own device of the same kind and index. Creating a session fails with UNAVAILABLE if a rank
 * has no such device, and with INVALID_ARGUMENT if the device, given or implied by NULL, belongs to
 * another rank than 0. */
TDM_API void tdm_output_on(tdm_graph *graph, const char *name, tdm_value value, const char *device);

/* Sets the device of the layers that are appended from here on in the innermost scope.
 * @param device "cuda:1"; "cuda" is the first of that kind. In a job of several ranks this is a
 *     device of rank 0; "host:1/cuda:1" names one of rank 1.
 *
 * If there is no such device, the first layer that would be placed on it fails with UNAVAILABLE. */
TDM_API void tdm_place(tdm_graph *graph, const char *device);

/* Places the node that computes value on device, regardless of its scope's placement.
 * INVALID_ARGUMENT for inputs and parameters, which follow the nodes that read them. */
TDM_API void tdm_place_value(tdm_graph *graph, tdm_value value, const char *device);

/* Opens a scope: names of layers have the prefix "name/" until tdm_scope_pop. A placement, dtype or
 * evaluation mode that is set inside ends with the scope.
 * @code
 * tdm_scope_push(graph, "encoder");
 * tdm_value y = tdm_linear(graph, "fc", x, 64); // its weight is "encoder/fc.weight"
 * tdm_scope_pop(graph);
 * @endcode
 */
TDM_API void tdm_scope_push(tdm_graph *graph, const char *name);

/* Opens a scope whose prefix is "name/index/", as PyTorch names the members of a ModuleList. One
 * tdm_scope_pop closes it.
 * @param index 0 or more. */
TDM_API void tdm_scope_push_index(tdm_graph *graph, const char *name, int64_t index);

/* Closes the innermost scope. */
TDM_API void tdm_scope_pop(tdm_graph *graph);

/* Sets the dtype of parameters, and so of floating layers, that are appended from here on in the
 * innermost scope.
 * @param dtype floating. A graph begins with TDM_FLOAT32; a scope inherits the dtype of its parent.
 */
TDM_API void tdm_scope_dtype(tdm_graph *graph, tdm_dtype dtype);

/* Returns the dtype of the innermost scope, which tdm_scope_dtype sets. */
TDM_API tdm_dtype tdm_graph_dtype(const tdm_graph *graph);

/* Selects evaluation mode for layers that are appended from here on in the innermost scope, as
 * torch.nn.Module.eval does. In evaluation mode they compute the same in runs that train and in
 * runs that do not: dropout drops nothing, and batch normalization uses its running statistics and
 * does not change them. Use it for a frozen teacher in the graph of its student.
 *
 * Parameters are trained as in other scopes. To exclude them, apply tdm_detach to the result, or
 * use a parameter group without an optimizer (tdm_session_options.groups).
 * @param evaluates true: evaluation mode. A graph begins with false; a scope inherits the mode of
 *     its parent. */
TDM_API void tdm_scope_evaluate(tdm_graph *graph, bool evaluates);

/* Writes the layers that were appended so far, nested by scope. Each line has the operation, the
 * dtype and shape of the result, the device if one was set, and the number of elements of the
 * parameters that no layer above it reads. The last line is the total.
 * @code{.unparsed}
 * (embedding): embedding -> float32 [length, batch, 32], on cpu:0, 1792 parameters
 * (block):
 *   (fc): linear -> float32 [batch, 10], 330 parameters
 * 2122 parameters
 * @endcode
 * @return the graph's error if building has failed; TDM_IO if out cannot be written to. */
TDM_API tdm_status tdm_graph_print(const tdm_graph *graph, FILE *out) TDM_WARN_UNUSED;

/* Returns the shape of value. Its rank is -1 if value is invalid. */
TDM_API tdm_shape tdm_value_shape(const tdm_graph *graph, tdm_value value);

/* Returns the dtype of value, TDM_DTYPE_NONE if value is invalid. */
TDM_API tdm_dtype tdm_value_dtype(const tdm_graph *graph, tdm_value value);

/* Distribution of a parameter's initial values. `a` and `b` are those of tdm_initializer. */
typedef enum tdm_initializer_kind {
  TDM_INIT_ZEROS,    /* All elements are 0. */
  TDM_INIT_CONSTANT, /* All elements are a. */
  TDM_INIT_UNIFORM,  /* Uniform in [a, b). */
  TDM_INIT_NORMAL,   /* Normal with mean a and standard deviation b. */
} tdm_initializer_kind;

/* Initial values of a parameter. They depend on the session's seed and the parameter's path. */
typedef struct tdm_initializer {
  tdm_initializer_kind kind; /* The distribution. 0: zeros. */
  double a;                  /* The constant, the lower bound, or the mean. */
  double b;                  /* The upper bound, or the standard deviation. */
  /* 0 or more: this row of dimension 0 is zeros instead. -1: no such row. */
  int64_t zero_row;
} tdm_initializer;

/* Shares parameters: layers appended from here on that would declare parameters and states under
 * `name` use those under `of` instead. A shared parameter is trained once, by the sum of the
 * gradients of all layers that read it, and is saved once, under `of`.
 * @code
 * tdm_value rows = tdm_embedding(graph, "embedding", ids, 1000, 64);
 * tdm_tie(graph, "head", "embedding"); // head.weight is embedding.weight
 * tdm_value scores = tdm_linear_without_bias(graph, "head", rows, 1000);
 * @endcode
 * @param name path below the innermost scope: of a layer ("head"), a parameter ("head.weight") or a
 *     scope.
 * @param of path of the same kind. Its parameters must exist when the layers of `name` are
 *     appended, and have equal shapes and dtypes. To apply a layer a second time, tie it to itself.
 */
TDM_API void tdm_tie(tdm_graph *graph, const char *name, const char *of);

/* Declares a trainable parameter and returns it as a value. The first session that uses the
 * parameter creates it in its store, under its path.
 * @param name path below the innermost scope, such as "fc.weight". If the graph has a parameter of
 *     that path with equal shape and dtype, the same value is returned. A layer that is appended
 *     later uses a parameter that was declared under its name; two layers cannot use the same one
 *     unless tdm_tie allows it. A path that begins with "checkpoint/" is INVALID_ARGUMENT, because
 *     checkpoints use such names.
 * @param dtype any dtype; only floating parameters are trained.
 * @param shape sizes only.
 * @param initializer initial values. */
TDM_API tdm_value tdm_parameter(tdm_graph *graph, const char *name, tdm_dtype dtype,
                                tdm_shape shape, const tdm_initializer *initializer);

/* Declares a persistent value that no gradient trains, such as running statistics or the states of
 * an optimizer. Otherwise as tdm_parameter.
 * @param like if valid, a parameter; the state is placed on the same device. */
TDM_API tdm_value tdm_state(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape,
                            const tdm_initializer *initializer, tdm_value like);

/* Appends a tensor with given elements. It never changes, has no gradient, and is in no checkpoint
 * and no state dict.
 * @code
 * const float mean[] = {0.485F, 0.456F, 0.406F};
 * tdm_value centre = tdm_constant(graph, "mean", TDM_FLOAT32, tdm_shape_of(3, 3, 1, 1), mean);
 * @endcode
 * A constant is placed as a parameter is: on the device of the first layer that reads it, once for
 * all sessions of a store, with copies on other devices. Replicas and micro-batches read all of it.
 * @param name path below the innermost scope, which messages and reports use; NULL: a number.
 * @param shape sizes only.
 * @param data the elements in row-major order; copied before the function returns. */
TDM_API tdm_value tdm_constant(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape,
                               const void *data);

/* Returns a parameter or state of the graph (torch.nn.Module.get_parameter). INVALID_ARGUMENT if
 * there is none; the message lists those that there are.
 * @param name path below the innermost scope, such as "fc.weight". */
TDM_API tdm_value tdm_get_parameter(tdm_graph *graph, const char *name);

/* Returns name, or the next number of the innermost scope if name is NULL. A layer that uses its
 * name several times calls this once, so that it is counted once. The string lives as long as the
 * graph. The result is "?" if the graph is NULL, failed or frozen. */
TDM_API const char *tdm_graph_name(tdm_graph *graph, const char *name);

/* Returns the random stream of an operation, for tdm_random.stream. It depends on the path of name,
 * and on the number of earlier calls with the same path. So an operation draws the same numbers
 * wherever it is placed, and no two operations draw the same numbers. */
TDM_API uint64_t tdm_graph_stream(tdm_graph *graph, const char *name);

/* Stores an error in the graph, unless it has one, and returns an invalid value. For layers of the
 * program's own.
 * @param format printf format of the message, followed by its arguments. */
TDM_API tdm_value tdm_graph_fail(tdm_graph *graph, tdm_status status, const char *format, ...)
    TDM_PRINTF(3, 4);

/* Stores an error with the calling thread's last message in the graph, unless it has one, and
 * returns an invalid value.
 * @param status status of the error. */
TDM_API tdm_value tdm_graph_fail_message(tdm_graph *graph, tdm_status status);

/* ---- Parts and parallel regions -------------------------------------------------------------- */

/* Splits x along dimension into parts of given sizes (torch.split). Parts that are contiguous in
 * memory share the memory of x.
 * @param sizes (count): of the parts; their sum is the size of x. A name stands for the size that
 *     this dimension of an input has.
 * @param count 1 to 64.
 * @param out_parts (count): receives the parts. */
TDM_API void tdm_split(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                       const tdm_dim *sizes, size_t count, tdm_value *out_parts);

/* Splits x along dimension into equal parts (torch.chunk). Each has ceil(size / count) elements
 * along dimension; the last one may be smaller. If the dimension has a name, its size is that of
 * the run.
 * @param count 1 to 64. It is an error if the size gives fewer parts: 5 elements in 4 parts would
 *     be 2, 2 and 1.
 * @param out_parts (count): receives the parts. */
TDM_API void tdm_split_evenly(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                              size_t count, tdm_value *out_parts);

/* Concatenates values along dimension (torch.cat).
 * @param parts (count): of one dtype, with equal sizes in all other dimensions.
 * @param count 1 to 64. */
TDM_API tdm_value tdm_concat(tdm_graph *graph, const char *name, const tdm_value *parts,
                             size_t count, int dimension);

/* Describes how one value enters a parallel region. */
typedef struct tdm_scatter {
  tdm_value value; /* The value. */
  /* The dimension that is cut into chunks; negative: from the end. TDM_BROADCAST: every replica
   * reads all of it. */
  int dimension;
} tdm_scatter;

/* Dimension of a value that is not cut. */
#define TDM_BROADCAST INT32_MIN

/* Data of which each device of a parallel region stores only a part. */
typedef enum tdm_parallel_sharding {
  TDM_SHARDING_NONE,             /* The first device stores all parameters and their states. */
  TDM_SHARDING_OPTIMIZER_STATES, /* Each device stores and updates some parameters, as ZeRO 1. */
  TDM_SHARDING_PARAMETERS        /* Moreover, large parameters are divided, as ZeRO 3 and FSDP. */
} tdm_parallel_sharding;

/* Options of a parallel region (tdm_data_parallel). */
typedef struct tdm_parallel_options {
  size_t struct_size;
  /* Devices of the replicas, 1 to 64, as a list: "cuda:0,cuda:1". A device may occur twice.
   * "cuda:*": all devices of that kind. A list of one device changes nothing. In a job of several
   * ranks, "host:1/cuda:0" is a device of rank 1 and "*" instead of the 1 stands for every rank. */
  const char *devices;
  /* Device on which results are put together. Default NULL: the first of devices. */
  const char *output_device;
  /* One number per device, 0 or more: rows are divided in proportion. Default NULL: as torch.chunk
   * does, ceil(rows / devices) each until no rows are left. */
  const double *weights;
  /* (scatter_count): values that enter in another way than by default. By default, values are cut
   * along dimension 0; scalars and parameters are broadcast. */
  const tdm_scatter *scatter;
  size_t scatter_count; /* Number of entries of scatter. Default 0. */
  /* Data of which each device stores only a part (see tdm_data_parallel). Default
   * TDM_SHARDING_NONE. */
  tdm_parallel_sharding sharding;
} tdm_parallel_options;
static inline tdm_parallel_options tdm_parallel_options_default(void) {
  tdm_parallel_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_parallel_options);
  return options;
}

/* Makes a parallel region of the layers that were appended so far below scope: each run cuts its
 * batch into chunks of rows and computes the layers once per chunk, each on a device of its own.
 * Each such copy is a replica (torch.nn.DataParallel, DistributedDataParallel).
 * @code
 * tdm_parallel_options options = tdm_parallel_options_default();
 * options.devices = "cuda:0,cuda:1";
 * tdm_data_parallel(graph, "", &options);
 * @endcode
 * Results are concatenated along the dimension along which the rows entered. The home of a
 * parameter is the device that stores and updates it; gradients are summed there in the order of
 * the replicas. All values that are cut must have the same number of rows in a run. Parallel
 * regions may be nested or follow one another; if two have the same nodes, the later one encloses
 * the other.
 * @param scope "block2", "" for everything, or several scopes that form one region: "rnn,linear".
 * @param options devices must be set.
 *
 * @par Losses inside the region
 * A loss may be inside, so that each device computes its share only. Losses, sums and means over
 * the rows are those of the whole batch:
 * - The sums of the replicas are added in their order on the output device. A mean is divided by
 *   the count of the whole batch: its targets that are not ignored, their weights, or its elements.
 * - A value that is computed from such results only (the sum of two losses) is computed once, on
 *   the output device.
 * - A value that is computed from such a result and from rows (x minus its mean) waits for all
 *   replicas.
 *
 * So a loss differs from that of a single device by the rounding of partial sums only. With
 * tdm_session_options.deterministic the choice of devices changes no bit; the number of replicas
 * does. The exception is batch normalization, which normalizes the rows of each replica separately.
 *
 * @par Layers that do not fit into a region
 * Two kinds of layers would be computed from the rows of one replica only:
 * - other functions of all rows, such as a maximum or a softmax along them;
 * - functions that depend on the position of a row among the others: slices, sorts, running sums
 *   and windows along the rows, and reshapes that split them.
 *
 * A value that depends on such a result cannot leave the region, and cannot be summed or averaged
 * over the rows: the run fails with INVALID_ARGUMENT and a message that names the layer. Put such
 * layers between two regions.
 *
 * @par TDM_SHARDING_OPTIMIZER_STATES
 * Parameters have their homes on all devices, about the same number of bytes on each. Each device
 * stores the optimizer states of its own parameters only, and updates these only (stage 1 of ZeRO:
 * S. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC
 * 2020). Gradients are sent to the homes during the backward pass. Updated parameters are sent to
 * the other devices during the forward pass of the next run. The option applies to parameters that
 * no session has bound before.
 *
 * @par TDM_SHARDING_PARAMETERS
 * Moreover, parameters of more than 1/32 of one device's share of the bytes, and of at least as
 * many rows (dimension 0) as there are devices, are divided by rows over all devices. Tables that
 * are looked up by ids stay whole. So the same number of bytes is sent in both directions. Outside
 * of the library, also in files, such a parameter is one tensor. Each device assembles it for each
 * of its replicas, which takes memory from where a run first reads it.
 *
 * The forward pass is shorter than the backward pass, so it can hide fewer bytes. The library
 * therefore keeps some parameters whole, with states on every device: a third of the bytes over two
 * devices, 1 / (3 (k - 1)) over k devices, so that a device stores at most a third more states.
 * Their gradients are summed by a ring algorithm, and every device updates its own copy. All
 * gradients go to the homes instead if the session is `deterministic`. If its options set a
 * `collective`, that algorithm is used for all of them, except for parameters that cannot be
 * updated on every device (tdm_collective), whose gradients go to their homes.
 *
 * A parameter is not divided if it is an output, or if its gradient is requested (tdm_gradient_of).
 * No parameter of a session is divided if the optimizer's rule is not is_by_element, if clip_norm
 * is used with deterministic, or if the store has one of them undivided. Sessions of one store must
 * divide parameters in the same way; otherwise creating the second fails with INVALID_ARGUMENT. */
TDM_API void tdm_data_parallel(tdm_graph *graph, const char *scope,
                               const tdm_parallel_options *options);

/* Makes a parallel region of the nodes between given values, regardless of their names: those that
 * outputs need and that inputs are not computed from. Otherwise as tdm_data_parallel.
 *
 * The set of nodes must be convex: no path may leave it and return. Every value that enters must be
 * one of inputs or a parameter, and every value of the set that other nodes read or runs fetch must
 * be one of outputs. Otherwise the error names the node and the value.
 * @param inputs (input_count).
 * @param outputs (output_count).
 * @param options devices must be set; values in options->scatter must be among inputs. */
TDM_API void tdm_data_parallel_between(tdm_graph *graph, const tdm_value *inputs,
                                       size_t input_count, const tdm_value *outputs,
                                       size_t output_count, const tdm_parallel_options *options);

/* ---- Modules on devices of their own --------------------------------------------------------- */

/* A module: layers below a scope, which a function of the program builds (torch.nn.Module). All
 * pointers are borrowed. */
typedef struct tdm_module {
  const char *name; /* Name of the scope. */
  /* Appends the layers that compute the module's result from input, and returns the result. */
  tdm_value (*build)(tdm_graph *graph, void *user, tdm_value input);
  void *user;         /* Argument of build. */
  const char *device; /* Device of the layers ("cuda:1"). NULL: that of the innermost scope. */
  int replica;        /* Number of the replica, from 0, if tdm_replicate made it; otherwise 0. */
} tdm_module;

/* Creates one replica of module per device (torch.nn.parallel.replicate). All replicas share their
 * parameters, which are stored on the first replica's device. The other devices read copies, which
 * are refreshed when they are out of date. Gradients are summed. Running statistics are those of
 * the first replica.
 * @param devices "cuda:0,cuda:1" or "cuda:*"; a device may occur twice.
 * @param replicas (capacity): receives the replicas.
 * @return number of replicas; 0 on failure, with the error stored in the graph. */
TDM_API size_t tdm_replicate(tdm_graph *graph, const tdm_module *module, const char *devices,
                             tdm_module *replicas, size_t capacity);

/* Applies modules[i] to inputs[i] and stores the result in outputs[i]
 * (torch.nn.parallel.parallel_apply). Modules that do not depend on one another run concurrently.
 * If one fails, the run fails, and its message names the module.
 * @code
 * tdm_module replicas[2];
 * tdm_value parts[2], results[2];
 * size_t count = tdm_replicate(graph, &module, "cuda:0,cuda:1", replicas, 2);
 * tdm_split_evenly(graph, "scatter", x, 0, count, parts);
 * tdm_parallel_apply(graph, replicas, parts, count, results);
 * tdm_value y = tdm_concat(graph, "gather", results, count, 0);
 * @endcode
 * @param modules (count): replicas, or modules of their own.
 * @param inputs (count).
 * @param outputs (count): receives the results. */
TDM_API void tdm_parallel_apply(tdm_graph *graph, const tdm_module *modules,
                                const tdm_value *inputs, size_t count, tdm_value *outputs);

/* ---- Gradients as values --------------------------------------------------------------------- */

/* Returns d loss / d value as a value of the graph (torch.autograd.grad). It has the dtype and
 * shape of value. It is computed on the device of value unless it is placed. An unused gradient is
 * not computed.
 * @code
 * tdm_output(graph, "slope", tdm_gradient_of(graph, "slope", loss, x));
 * @endcode
 *
 * In a run that trains, the result is the gradient that the optimizer receives before clipping, bit
 * for bit. In other runs it is the gradient of the model in evaluation mode: dropout drops nothing,
 * and batch normalization reads its running statistics. No optimizer is needed then. In parallel
 * regions and micro-batches, gradients are summed as in training. The gradient of a table that is
 * looked up by ids is dense, with zeros in rows that no id names.
 *
 * A gradient cannot be differentiated again: a trained loss that depends on one, and the gradient
 * of one, are UNSUPPORTED. tdm_detach of a gradient may be used in any loss.
 * @param loss floating scalar.
 * @param value floating: a parameter, an input or a result of a layer. loss must depend on it;
 *     otherwise the call is INVALID_ARGUMENT (torch's allow_unused=False). */
TDM_API tdm_value tdm_gradient_of(tdm_graph *graph, const char *name, tdm_value loss,
                                  tdm_value value);

/* Returns x as a value through which no gradient flows back (torch.Tensor.detach). x has any dtype.
 */
TDM_API tdm_value tdm_detach(tdm_graph *graph, const char *name, tdm_value x);

/* ---- State between runs ---------------------------------------------------------------------- */

/* Declares a value that persists between consecutive runs of a sequence (tdm_sequence), such as a
 * key/value cache or a recurrent state. A new sequence begins with zeros. Runs that need the value
 * must be runs of a sequence, and cannot train.
 * @code
 * tdm_value cache = tdm_kept(graph, "cache", TDM_FLOAT32, tdm_shape_of(2, 128, 64));
 * cache = tdm_keep_rows(graph, "append", cache, rows, position); // rows (n, 64), position (n)
 * tdm_value state = tdm_kept(graph, "state", TDM_FLOAT32, tdm_shape_of(2, 1, 64));
 * tdm_keep(graph, "update", state, tdm_rnn_cell(graph, "cell", x, state, 64, NULL));
 * @endcode
 *
 * The value is stored on one device: the one that a device map names for it, or else that of the
 * innermost scope, or else that of the first node that reads it.
 * @param shape sizes only.
 * @return the value at the beginning of a run. */
TDM_API tdm_value tdm_kept(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape);

/* Overwrites rows of a kept value (torch.Tensor.index_copy_ along dimension 0). This happens in
 * place, in each run that needs kept. A run that fails or is cancelled may have written its rows.
 * Not allowed inside a parallel region.
 * @param kept a result of tdm_kept or of an earlier tdm_keep_rows.
 * @param rows (n, ...): of kept's dtype, and of its sizes in the other dimensions.
 * @param indices (n) int32 or int64: distinct row numbers. An index out of range fails the run.
 * @return kept with the new rows; use it instead of kept from here on. No gradient flows from it to
 *     rows. */
TDM_API tdm_value tdm_keep_rows(tdm_graph *graph, const char *name, tdm_value kept, tdm_value rows,
                                tdm_value indices);

/* Sets the value with which the next run of the sequence begins. Within the run, kept remains as it
 * was at the beginning. A run that fails or is cancelled leaves kept unchanged.
 * @param kept a result of tdm_kept or tdm_keep_rows. It can be set once.
 * @param value of kept's dtype and shape. */
TDM_API void tdm_keep(tdm_graph *graph, const char *name, tdm_value kept, tdm_value value);

/* ---- Sharded tables -------------------------------------------------------------------------- */

/* How tables are divided over devices. */
typedef enum tdm_shard_by {
  TDM_SHARD_ROWS,  /* Every device has some rows of each table (row-wise in TorchRec). */
  TDM_SHARD_TABLES /* Every device has some of the tables, each as a whole (table-wise). */
} tdm_shard_by;

/* Options of tdm_shard. */
typedef struct tdm_shard_options {
  size_t struct_size;
  /* Devices, 1 to 64, each once: "cpu:0,cpu:1" or "host:0/cuda:0,host:1/cuda:0". */
  const char *devices;
  tdm_shard_by by; /* How tables are divided. Default TDM_SHARD_ROWS. */
  /* One number per device, 0 or more: rows, or bytes of tables, are divided in proportion. Default
   * NULL: rows as torch.chunk divides them, tables as evenly as possible. */
  const double *weights;
} tdm_shard_options;
static inline tdm_shard_options tdm_shard_options_default(void) {
  tdm_shard_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_shard_options);
  options.by = TDM_SHARD_ROWS;
  return options;
}

/* Shards the tables that layers below scopes look up by ids (tdm_embedding, tdm_embedding_bag):
 * each is divided over several devices. A device stores its rows and looks them up. Only ids are
 * sent to it, and rows come back, those of one look-up in one transfer, to the device of the
 * look-up, where bags are computed. In training, gradients of the rows that were looked up are sent
 * to it. Optimizer states are stored with their rows.
 * @code
 * tdm_shard_options options = tdm_shard_options_default();
 * options.devices = "cuda:0,cuda:1";
 * tdm_shard(graph, "users,items", &options);
 * @endcode
 * Results and initial values are bitwise those of an undivided table. So are gradients, except that
 * the last bit may differ for bags that are means or scaled. Checkpoints contain each table as one
 * tensor, regardless of the number of shards.
 *
 * With TDM_SHARD_ROWS every shard returns a row for every id of a look-up, zeros if another shard
 * has the row, because plans are verified before ids are known. So (shards x n) rows are sent, of
 * which n are used. tdm_session_explain reports the bytes.
 * @param scopes scopes of layers that were appended so far: "users", "users,items", or "" for
 *     everything.
 * @param options devices must be set.
 *
 * Sharding a table twice is an error. If a table is sharded by rows, and a node other than such a
 * look-up reads it or an output delivers it, tdm_session_create fails. */
TDM_API void tdm_shard(tdm_graph *graph, const char *scopes, const tdm_shard_options *options);

/* ---- Observers ------------------------------------------------------------------------------- */

/* Marks a point at which sessions with an observer report the tensor of each run, and returns
 * value. The result must be used instead of value: an unused result is not observed.
 * @code
 * tdm_value hidden = tdm_observe(graph, "hidden", tdm_relu(graph, NULL, x));
 * @endcode
 * @param name path of the point below the innermost scope. Inside a parallel region, every replica
 *     reports its own tensor. */
TDM_API tdm_value tdm_observe(tdm_graph *graph, const char *name, tdm_value value);

/* A tensor that was observed in a run. */
typedef struct tdm_observation {
  const char *name; /* Path of the point. */
  int replica;      /* Number of the replica; 0 outside of parallel regions. */
  /* The tensor, on cpu:0. Borrowed during the call; the observer may retain it. */
  const tdm_tensor *tensor;
  int micro_batch; /* Number of the micro-batch; 0 if the batch is not cut. */
} tdm_observation;

/* Type of a function that receives observations (tdm_session_options.observer). It is called after
 * a run has succeeded, for every point and in the order of replicas: by the thread that called
 * tdm_run, or on the context's loop before the run's callback. */
typedef void (*tdm_observer)(void *user, const tdm_observation *observation);

#ifdef __cplusplus
}
#endif
#endif
