/* Operations and optimizers of the program's own: their records, and what their rules read and
 * write.
 *
 * An operation consists of a record (tdm_operation) with rules, and of kernels (devices/kernel.h)
 * that its name finds. A rule is a function that the library calls while a graph is built or a plan
 * is made, on the thread that does it. Everything that a rule receives is borrowed during the call.
 * A rule reports an error by tdm_fail. docs/custom_operations.md has a complete example. */
#ifndef TANDEM_GRAPH_OPERATIONS_H
#define TANDEM_GRAPH_OPERATIONS_H

#include <math.h>

#include "tandem/graph/building.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Operations ------------------------------------------------------------------------------ */

/* Argument of a shape rule: the inputs of a node, and its outputs, of which the rule sets dtype and
 * shape. Formats stay dense. Dimensions may be names or unknown.
 * @code
 * static tdm_status infer_square(tdm_infer *infer) {
 *   infer->outputs[0] = infer->inputs[0];
 *   return TDM_OK;
 * }
 * @endcode
 */
typedef struct tdm_infer {
  const void *attributes; /* The operation's attribute struct. */
  const tdm_spec *inputs; /* (input_count): an absent optional input has dtype TDM_DTYPE_NONE. */
  size_t input_count;     /* Number of inputs. */
  tdm_spec *outputs;      /* (output_count): to be set. */
  size_t output_count;    /* Number of outputs. */
} tdm_infer;

/* Returns true if two dimensions can be equal within one run. A name equals only itself;
 * TDM_DIM_UNKNOWN agrees with every dimension. */
TDM_API bool tdm_dim_agree(tdm_dim a, tdm_dim b);

/* Returns the more specific of two agreeing dimensions: a size before a name before
 * TDM_DIM_UNKNOWN. */
TDM_API tdm_dim tdm_dim_merge(tdm_dim a, tdm_dim b);

/* Argument of a gradient rule: one forward node, and the adjoints of its outputs. The adjoint of a
 * value is the derivative of the loss with respect to it. */
typedef struct tdm_gradient tdm_gradient;

/* Argument of a rule `chunk`: one node, and the parts of the batch. */
typedef struct tdm_chunked tdm_chunked;

/* Amount of work of one execution of a kernel, from which a forecast computes its time on a
 * described device. */
typedef struct tdm_work {
  double flops;         /* Multiplications and additions in sums of products; 0: negligible. */
  double bytes_read;    /* Bytes read from memory if each is read once. */
  double bytes_written; /* Bytes written to memory if each is written once. */
} tdm_work;

/* Precision of an operation in mixed precision, by the rules of PyTorch's autocast. */
typedef enum tdm_precision {
  TDM_PRECISION_UNSAID, /* The default: the same as TDM_PRECISION_FLOAT32. */
  /* The lower precision: for sums of products, which gain most and lose least. */
  TDM_PRECISION_LOWER,
  TDM_PRECISION_FLOAT32, /* float32: for exponentials, powers, long sums, losses and updates. */
  TDM_PRECISION_WIDEST,  /* The widest of the inputs, which must have equal dtypes. */
  TDM_PRECISION_GIVEN    /* That of the input; for a gradient, that of the adjoint. */
} tdm_precision;

/* Bit of gradient_reads: the gradient reads the argument, which stays in memory until then. */
#define TDM_READS_X 1

/* Bit of gradient_reads: the gradient reads the result, so that the argument's memory is free once
 * the result is computed. */
#define TDM_READS_Y 2

/* Sizes of named dimensions in a run. */
typedef struct tdm_bound_names {
  /* Returns the size of a name, or the name itself if its size is not known. */
  tdm_dim (*size_of)(const void *user, tdm_dim name);
  const void *user; /* First argument of size_of. */
  /* A name that must remain a name, because the dimension may be cut later. */
  tdm_dim batch;
} tdm_bound_names;

/* Record of an operation: everything that building, gradients, micro-batches, fusion, precision and
 * forecasts need. A field that is zero or lies beyond struct_size has no effect. A record must
 * outlive every graph that uses it. */
