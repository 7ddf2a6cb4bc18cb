/* Batch normalization (Ioffe, Szegedy, "Batch normalization", 2015). In training, another operation
 * replaces this one and normalizes by the statistics of the batch. Invariant: running statistics
 * change only in the update phase, by the statistics of the first replica. */
#include <string.h>

#include "graph/describe/layer_parameters.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

enum { X, RUNNING_MEAN, RUNNING_VAR, WEIGHT, BIAS, BATCHES };
enum { Y, MEAN, INVERSE, VARIANCE };

/* Fails if x has one value per channel, because a variance needs two; PyTorch does the same. Sizes
 * that are open until the run are checked then. */
static tdm_status expect_several_values(const tdm_shape *x, bool instances) {
  int64_t values = instances ? 1 : x->dims[0];
  for (int i = 2; i < x->rank; i++)
    values = tdm_dim_is_size(x->dims[i]) ? values * x->dims[i] : 0;
  if ((!instances && !tdm_dim_is_size(x->dims[0])) || values != 1) return TDM_OK;
  char text[TDM_SHAPE_TEXT];
  return tdm_fail(
      TDM_INVALID_ARGUMENT,
      "x is %s: one value per channel%s, expected at least 2 where a layer normalizes by "
      "the statistics of its input, as in training. Use more rows or larger images, or "
      "fewer micro-batches or replicas",
      tdm_shape_text(x, text, sizeof text), instances ? " of an image" : "");
}

static tdm_status infer_batch_norm(tdm_infer *infer) {
  static const char *const names[] = {"x", "running_mean", "running_var", "weight", "bias"};
  TDM_TRY(tdm_expect_floating(infer, X, "x"));
  TDM_TRY(tdm_expect_rank(infer, X, "x", 2, 4));
  const tdm_shape *x = tdm_infer_shape(infer, X);
  const tdm_shape channels = {.rank = 1, .dims = {x->dims[1]}};
  for (size_t i = RUNNING_MEAN; i <= BIAS; i++) {
    if (!tdm_infer_has(infer, i)) continue;
    TDM_TRY(tdm_expect_dtype_of_first(infer, i, "x", names[i]));
    TDM_TRY(tdm_expect_shape(infer, i, names[i], &channels));
  }
  const tdm_batch_norm_attributes *attributes = infer->attributes;
  const tdm_shape instances = {.rank = 2, .dims = {x->dims[0], x->dims[1]}};
  tdm_infer_set(infer, Y, infer->inputs[X].dtype, x);
  for (size_t i = MEAN; i < infer->output_count; i++)
    tdm_infer_set(infer, i, i == MEAN ? TDM_FLOAT64 : infer->inputs[X].dtype,
                  attributes->instances != 0 ? &instances : &channels);
  return TDM_OK;
}

static tdm_status infer_training(tdm_infer *infer) {
  const tdm_batch_norm_attributes *attributes = infer->attributes;
  TDM_TRY(infer_batch_norm(infer));
  return expect_several_values(tdm_infer_shape(infer, X), attributes->instances != 0);
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* d_y, x, mean, inverse, [weight] -> d_x, d_weight, d_bias. */
static tdm_status infer_gradient(tdm_infer *infer) {
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, tdm_infer_shape(infer, 1));
  for (size_t i = 1; i < 3; i++)
    tdm_infer_set(infer, i, infer->inputs[0].dtype, tdm_infer_shape(infer, 3));
  return TDM_OK;
}

static const tdm_operation batch_norm_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_BATCH_NORM_GRADIENT,
    .attribute_bytes = sizeof(tdm_batch_norm_attributes),
    .min_inputs = 4,
    .max_inputs = 5,
    .output_count = 3,
    .infer = infer_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_gradient(tdm_gradient *gradient) {
  static const size_t targets[] = {X, WEIGHT, BIAS};
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value operands[] = {
      tdm_gradient_of_output(gradient, Y), tdm_gradient_input(gradient, X),
      tdm_gradient_output(gradient, MEAN), tdm_gradient_output(gradient, INVERSE),
      tdm_gradient_input(gradient, WEIGHT)};
  tdm_value outputs[3];
  tdm_append(graph, &batch_norm_gradient, tdm_gradient_name(gradient),
             tdm_gradient_attributes(gradient), operands, 5, outputs);
  for (size_t i = 0; i < 3; i++)
    if (tdm_gradient_wanted(gradient, targets[i]))
      tdm_gradient_set(gradient, targets[i], outputs[i]);
  return tdm_graph_status(graph);
}

/* ---- Running statistics ---------------------------------------------------------------------- */

static tdm_status infer_statistics(tdm_infer *infer) {
  for (size_t i = 0; i < 3; i++)
    tdm_infer_set(infer, i, infer->inputs[i].dtype, tdm_infer_shape(infer, i));
  return TDM_OK;
}

