/* Operations of a user's own, and optimizers: what their rules read and write. A rule belongs to
 * the thread that builds the graph or makes the plan; what it is given is borrowed for the call. */
#ifndef TANDEM_GRAPH_OPERATIONS_H
#define TANDEM_GRAPH_OPERATIONS_H

#include <math.h>

#include "tandem/graph/building.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Operations ------------------------------------------------------------------------------ */

/* What a shape rule reads and writes. Dimensions may be names or unknown. An absent optional input
 * has dtype TDM_DTYPE_NONE. Rules set dtype and shape of every output; format stays dense. */
typedef struct tdm_infer {
  const void *attributes; /* the operation's attribute struct */
  const tdm_spec *inputs; /* (input_count) */
  size_t input_count;
  tdm_spec *outputs; /* (output_count) */
  size_t output_count;
} tdm_infer;

/* Do two dimensions agree within one run? Names equal only themselves; unknown agrees with all. */
TDM_API bool tdm_dim_agree(tdm_dim a, tdm_dim b);
/* The more certain of two agreeing dimensions: a size before a name before unknown. */
TDM_API tdm_dim tdm_dim_merge(tdm_dim a, tdm_dim b);

/* What a gradient rule works with: one forward node, and the adjoints of its outputs. */
typedef struct tdm_gradient tdm_gradient;

/* What a rule `chunk` works with: one node, and the parts of the batch. */
typedef struct tdm_chunked tdm_chunked;

/* What one execution of a kernel computes and moves, which says how long it takes on a machine that
 * is only described. */
typedef struct tdm_work {
  double flops;      /* multiplications and additions of sums of products; 0: too few to matter */
  double bytes_read; /* that pass between memory and processor if each is read and written once */
  double bytes_written;
} tdm_work;

/* Which precision an operation computes in where a lower one than float32 is asked for, by the
 * rules of PyTorch's autocast. */
typedef enum tdm_precision {
  TDM_PRECISION_UNSAID,  /* as TDM_PRECISION_FLOAT32 */
  TDM_PRECISION_LOWER,   /* the lower one: sums of products, which gain most and lose least */
  TDM_PRECISION_FLOAT32, /* float32: exponentials, powers, long sums, losses, updates */
  TDM_PRECISION_WIDEST,  /* the widest of its inputs, which have to agree */
  TDM_PRECISION_GIVEN    /* that of its input, whichever it is; gradients: that of the adjoint */
} tdm_precision;

/* What the gradient of a function of one value reads besides d_y. */
#define TDM_READS_X 1 /* the argument, which stays in memory until then */
#define TDM_READS_Y 2 /* the result: the argument's memory is free as soon as it is there */

/* The sizes of named dimensions in a run. */
typedef struct tdm_bound_names {
  tdm_dim (*size_of)(const void *user, tdm_dim name); /* name itself, where it is not known */
  const void *user;
  tdm_dim batch; /* the name that stays one: what it counts may be cut later on */
} tdm_bound_names;

/* The record of an operation: all that building, gradients, micro-batches, fusing, precision and
 * forecasts know of it. How it is computed is its kernels' part, which its name finds.
 * A field that is zero, or behind struct_size, says nothing. */