typedef struct tdm_operation {
  size_t struct_size; /* sizeof(tdm_operation). */
  /* Finds the kernels. It must differ from the names of the library's kernels ("linear"). Static
   * storage, like everything that the record points to. */
  const char *name;
  /* Size of the attribute struct, which tdm_append copies. */
  size_t attribute_bytes;
  uint8_t min_inputs; /* Minimum number of inputs of a node. */
  /* Maximum number of inputs, at most TDM_KERNEL_MAX_INPUTS. */
  uint8_t max_inputs;
  /* Number of outputs, unless count_outputs is set. */
  uint8_t output_count;
  /* true: the outputs are the memory of the first input, one after the other, and there is no
   * kernel. */
  bool is_view;
  /* overwrites[i] = j + 1: output i is input j, rewritten in place. Allowed for parameters and
   * states only, in nodes that an optimizer or a rule `persist` appends; otherwise
   * INVALID_ARGUMENT. */
  uint8_t overwrites[TDM_KERNEL_MAX_OUTPUTS];
  /* Shape rule; required. Sets dtype and shape of the outputs, or fails if the inputs are not
   * legal. */
  tdm_status (*infer)(tdm_infer *infer);
  /* Gradient rule: appends the operations that compute the adjoints of the inputs. It is called if
   * an output has an adjoint and that of at least one input is wanted, so an operation with one
   * floating input need not call tdm_gradient_wanted. NULL: no gradient flows back. */
  tdm_status (*gradient)(tdm_gradient *gradient);
  /* Returns the number of outputs if it depends on the attributes. NULL: output_count. */
  size_t (*count_outputs)(const void *attributes);
  /* Operation that replaces the node in runs that train. It has the same attributes and inputs and
   * the same outputs, and may have further outputs. NULL: the node is not replaced. */
  const struct tdm_operation *when_training;
  /* Appends nodes that write states other than the optimizer's in runs that train, such as running
   * statistics. Nodes that overwrite states become part of the update phase, with the nodes that
   * read their results. It is called for the first replica only, micro-batch after micro-batch, and
   * within each in the order of the graph's nodes; each node reads what the previous one wrote. It
   * may call tdm_gradient_graph, tdm_gradient_name, tdm_gradient_attributes, tdm_gradient_input and
   * tdm_gradient_output. NULL: nothing. */
  tdm_status (*persist)(tdm_gradient *gradient);
  /* Bit i: only `persist` uses input i; kernels receive NULL for it. */
  uint32_t persist_inputs;
  /* 1 + the offset of a tdm_chunk in the attributes. The library sets that tdm_chunk for output 0
   * of each replica. 0: there is none. */
  uint16_t chunk_at;
  /* Computes the node from a batch in parts if it is not computed row by row. NULL:
   * tdm_chunked_each. */
  tdm_status (*chunk)(tdm_chunked *chunked);
  /* Returns true if output 0 consists of whole rows of input 0, which has two dimensions, as input
   * 1 names them, and the gradient of a row is the sum of all its adjoints. NULL: false. */
  bool (*picks_rows)(const void *attributes);
  /* true: a row of output 0 (the elements along its last dimension) is computed from the same row
   * of input 0 and from all of the other inputs. */
  bool row_wise;
  /* true: there is one output, and each of its elements is computed from the same element of those
   * inputs that have as many elements, and possibly from all of the others. Nodes of such
   * operations can be fused if their kernels have execute_part. */
  bool elementwise;
  /* true: kernels do more than compute outputs, for example count, print or wait. Then each of
   * several nodes with equal attributes and inputs is executed, instead of one for all. */
  bool has_effects;
  /* For a function y of one value x, instead of a rule `gradient`: the operation that computes d_x.
   * Its inputs are d_y and what gradient_reads selects: x, y, x and y in this order, or nothing.
   * Its attributes are the first attribute_bytes of this operation's. */
  const struct tdm_operation *gradient_operation;
  /* Sets the amount of work of a node. In `node` every shape is concrete, and outputs are to be
   * read. `work` begins with no flops and with each operand read or written once; the rule changes
   * what differs. NULL: unknown; a forecast fails for the operation unless its time was measured.
   */
  void (*work)(const tdm_infer *node, tdm_work *work);
  uint8_t gradient_reads; /* TDM_READS_X, TDM_READS_Y, both, or 0. */
  uint8_t precision;      /* A tdm_precision. */
  /* For the library's own operations: how rows of a sharded table (input 0) are looked up by ids
   * (input 1). NULL: a table that the operation reads cannot be sharded. */
  const struct tdm_look_up *look_up;
  /* Operation that replaces the node in runs that do not train but compute gradients
   * (tdm_gradient_of). As when_training, but it computes the same results and keeps what its
   * gradient reads. NULL: the node is not replaced. */
  const struct tdm_operation *when_differentiated;
  /* true: the inputs are a list, as those of a concatenation; rules and kernels read input_count.
   * false: rules and kernels always see max_inputs inputs, of which those that a node lacks are
   * absent. */
  bool takes_list;
  /* For attributes that contain names of dimensions: replaces them by sizes in a copy of the
   * attributes, once the sizes of all inputs of the run are known, where the node's inputs do not
   * determine them. NULL: there are none. */
  void (*bind)(void *attributes, const tdm_bound_names *names);
  /* Bit i: only the shape of input i is read. No gradient flows back to it. */
  uint32_t shape_inputs;
  /* Name of the layer in messages, if users call it by another name than that of the kernel. NULL:
   * `name`. */
  const char *layer;
} tdm_operation;