static const tdm_operation batch_norm_statistics = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_BATCH_NORM_STATISTICS,
    .attribute_bytes = sizeof(tdm_batch_norm_attributes),
    .min_inputs = 5,
    .max_inputs = 5,
    .output_count = 3,
    .overwrites = {1, 2, 3},
    .infer = infer_statistics,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

/* Returns a statistic of the batch, or the mean of the statistics of its images. */
static tdm_value statistic_of(tdm_gradient *gradient, size_t output) {
  const tdm_batch_norm_attributes *attributes = tdm_gradient_attributes(gradient);
  const tdm_value found = tdm_gradient_output(gradient, output);
  const int images[] = {0};
  if (attributes->instances == 0) return found;
  return tdm_mean(tdm_gradient_graph(gradient), tdm_gradient_name(gradient), found, images, 1,
                  false);
}

/* Appends the new running statistics. As in PyTorch, an empty batch is counted and leaves the mean
 * and the variance unchanged. */
static tdm_status persist_statistics(tdm_gradient *gradient) {
  if (!tdm_value_is_valid(tdm_gradient_input(gradient, BATCHES)))
    return TDM_OK; /* no running
                    * statistics */
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_batch_norm_attributes attributes;
  memcpy(&attributes, tdm_gradient_attributes(gradient), sizeof attributes);
  const tdm_shape x = tdm_value_shape(graph, tdm_gradient_input(gradient, X));
  if (tdm_shape_count(&x) == 0 && attributes.instances != 0) return TDM_OK;
  if (tdm_shape_count(&x) == 0) attributes.momentum = 0;
  const tdm_value operands[] = {tdm_gradient_input(gradient, RUNNING_MEAN),
                                tdm_gradient_input(gradient, RUNNING_VAR),
                                tdm_gradient_input(gradient, BATCHES), statistic_of(gradient, MEAN),
                                statistic_of(gradient, VARIANCE)};
  tdm_append(graph, &batch_norm_statistics, tdm_gradient_name(gradient), &attributes, operands, 5,
             NULL);
  return tdm_graph_status(graph);
}

/* ---- The layer ------------------------------------------------------------------------------- */

static const tdm_operation batch_norm_in_training = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_BATCH_NORM_TRAINING,
    .attribute_bytes = sizeof(tdm_batch_norm_attributes),
    .min_inputs = 1,
    .max_inputs = 6,
    .output_count = 4,
    .infer = infer_training,
    .gradient = append_gradient,
    .persist = persist_statistics,
    .persist_inputs = 1u << RUNNING_MEAN | 1u << RUNNING_VAR | 1u << BATCHES,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static const tdm_operation batch_norm_operation;

/* The operation is linear in x: d_x is the operation applied to d_y with mean 0 and no bias. The
 * gradient of the weight is the sum of d_y times the operation on x without weight and bias. */
static tdm_status append_gradient_by_statistics(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const void *attributes = tdm_gradient_attributes(gradient);
  const tdm_value d_y = tdm_gradient_of_output(gradient, Y);
  const tdm_value x = tdm_gradient_input(gradient, X);
  const tdm_value mean = tdm_gradient_input(gradient, RUNNING_MEAN);
  const tdm_value variance = tdm_gradient_input(gradient, RUNNING_VAR);
  TDM_TRY(tdm_gradient_refuse(gradient, RUNNING_MEAN, "running mean"));
  TDM_TRY(tdm_gradient_refuse(gradient, RUNNING_VAR, "running variance"));
  if (tdm_gradient_wanted(gradient, X)) {
    const tdm_value operands[] = {[X] = d_y,
                                  [RUNNING_MEAN] = tdm_sub(graph, name, mean, mean),
                                  [RUNNING_VAR] = variance,
                                  [WEIGHT] = tdm_gradient_input(gradient, WEIGHT),
                                  [BATCHES] = {0, 0}};
    tdm_gradient_set(gradient, X,
                     tdm_append(graph, &batch_norm_operation, name, attributes, operands, 6, NULL));
  }
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int others[] = {0, 2, 3}; /* all dimensions except channels */
  const size_t count = (size_t)shape.rank - 1;
  if (tdm_gradient_wanted(gradient, WEIGHT)) {
    const tdm_value operands[] = {
        [X] = x, [RUNNING_MEAN] = mean, [RUNNING_VAR] = variance, [BATCHES] = {0, 0}};
    const tdm_value normal =
        tdm_append(graph, &batch_norm_operation, name, attributes, operands, 6, NULL);
    tdm_gradient_set(gradient, WEIGHT,
                     tdm_sum(graph, name, tdm_mul(graph, name, d_y, normal), others, count, false));
  }
  if (tdm_gradient_wanted(gradient, BIAS))
    tdm_gradient_set(gradient, BIAS, tdm_sum(graph, name, d_y, others, count, false));
  return tdm_graph_status(graph);
}

