/* How much work a kernel is, by its operation: sums of products, and bytes that pass between memory
 * and processor if each operand passes once. Invariant: an operation whose work is not written here
 * is refused, not guessed. */
#include <math.h>
#include <string.h>

#include "devices/fused.h"
#include "graph/forecast/costs.h"

static const tdm_ir_value *input_of(const tdm_graph *graph, const tdm_ir_node *node, uint32_t k) {
  const uint32_t *inputs = node->inputs;
  return k < node->input_count && inputs[k] ? tdm_ir_value_at(graph, inputs[k]) : NULL;
}

static const tdm_ir_value *output_of(const tdm_graph *graph, const tdm_ir_node *node, uint32_t k) {
  return tdm_ir_value_at(graph, node->first_output + k);
}

static double count_of(const tdm_ir_value *value) {
  return value ? (double)tdm_shape_count(&value->spec.shape) : 0;
}

static double bytes_of(const tdm_ir_value *value) {
  return value ? (double)value->bytes : 0;
}

/* The last dimension of a value. */
static double width_of(const tdm_ir_value *value) {
  const int rank = value->spec.shape.rank;
  return rank > 0 ? (double)value->spec.shape.dims[rank - 1] : 1;
}

/* ---- Products ---- */

/* x (..., in), weight (out, in): 2 in for each element of y. */
static double linear_flops(const tdm_graph *graph, const tdm_ir_node *node) {
  return 2 * count_of(output_of(graph, node, 0)) * width_of(input_of(graph, node, 0));
}

/* d_out (..., out), weight (out, in) -> d_x (..., in): 2 out for each element. */
static double linear_input_flops(const tdm_graph *graph, const tdm_ir_node *node) {
  return 2 * count_of(output_of(graph, node, 0)) * width_of(input_of(graph, node, 0));
}

/* d_out (rows, out), x (rows, in) -> d_weight (out, in): 2 rows for each element. */
static double linear_parameter_flops(const tdm_graph *graph, const tdm_ir_node *node) {
  return 2 * count_of(input_of(graph, node, 0)) * width_of(input_of(graph, node, 1));
}

/* x (length, batch, in), weight_ih (columns, in), weight_hh (columns, hidden): 2 for each element
 * of both weights, row of the batch and step. */
static double recurrent_step_flops(const tdm_ir_value *x, const tdm_ir_value *weight_ih,
                                   const tdm_ir_value *weight_hh) {
  return 2 * count_of(x) / width_of(x) * (count_of(weight_ih) + count_of(weight_hh));
}

static double recurrent_flops(const tdm_graph *graph, const tdm_ir_node *node) {
  return recurrent_step_flops(input_of(graph, node, 0), input_of(graph, node, 1),
                              input_of(graph, node, 2));
}

/* x, y, weight_ih, weight_hh, ...: the same products twice, once for d_x and h, once for the
 * weights. */
static double recurrent_gradient_flops(const tdm_graph *graph, const tdm_ir_node *node) {
  return 2 * recurrent_step_flops(input_of(graph, node, 0), input_of(graph, node, 2),
                                  input_of(graph, node, 3));
}

/* ---- Bytes ---- */

static double all_bytes(const tdm_graph *graph, const tdm_ir_node *node) {
  double bytes = 0;
  for (uint32_t k = 0; k < node->input_count; k++)
    bytes += bytes_of(input_of(graph, node, k));
  for (uint32_t k = 0; k < node->output_count; k++)
    bytes += bytes_of(output_of(graph, node, k));
  return bytes;
}

/* weight (rows, dim), ids: of the table only the rows that ids name. */
static double lookup_bytes(const tdm_graph *graph, const tdm_ir_node *node) {
  return bytes_of(input_of(graph, node, 1)) + 2 * bytes_of(output_of(graph, node, 0));
}

/* parameter, rows (n, dim), indices, ...: n rows of every table are read and written. */
static double sparse_update_bytes(const tdm_graph *graph, const tdm_ir_node *node) {
  const double rows = bytes_of(input_of(graph, node, 1));
  /* The parameter and its states; the last, where there are any, is the count of steps. */
  const double tables = node->output_count > 1 ? node->output_count - 1 : 1;
  return bytes_of(input_of(graph, node, 2)) + rows + 2 * tables * rows;
}

static double written_bytes(const tdm_graph *graph, const tdm_ir_node *node) {
  return bytes_of(output_of(graph, node, 0));
}

/* What is read is as much as what is written. */
static double moved_bytes(const tdm_graph *graph, const tdm_ir_node *node) {
  return 2 * bytes_of(output_of(graph, node, 0));
}

/* ---- By operation ---- */