/* Appends a node to the graph and returns its first output.
 * @code
 * static const tdm_operation square = {
 *     .struct_size = sizeof(tdm_operation),
 *     .name = "square_of_mine",
 *     .min_inputs = 1,
 *     .max_inputs = 1,
 *     .output_count = 1,
 *     .infer = infer_square,
 *     .gradient = square_gradient,
 * };
 * tdm_value y = tdm_append(graph, &square, NULL, NULL, &x, 1, NULL);
 * @endcode
 * @param operation the record; it must outlive the graph.
 * @param name path below the innermost scope; NULL: the scope's next number.
 * @param attributes operation->attribute_bytes bytes, which are copied; NULL if there are none.
 * @param inputs (input_count): may contain invalid values for absent optional inputs.
 * @param input_count min_inputs to max_inputs; trailing optional inputs may be left out.
 * @param outputs receives all outputs of the node; NULL: not needed. */
TDM_API tdm_value tdm_append(tdm_graph *graph, const tdm_operation *operation, const char *name,
                             const void *attributes, const tdm_value *inputs, size_t input_count,
                             tdm_value *outputs);

/* Functions for gradient rules. Operations that a rule appends become backward nodes, on the device
 * of the forward node. */

/* Returns the graph to append to. */
TDM_API tdm_graph *tdm_gradient_graph(tdm_gradient *gradient);

/* Returns the path of the forward node. */
TDM_API const char *tdm_gradient_name(const tdm_gradient *gradient);

/* Returns the attribute struct of the forward node. */
TDM_API const void *tdm_gradient_attributes(const tdm_gradient *gradient);

/* Returns an input of the forward node; invalid if it is absent. */
TDM_API tdm_value tdm_gradient_input(const tdm_gradient *gradient, size_t index);

/* Returns an output of the forward node. */
TDM_API tdm_value tdm_gradient_output(const tdm_gradient *gradient, size_t index);

/* Returns the adjoint of an output; invalid if the loss does not depend on it. */
TDM_API tdm_value tdm_gradient_of_output(const tdm_gradient *gradient, size_t index);

/* Returns true if the adjoint of this input is needed. */
TDM_API bool tdm_gradient_wanted(const tdm_gradient *gradient, size_t index);

/* Adds d_input to the adjoint of an input. If it is called several times, or several nodes read the
 * input, the adjoint is the sum.
 * @code
 * static tdm_status square_gradient(tdm_gradient *gradient) {
 *   tdm_graph *graph = tdm_gradient_graph(gradient);
 *   const char *name = tdm_gradient_name(gradient);
 *   const tdm_value d_y = tdm_gradient_of_output(gradient, 0);
 *   const tdm_value slope = tdm_mul_scalar(graph, name, tdm_gradient_input(gradient, 0), 2.0);
 *   tdm_gradient_set(gradient, 0, tdm_mul(graph, name, d_y, slope));
 *   return TDM_OK;
 * }
 * @endcode
 * @param index number of the input.
 * @param d_input of the input's dtype and shape; otherwise making the plan fails with
 *     INVALID_ARGUMENT. */
TDM_API void tdm_gradient_set(tdm_gradient *gradient, size_t index, tdm_value d_input);

/* Sets the adjoint of a table as rows; all others are zeros.
 * @param index number of the input, whose shape is (rows, dim).
 * @param rows (n, dim): adjoints of rows.
 * @param indices (n) int64: the row numbers.
 * @param count () int64: how many of the n rows are used. */
TDM_API void tdm_gradient_set_sparse(tdm_gradient *gradient, size_t index, tdm_value rows,
                                     tdm_value indices, tdm_value count);