typedef struct tdm_operation {
  size_t struct_size; /* sizeof(tdm_operation) */
  /* Finds the kernel: not one that the library's own kernels have ("linear"). Static storage, as
   * the rest of the struct. */
  const char *name;
  size_t attribute_bytes; /* of the struct that tdm_append copies */
  uint8_t min_inputs;     /* the least and the most that a node reads */
  uint8_t max_inputs;
  uint8_t output_count; /* see count_outputs */
  bool is_view; /* the outputs are the first input's memory, one after the other: no kernel */
  /* overwrites[i] = j + 1: output i is input j, rewritten in place: a parameter or state, by what
   * an optimizer or a rule `persist` appends. All else is INVALID_ARGUMENT. */
  uint8_t overwrites[TDM_KERNEL_MAX_OUTPUTS];
  tdm_status (*infer)(tdm_infer *infer);
  /* Appends the operations that make the gradients of the inputs; NULL: none flows back. Called
   * where an output has a gradient and that of at least one input is wanted: an operation with a
   * single floating input need not ask. */
  tdm_status (*gradient)(tdm_gradient *gradient);
  /* How many outputs a node has, where that depends on its attributes; NULL: output_count. */
  size_t (*count_outputs)(const void *attributes);
  /* What stands in a node's place when a run trains: takes the same attributes and inputs, makes
   * the same outputs and perhaps more behind them. NULL: the node is itself in every run. */
  const struct tdm_operation *when_training;
  /* Appends what training writes into states besides the optimizer's, such as running statistics:
   * nodes that overwrite them join the update phase, with those that read what these have made. Of
   * replicas, only the first is asked, micro-batch after micro-batch and of each in the order in
   * which the graph describes the nodes; each reads what the one before has left. It may use
   * tdm_gradient_graph, _name, _attributes, _input and _output. NULL: nothing. */
  tdm_status (*persist)(tdm_gradient *gradient);
  /* Bit i: input i is there for `persist` alone; kernels see NULL in its place. */
  uint32_t persist_inputs;
  /* 1 + where in the attributes a tdm_chunk stands, of output 0, which is filled for every
   * replica; 0: nowhere. */
  uint16_t chunk_at;
  /* How a node is computed of a batch in parts, where it is not row by row; NULL: tdm_chunked_each.
   */
  tdm_status (*chunk)(tdm_chunked *chunked);
  /* Is output 0 made of whole rows of input 0, which has two dimensions, as input 1 names them, and
   * is the gradient of a row the sum of all its adjoints? NULL: no. */
  bool (*picks_rows)(const void *attributes);
  /* A row of output 0 (what its last dimension holds) is made of the same row of input 0 and of all
   * of the other inputs. */
  bool row_wise;
  /* There is one output, and an element of it is made of the same element of those inputs that
   * have as many elements, and perhaps of all of the others: nodes of such operations may be fused
   * where their kernels have execute_part. */
  bool elementwise;
  /* Its kernels do more than make outputs of attributes and inputs, for who looks on: they count,
   * tell, wait. Nodes with equal attributes and inputs are then all executed, and not one for all
   * of them. */
  bool has_effects;
  /* In place of a rule `gradient`, for a function y of one value x: the operation that makes d_x of
   * d_y and of what gradient_reads names (TDM_READS_X, TDM_READS_Y, both: x, then y; or nothing),
   * with the same attributes as far as it has any. */
  const struct tdm_operation *gradient_operation;
  /* How much work a node is. node: as for `infer`, but that every shape is concrete and the outputs
   * are to be read; work comes with no flops and every operand once, and the rule changes what is
   * not so. NULL: nobody knows, and a forecast refuses the operation unless it was measured. */
  void (*work)(const tdm_infer *node, tdm_work *work);
  uint8_t gradient_reads; /* TDM_READS_X, TDM_READS_Y, both, or 0 */
  uint8_t precision;      /* tdm_precision */
  /* The library's own: how rows of a table (input 0) are looked up by ids (input 1) where it lies
   * in shards. NULL: what it reads cannot be sharded. */
  const struct tdm_look_up *look_up;
  /* What stands in a node's place in a run that does not train and takes gradients
   * (tdm_gradient_of): as for when_training, but that it computes the same, and keeps what its
   * gradient reads. NULL: the node is itself. */
  const struct tdm_operation *when_differentiated;
  /* Its inputs are a list, as those of a concatenation: rules and kernels read input_count. Of
   * other operations they find max_inputs of them: those that a node is not given are absent. */
  bool takes_list;
  /* Of an operation whose attributes have names of dimensions, once the sizes of all that were fed
   * are known: puts sizes for those that its inputs will not tell, in a copy of the attributes.
   * NULL: there are none. */
  void (*bind)(void *attributes, const tdm_bound_names *names);
  /* Bit i: only the shape of input i is read. No gradient flows back to it, and none is wanted. */
  uint32_t shape_inputs;
  /* The layer that messages name, where users call it by another name than its kernel's. NULL:
   * `name`. */
  const char *layer;
} tdm_operation;