typedef double (*work_function)(const tdm_graph *graph, const tdm_ir_node *node);

typedef struct operation_work {
  const char *name;
  work_function flops; /* NULL: too few to matter beside the bytes */
  work_function bytes; /* NULL: all operands once */
} operation_work;

static const operation_work works[] = {
    {TDM_OP_LINEAR, linear_flops, NULL},
    {TDM_OP_LINEAR_INPUT_GRADIENT, linear_input_flops, NULL},
    {TDM_OP_LINEAR_PARAMETER_GRADIENT, linear_parameter_flops, NULL},
    {TDM_OP_RNN, recurrent_flops, NULL},
    {TDM_OP_RNN_GRADIENT, recurrent_gradient_flops, NULL},
    {TDM_OP_LSTM, recurrent_flops, NULL},
    {TDM_OP_LSTM_TRAINING, recurrent_flops, NULL},
    {TDM_OP_LSTM_GRADIENT, recurrent_gradient_flops, NULL},
    {TDM_OP_GRU, recurrent_flops, NULL},
    {TDM_OP_GRU_TRAINING, recurrent_flops, NULL},
    {TDM_OP_GRU_GRADIENT, recurrent_gradient_flops, NULL},
    {TDM_OP_EMBEDDING, NULL, lookup_bytes},
    {TDM_OP_EMBEDDING_GRADIENT, NULL, NULL},
    {TDM_OP_EMBEDDING_SPARSE_GRADIENT, NULL, NULL},
    {TDM_OP_SPARSE_ADD, NULL, NULL},
    {TDM_OP_ADD_ROWS, NULL, sparse_update_bytes},
    {TDM_OP_RELU, NULL, NULL},
    {TDM_OP_TANH, NULL, NULL},
    {TDM_OP_SIGMOID, NULL, NULL},
    {TDM_OP_RELU_GRADIENT, NULL, NULL},
    {TDM_OP_TANH_GRADIENT, NULL, NULL},
    {TDM_OP_SIGMOID_GRADIENT, NULL, NULL},
    {TDM_OP_ADD, NULL, NULL},
    {TDM_OP_SUB, NULL, NULL},
    {TDM_OP_MUL, NULL, NULL},
    {TDM_OP_DIV, NULL, NULL},
    {TDM_OP_MAXIMUM, NULL, NULL},
    {TDM_OP_MINIMUM, NULL, NULL},
    {TDM_OP_MAXIMUM_SHARE, NULL, NULL},
    {TDM_OP_COMPARE, NULL, NULL},
    {TDM_OP_WHERE, NULL, NULL},
    {TDM_OP_AFFINE, NULL, NULL},
    {TDM_OP_ABS, NULL, NULL},
    {TDM_OP_ABS_GRADIENT, NULL, NULL},
    {TDM_OP_EXP, NULL, NULL},
    {TDM_OP_LOG, NULL, NULL},
    {TDM_OP_SQRT, NULL, NULL},
    {TDM_OP_SQRT_GRADIENT, NULL, NULL},
    {TDM_OP_RSQRT, NULL, NULL},
    {TDM_OP_RSQRT_GRADIENT, NULL, NULL},
    {TDM_OP_POW, NULL, NULL},
    {TDM_OP_POW_GRADIENT, NULL, NULL},
    {TDM_OP_CLAMP, NULL, NULL},
    {TDM_OP_CLAMP_GRADIENT, NULL, NULL},
    {TDM_OP_SOFTPLUS, NULL, NULL},
    {TDM_OP_SOFTPLUS_GRADIENT, NULL, NULL},
    {TDM_OP_ELU, NULL, NULL},
    {TDM_OP_ELU_GRADIENT, NULL, NULL},
    {TDM_OP_SILU, NULL, NULL},
    {TDM_OP_SILU_GRADIENT, NULL, NULL},
    {TDM_OP_GELU, NULL, NULL},
    {TDM_OP_GELU_GRADIENT, NULL, NULL},
    {TDM_OP_LEAKY_RELU, NULL, NULL},
    {TDM_OP_LEAKY_RELU_GRADIENT, NULL, NULL},
    {TDM_OP_REDUCE, NULL, NULL},
    {TDM_OP_REDUCE_GRADIENT, NULL, NULL},
    {TDM_OP_EXTREME, NULL, NULL},
    {TDM_OP_EXTREME_GRADIENT, NULL, NULL},
    {TDM_OP_CUMSUM, NULL, NULL},
    {TDM_OP_ACCUMULATE, NULL, NULL},
    {TDM_OP_SCALE, NULL, NULL},
    {TDM_OP_FUSED, NULL, NULL},
    {TDM_OP_FILL, NULL, written_bytes},
    {TDM_OP_CAST, NULL, NULL},
    {TDM_OP_SELECT, NULL, moved_bytes},
    {TDM_OP_SELECT_GRADIENT, NULL, NULL},
    {TDM_OP_SWAP_FIRST_DIMENSIONS, NULL, NULL},
    {TDM_OP_SPLIT, NULL, NULL},
    {TDM_OP_CONCAT, NULL, NULL},
    {TDM_OP_SOFTMAX, NULL, NULL},
    {TDM_OP_LOG_SOFTMAX, NULL, NULL},
    {TDM_OP_SOFTMAX_GRADIENT, NULL, NULL},
    {TDM_OP_LOG_SOFTMAX_GRADIENT, NULL, NULL},
    {TDM_OP_CROSS_ENTROPY, NULL, NULL},
    {TDM_OP_CROSS_ENTROPY_GRADIENT, NULL, NULL},
    {TDM_OP_COUNT_TARGETS, NULL, NULL},
    {TDM_OP_NLL, NULL, NULL},
    {TDM_OP_NLL_GRADIENT, NULL, NULL},
    {TDM_OP_SMOOTH_L1, NULL, NULL},
    {TDM_OP_SMOOTH_L1_GRADIENT, NULL, NULL},
    {TDM_OP_BINARY_CROSS_ENTROPY, NULL, NULL},
    {TDM_OP_BINARY_CROSS_ENTROPY_GRADIENT, NULL, NULL},
    {TDM_OP_MSE, NULL, NULL},
    {TDM_OP_MSE_GRADIENT, NULL, NULL},
    {TDM_OP_SGD, NULL, NULL},
    {TDM_OP_SGD_SPARSE, NULL, sparse_update_bytes},
    {TDM_OP_ADAM, NULL, NULL},
    {TDM_OP_ADAM_SPARSE, NULL, sparse_update_bytes},
    {TDM_OP_ADAGRAD, NULL, NULL},
    {TDM_OP_ADAGRAD_SPARSE, NULL, sparse_update_bytes},
    {TDM_OP_RMSPROP, NULL, NULL},
    {TDM_OP_SUM_OF_SQUARES, NULL, NULL},
    {TDM_OP_CLIP_FACTOR, NULL, NULL},
    {TDM_OP_CHECK_FINITE, NULL, NULL},
    {TDM_OP_REORDER, NULL, NULL},
};