/* Returns the number of the forward node's micro-batch, from 1; 0 if the batch is not cut. */
TDM_API int tdm_gradient_micro_batch(const tdm_gradient *gradient);

/* Adds rows to the dense adjoint of a table. Use it instead of tdm_gradient_set_sparse if
 * tdm_gradient_set sets the adjoint of an earlier micro-batch. The parameters are those of
 * tdm_gradient_set_sparse. */
TDM_API void tdm_gradient_add_rows(tdm_gradient *gradient, size_t index, tdm_value rows,
                                   tdm_value indices, tdm_value count);

/* ---- A batch in parts: what a rule `chunk` works with ---------------------------------------- */

/* The parts of a batch are micro-batches or the chunks of a parallel region. A part may be cut
 * again: the rule is then called for the node that it created for the part, with that node's
 * attributes. The rule is called for every node that reads rows.
 *
 * A rule may fail with INVALID_ARGUMENT or UNSUPPORTED. Each part then has a result of its own, and
 * a value that depends on these results cannot be read as that of the whole batch. With
 * micro-batches, reading it is an error; in a parallel region, it cannot leave the region. */

/* Where the rows of the batch are in a value that exists in parts. */
typedef struct tdm_cut {
  int dimension; /* The dimension that is cut; -1: none, all parts read one value. */
  int64_t outer; /* 1; more if a reshape combined (length, batch) into one dimension. */
} tdm_cut;

/* Returns the graph to append to. */
TDM_API tdm_graph *tdm_chunked_graph(tdm_chunked *chunked);

/* Returns the path of the node. */
TDM_API const char *tdm_chunked_name(const tdm_chunked *chunked);

/* Returns the attribute struct of the node. */
TDM_API const void *tdm_chunked_attributes(const tdm_chunked *chunked);

/* Returns the number of parts, at most 64. */
TDM_API size_t tdm_chunked_count(const tdm_chunked *chunked);

/* Returns where an input is cut. */
TDM_API tdm_cut tdm_chunked_cut(const tdm_chunked *chunked, size_t input);

/* Returns the shape of an input for the whole batch. */
TDM_API tdm_shape tdm_chunked_shape(const tdm_chunked *chunked, size_t input);

/* Returns the shape of an output for the whole batch. */
TDM_API tdm_shape tdm_chunked_output_shape(const tdm_chunked *chunked, size_t output);

/* Returns an input of one part.
 * @param input number of the input.
 * @param part number of the part, from 0. */
TDM_API tdm_value tdm_chunked_input(const tdm_chunked *chunked, size_t input, size_t part);

/* Returns an input for the whole batch, if it is not cut or is fed; invalid if only its parts
 * exist. */
TDM_API tdm_value tdm_chunked_whole(const tdm_chunked *chunked, size_t input);

/* Appends the node once per part. An output is cut along the dimension in which the parts' shapes
 * differ from that of the whole. An output that is not cut must be set by tdm_chunked_set_whole;
 * otherwise it cannot be read, as after a rule that fails.
 * @param attributes attribute struct of the nodes; NULL: that of the original node. */
TDM_API tdm_status tdm_chunked_each(tdm_chunked *chunked, const void *attributes) TDM_WARN_UNUSED;

/* Appends the node once per part if it combines elements along one dimension only. INVALID_ARGUMENT
 * if the rows of the batch are along that dimension.
 * @param dimension the dimension along which elements are combined.
 * @param input number of the input that has this dimension. */
TDM_API tdm_status tdm_chunked_rows(tdm_chunked *chunked, int dimension,
                                    size_t input) TDM_WARN_UNUSED;

/* Returns an output of one part, after tdm_chunked_each or tdm_chunked_rows. */
TDM_API tdm_value tdm_chunked_output(const tdm_chunked *chunked, size_t output, size_t part);

/* Sets where the rows of an output are, after tdm_chunked_each. */
TDM_API void tdm_chunked_set_cut(tdm_chunked *chunked, size_t output, tdm_cut cut);

/* Sets the value of an output for the whole batch, after tdm_chunked_each. */
TDM_API void tdm_chunked_set_whole(tdm_chunked *chunked, size_t output, tdm_value whole);

/* Returns the sum of one value per part, in the order of the parts. Differentiable.
 * @param parts one value per part. */
TDM_API tdm_value tdm_chunked_sum(tdm_chunked *chunked, const tdm_value *parts);

/* ---- Optimizers ------------------------------------------------------------------------------ */