/* Appends a node: name is its path below the scope, NULL the scope's next number; attributes are
 * copied. inputs may hold invalid values for absent optional ones, and lack the last of these.
 * Answers the first output; outputs, unless NULL, gets all output_count. operation must outlive the
 * graph. */
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
/* Tells the adjoint of an input, of its dtype and shape (else making the plan is INVALID_ARGUMENT).
 * One that is told several times, or by several readers of a value, is the sum. */
TDM_API void tdm_gradient_set(tdm_gradient *gradient, size_t index, tdm_value d_input);
/* The adjoint of a table as rows (n, dim), indices int64 (n) and count int64 (). */
TDM_API void tdm_gradient_set_sparse(tdm_gradient *gradient, size_t index, tdm_value rows,
                                     tdm_value indices, tdm_value count);
/* The micro-batch that the forward node works on, from 1; 0: the batch is not cut. */
TDM_API int tdm_gradient_micro_batch(const tdm_gradient *gradient);
/* The adjoint of a table as by tdm_gradient_set_sparse, where that of an earlier micro-batch was or
 * is told by tdm_gradient_set: these rows are added to it, and the whole stays dense. */
TDM_API void tdm_gradient_add_rows(tdm_gradient *gradient, size_t index, tdm_value rows,
                                   tdm_value indices, tdm_value count);

/* ---- A batch in parts: what a rule `chunk` works with ---------------------------------------- */

/* Parts are micro-batches, or the chunks of a parallel region; a part may be cut once more, when
 * the rule is asked of the node that it has made for it, with the attributes that it gave. The rule
 * is asked of every node that reads rows, and may refuse, by INVALID_ARGUMENT or UNSUPPORTED: each
 * part then has a result of its own, which cannot be read as the whole batch's, nor can what is
 * made of it. Micro-batches are refused where anything reads it, a parallel region where it leaves
 * that. */

/* Where the rows of the batch lie in a value of which there are parts. */
typedef struct tdm_cut {
  int dimension; /* that is cut; -1: none, all parts read one value */
  int64_t outer; /* 1; more where a reshape made (length, batch) one dimension */
} tdm_cut;

/* What the rule is asked about: the graph to append to, the node's path and attributes, how many
 * parts there are, where an input is cut, the shapes of the whole, an input of one part. */
TDM_API tdm_graph *tdm_chunked_graph(tdm_chunked *chunked);
TDM_API const char *tdm_chunked_name(const tdm_chunked *chunked); /* of the node */
TDM_API const void *tdm_chunked_attributes(const tdm_chunked *chunked);
TDM_API size_t tdm_chunked_count(const tdm_chunked *chunked); /* parts; at most 64 */
TDM_API tdm_cut tdm_chunked_cut(const tdm_chunked *chunked, size_t input);
TDM_API tdm_shape tdm_chunked_shape(const tdm_chunked *chunked, size_t input); /* of the whole */
TDM_API tdm_shape tdm_chunked_output_shape(const tdm_chunked *chunked, size_t output);
TDM_API tdm_value tdm_chunked_input(const tdm_chunked *chunked, size_t input, size_t part);
/* The whole of an input, where it is not cut or was fed; invalid where there are only its parts. */
TDM_API tdm_value tdm_chunked_whole(const tdm_chunked *chunked, size_t input);
/* Computes the node for every part (attributes NULL: its own). An output is cut where the
 * parts' shapes differ from the whole's; one that is not must be set whole, or it is read as little
 * as what a rule refuses. */