static const operation_work *work_called(const char *name) {
  for (size_t i = 0; i < TDM_COUNT_OF(works); i++)
    if (strcmp(works[i].name, name) == 0) return &works[i];
  return NULL;
}

static const operation_work *work_of(const tdm_ir_node *node) {
  return node->operation ? work_called(node->operation->name) : NULL;
}

/* The operation of the node, or of a member of it, whose work is not known; NULL: there is none. */
static const char *unknown_of(const tdm_ir_node *node) {
  if (!node->operation) return NULL;
  if (node->operation != &tdm_operation_fused) return work_of(node) ? NULL : node->operation->name;
  const tdm_fused_attributes *program = node->attributes;
  for (int64_t m = 0; m < program->member_count; m++)
    if (!work_called(program->members[m].kernel->operation))
      return program->members[m].kernel->operation;
  return NULL;
}

double tdm_roofline_bytes(const tdm_graph *graph, const tdm_ir_node *node) {
  const operation_work *work = work_of(node);
  return work && work->bytes ? work->bytes(graph, node) : all_bytes(graph, node);
}

tdm_status tdm_roofline_ns(const tdm_machine_processor *processor, const tdm_graph *graph,
                           const tdm_ir_node *node, double *out_ns) {
  const operation_work *work = work_of(node);
  const char *unknown = unknown_of(node);
  if (unknown)
    return tdm_fail(TDM_UNSUPPORTED,
                    "%s: nothing is known of how much work %s is; measure it (tdm_costs_learn)",
                    node->name, unknown);
  double computing_ns = 0;
  if (work && work->flops) {
    const tdm_dtype dtype = output_of(graph, node, 0)->spec.dtype;
    const double rate = processor->flops_per_ns[dtype];
    if (!(rate > 0))
      return tdm_fail(TDM_UNSUPPORTED, "%s: %s is described without flops_per_second of %s",
                      node->name, processor->model, tdm_dtype_name(dtype));
    computing_ns = work->flops(graph, node) / rate;
  }
  const double streaming_ns = tdm_roofline_bytes(graph, node) / processor->memory_bytes_per_ns;
  *out_ns = processor->launch_ns + fmax(computing_ns, streaming_ns);
  return TDM_OK;
}