/* Argument of an optimizer's rule: the parameters of a training plan. */
typedef struct tdm_update tdm_update;

/* Rule of an optimizer. `append` appends the update phase of a plan. */
typedef struct tdm_optimizer_rule {
  /* Name of the optimizer; a checkpoint is loaded only if it has the same one. */
  const char *name;
  /* true: gradients may be rows; the update of such a parameter writes these rows only. */
  bool accepts_sparse;
  /* Appends the nodes that update parameters. It is called once per training plan, with every
   * parameter that has a gradient, in the order of the graph. Nodes that overwrite persistent
   * values form the last phase of a run, together with the nodes that read their results. A node
   * that is appended after one that overwrites a value reads the new value. Each update is placed
   * on the device of its parameter. */
  tdm_status (*append)(tdm_update *update);
  /* Number of the setting that tdm_session_set_momentum replaces, from 1; 0: none. */
  int momentum;
  /* true: the update of an element depends on its own gradient and states, and on numbers, only.
   * Such parameters can be updated piece by piece. */
  bool is_by_element;
} tdm_optimizer_rule;

/* Name of the state that holds a moving average: "optimizer/PARAMETER/average". */
#define TDM_AVERAGE_STATE "average"
/* Value of average_decay: the mean of the results of all updates. */
#define TDM_AVERAGE_MEAN (-1.0)
/* Value of average_decay: no average. */
#define TDM_AVERAGE_NONE (-2.0)

/* An optimizer and its settings: a value, which sessions copy. It is created by a function of
 * layers/optimizers.h, or by tdm_optimizer_default() for a rule of the program's own. Creating a
 * session checks the settings. */
typedef struct tdm_optimizer {
  const tdm_optimizer_rule *rule; /* The rule; must outlive the session. */
  /* Initial learning rate, 0 or more; tdm_session_set_learning_rate changes it. */
  double learning_rate;
  /* Maximum absolute value of each element of a gradient, 0 or more. Gradients are clipped after
   * they are summed over micro-batches, replicas and ranks, and before clip_norm. Default INFINITY:
   * none. */
  double clip_value;
  /* Maximum norm of all gradients together, positive; larger ones are scaled to it. Default
   * INFINITY: none. */
  double clip_norm;
  /* true: maximize the loss, by negating every gradient. Default false. */
  bool maximize;
  /* Moving average of each parameter: after an update, average = average_decay average + (1 -
   * average_decay) parameter, with 0 <= average_decay < 1; the first update sets it to the
   * parameter. TDM_AVERAGE_MEAN: the mean of the results of all updates. A session with `averages`
   * reads it. Default TDM_AVERAGE_NONE: none. */
  double average_decay;
  double settings[8]; /* Settings of the rule. */
} tdm_optimizer;
static inline tdm_optimizer tdm_optimizer_default(void) {
  tdm_optimizer optimizer = TDM_ZEROED;
  optimizer.clip_value = HUGE_VAL;
  optimizer.clip_norm = HUGE_VAL;
  optimizer.average_decay = TDM_AVERAGE_NONE;
  return optimizer;
}

/* Functions for optimizer rules. Results are borrowed. */

/* Returns the graph to append to. */
TDM_API tdm_graph *tdm_update_graph(tdm_update *update);

/* Returns the optimizer with its settings. */
TDM_API const tdm_optimizer *tdm_update_optimizer(const tdm_update *update);

/* Returns the number of parameters to update. */
TDM_API size_t tdm_update_count(const tdm_update *update);

/* Returns a parameter.
 * @param index 0 to tdm_update_count() - 1. */
TDM_API tdm_value tdm_update_parameter(const tdm_update *update, size_t index);

/* Returns the path of a parameter. */
TDM_API const char *tdm_update_name(const tdm_update *update, size_t index);

/* Returns true if the gradient of a parameter consists of rows. */
TDM_API bool tdm_update_is_sparse(const tdm_update *update, size_t index);

/* Returns the gradient of a parameter; if it is sparse, its rows (n, dim). */
TDM_API tdm_value tdm_update_gradient(const tdm_update *update, size_t index);

/* Returns the row numbers of a sparse gradient, (n) int64. */
TDM_API tdm_value tdm_update_indices(const tdm_update *update, size_t index);

/* Returns how many of the n rows of a sparse gradient are used, () int64. */
TDM_API tdm_value tdm_update_rows_count(const tdm_update *update, size_t index);

#ifdef __cplusplus
}
#endif
#endif