TDM_API tdm_status tdm_chunked_each(tdm_chunked *chunked, const void *attributes) TDM_WARN_UNUSED;
/* The same for a node that mixes what lies along dimension of input: INVALID_ARGUMENT if that is
 * where the rows are. */
TDM_API tdm_status tdm_chunked_rows(tdm_chunked *chunked, int dimension,
                                    size_t input) TDM_WARN_UNUSED;
/* After tdm_chunked_each: an output of a part; where its rows are; what stands for all parts. */
TDM_API tdm_value tdm_chunked_output(const tdm_chunked *chunked, size_t output, size_t part);
TDM_API void tdm_chunked_set_cut(tdm_chunked *chunked, size_t output, tdm_cut cut);
TDM_API void tdm_chunked_set_whole(tdm_chunked *chunked, size_t output, tdm_value whole);
/* The sum of one value a part, in their order. Differentiable. */
TDM_API tdm_value tdm_chunked_sum(tdm_chunked *chunked, const tdm_value *parts);

/* ---- Optimizers ------------------------------------------------------------------------------ */

/* What an optimizer's rule works with: the parameters of a training plan. */
typedef struct tdm_update tdm_update;

/* Appends the update phase: called once a training plan, with every parameter that has a gradient,
 * in the order the graph declares them. Nodes it appends that overwrite persistent values form the
 * last phase, with those that read what these have made: of a value that was overwritten, what was
 * appended behind reads the new one. Each update follows its parameter's device. */
typedef struct tdm_optimizer_rule {
  const char *name;    /* which checkpoints compare */
  bool accepts_sparse; /* gradients that are rows: one update of a parameter writes these alone */
  tdm_status (*append)(tdm_update *update);
  int momentum; /* which of the settings tdm_session_set_momentum stands for, from 1 on; 0: none */
  bool is_by_element; /* what becomes of an element depends on its own gradient and states, and on
                         numbers: a parameter may be updated piece by piece */
} tdm_optimizer_rule;

/* A moving average is the state "optimizer/PARAMETER/average". */
#define TDM_AVERAGE_STATE "average"
#define TDM_AVERAGE_MEAN (-1.0)
#define TDM_AVERAGE_NONE (-2.0)

/* An optimizer and its numbers: a value, which sessions copy. Made by an optimizer's function
 * (layers/optimizers.h), or for a rule of one's own by tdm_optimizer_default(). */
typedef struct tdm_optimizer {
  const tdm_optimizer_rule *rule;
  double learning_rate; /* the first; tdm_session_set_learning_rate changes it */
  /* Limit of each element's absolute value in a gradient, 0 or more; INFINITY: none. Gradients are
   * clipped once they are summed over micro-batches, replicas and ranks, and before clip_norm. */
  double clip_value;
  double clip_norm;     /* positive: gradients are scaled so that their joint norm is at most this;
                           INFINITY: never */
  bool maximize;        /* the loss is to become larger: every gradient is negated */
  /* Each parameter has a moving average, of which after an update this much, at least 0 and less
   * than 1, is what it was, the rest the parameter; the first update sets it. TDM_AVERAGE_MEAN: the
   * mean of what all updates made. TDM_AVERAGE_NONE: none. A session with `averages` reads it. */
  double average_decay;
  double settings[8]; /* the rule's own */
} tdm_optimizer;
static inline tdm_optimizer tdm_optimizer_default(void) {
  tdm_optimizer optimizer = TDM_ZEROED;
  optimizer.clip_value = HUGE_VAL;
  optimizer.clip_norm = HUGE_VAL;
  optimizer.average_decay = TDM_AVERAGE_NONE;
  return optimizer;
}

/* The graph to append to; the optimizer, with its settings; how many parameters there are; of one
 * its value, its path, and whether its gradient is rows. Borrowed. */
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

#ifdef __cplusplus
}
#endif
#endif