static const tdm_operation batch_norm_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_BATCH_NORM,
    .attribute_bytes = sizeof(tdm_batch_norm_attributes),
    .min_inputs = 3,
    .max_inputs = 6,
    .output_count = 1,
    .infer = infer_batch_norm,
    .gradient = append_gradient_by_statistics,
    .when_training = &batch_norm_in_training,
    .persist_inputs = 1u << BATCHES,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

TDM_RECORDS(batch_norm, {.operation = &batch_norm_operation, .functions = "tdm_batch_norm"},
            {.operation = &batch_norm_in_training}, {.operation = &batch_norm_gradient},
            {.operation = &batch_norm_statistics});

static tdm_value state_of(tdm_graph *graph, const char *name, const char *suffix, tdm_dtype dtype,
                          tdm_shape shape, double value, tdm_value like) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_layer_name(graph, name, suffix, text)) return TDM_NO_VALUE;
  const tdm_initializer constant = {TDM_INIT_CONSTANT, value, 0.0, -1};
  return tdm_declare_state_for_layer(graph, name, suffix, dtype, &shape, &constant, like);
}

/* Appends the operation with the given statistics. The operands up to the bias are set; x becomes
 * the first one. */
static tdm_value append_norm(tdm_graph *graph, const char *name, tdm_value x, tdm_value *operands,
                             const tdm_operation *operation,
                             const tdm_batch_norm_attributes *attributes) {
  const tdm_shape shape = tdm_value_shape(graph, x);
  operands[X] = shape.rank == 5 ? tdm_flatten(graph, name, x, 3, 4) : x;
  if (!tdm_value_is_valid(operands[X])) return TDM_NO_VALUE;
  const tdm_value y = tdm_append(graph, operation, name, attributes, operands, 6, NULL);
  const int8_t sources[] = {0, 1, 2, -1, -1};
  if (shape.rank != 5 || !tdm_value_is_valid(y)) return y;
  return tdm_reshape_from(graph, name, y, shape, sources);
}

/* Declares running_mean, running_var and num_batches_tracked on the device of `like`. */
static void declare_statistics(tdm_graph *graph, const char *name, tdm_shape channels,
                               tdm_value like, tdm_value *operands) {
  const tdm_dtype dtype = tdm_graph_dtype(graph);
  operands[RUNNING_MEAN] = state_of(graph, name, ".running_mean", dtype, channels, 0.0, like);
  operands[RUNNING_VAR] = state_of(graph, name, ".running_var", dtype, channels, 1.0, like);
  operands[BATCHES] =
      state_of(graph, name, ".num_batches_tracked", TDM_INT64, tdm_shape_scalar(), 0.0, like);
}

tdm_value tdm_normalize_instances(tdm_graph *graph, const char *name, tdm_value x, double epsilon,
                                  double momentum, tdm_value like) {
  const tdm_shape channels = tdm_shape_of(1, tdm_value_shape(graph, x).dims[1]);
  tdm_value operands[6] = {x};
  declare_statistics(graph, name, channels, like, operands);
  tdm_batch_norm_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.epsilon = epsilon;
  attributes.momentum = momentum;
  attributes.instances = 1;
  return append_norm(graph, name, x, operands, &batch_norm_operation, &attributes);
}

tdm_value tdm_batch_norm_with(tdm_graph *graph, const char *name, tdm_value x,
                              const tdm_batch_norm_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_batch_norm_options chosen;
  if (!tdm_layer_options(graph, "batch_norm", name, batch_norm, options, &chosen) ||
      !tdm_layer_epsilon(graph, "batch_norm", name, chosen.epsilon) ||
      !tdm_layer_accepts(graph, "batch_norm", name, x))
    return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  if (shape.rank < 2 || !tdm_dim_is_size(shape.dims[1])) {
    char text[TDM_SHAPE_TEXT];
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "batch_norm %s: dimension 1 of x must be a size, x is %s", name,
                          tdm_shape_text(&shape, text, sizeof text));
  }
  const tdm_shape channels = tdm_shape_of(1, shape.dims[1]);
  const tdm_initializer ones = {TDM_INIT_CONSTANT, 1.0, 0.0, -1};
  const tdm_initializer zeros = {TDM_INIT_ZEROS, 0.0, 0.0, -1};
  tdm_value operands[6] = {x};
  if (!chosen.without_affine) {
    operands[WEIGHT] = tdm_layer_parameter(graph, name, ".weight", channels, &ones);
    operands[BIAS] = tdm_layer_parameter(graph, name, ".bias", channels, &zeros);
  }
  if (!chosen.without_statistics)
    declare_statistics(graph, name, channels, operands[WEIGHT], operands);
  tdm_batch_norm_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.epsilon = chosen.epsilon;
  attributes.momentum = chosen.momentum;
  return append_norm(graph, name, x, operands,
                     chosen.without_statistics ? &batch_norm_in_training : &batch_norm_operation,
                     &attributes);
}

tdm_value tdm_batch_norm(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_batch_norm_with(graph, name, x, NULL);
}
