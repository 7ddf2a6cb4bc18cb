/* Describes a random model to the library: one call of a layer or function for each node, in a
 * separate scope that parallel regions refer to. */
#include <stdio.h>
#include <string.h>

#include "tests/options.h"
#include "tests/random/view.h"

typedef struct building {
  const random_view *view;
  const random_model *model;
  const random_machine *machine;
  tdm_graph *graph;
  tdm_value values[MOST_VALUES];
  tdm_value target; /* the parameter for which the node requests a gradient */
} building;

static tdm_shape shape_of(const random_model *it, const extent *from, bool infer) {
  tdm_dim dims[MOST_RANK];
  for (int i = 0; i < from->rank; i++) {
    dims[i] = from->dims[i];
    if (dims[i] >= 0) continue;
    dims[i] = infer || dims[i] != BATCH ? TDM_INFER : TDM_DIM("batch");
    if (it->fixed_rows > 0) dims[i] = extent_dim(from, i, it->fixed_rows);
  }
  return tdm_shape_make(from->rank, dims);
}

static tdm_dtype dtype_of(const random_model *it) {
  return it->wide ? TDM_FLOAT64 : TDM_FLOAT32;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static tdm_value build_unary(tdm_graph *graph, const random_node *what, tdm_value x) {
  const double a = what->numbers[0], b = what->numbers[1];
  switch (what->which) {
  case UNARY_RELU:
    return tdm_relu(graph, "it", x);
  case UNARY_ABS:
    return tdm_abs(graph, "it", x);
  case UNARY_NEG:
    return tdm_neg(graph, "it", x);
  case UNARY_SQUARE:
    return tdm_square(graph, "it", x);
  case UNARY_CUBE:
    return tdm_pow(graph, "it", x, 3);
  case UNARY_CLAMP:
    return tdm_clamp(graph, "it", x, a, b);
  case UNARY_HARDTANH:
    return tdm_hardtanh(graph, "it", x, a, b);
  case UNARY_RELU6:
    return tdm_relu6(graph, "it", x);
  case UNARY_LEAKY:
    return tdm_leaky_relu(graph, "it", x, a);
  default:
    return tdm_affine(graph, "it", x, a, b);
  }
}

static tdm_value build_binary(tdm_graph *graph, int which, tdm_value a, tdm_value b) {
  switch (which) {
  case BINARY_ADD:
    return tdm_add(graph, "it", a, b);
  case BINARY_SUB:
    return tdm_sub(graph, "it", a, b);
  case BINARY_MUL:
    return tdm_mul(graph, "it", a, b);
  case BINARY_MAXIMUM:
    return tdm_maximum(graph, "it", a, b);
  default:
    return tdm_minimum(graph, "it", a, b);
  }
}

static tdm_value build_table(tdm_graph *graph, const random_node *what, tdm_value ids,
                             tdm_value scales, int64_t dim) {
  if (what->kind == NODE_EMBEDDING) {
    const tdm_embedding_options options =
        OPTIONS(tdm_embedding_options, o.sparse = what->flag,
                o.padding_index = what->padding_row >= 0 ? what->padding_row : TDM_NO_INDEX);
    return tdm_embedding_with(graph, "it", ids, what->count, dim, &options);
  }
  static const tdm_bag_mode MODES[] = {TDM_BAG_MEAN, TDM_BAG_SUM, TDM_BAG_MAX};
  const tdm_embedding_bag_options options =
      OPTIONS(tdm_embedding_bag_options, o.mode = MODES[what->which], o.scales = scales,
              o.padding_index = what->padding_row >= 0 ? what->padding_row : TDM_NO_INDEX,
              o.sparse = what->flag);
  return tdm_embedding_bag(graph, "it", ids, what->count, dim, &options);
}

static tdm_value build_image(tdm_graph *graph, const random_node *what, tdm_value x,
                             int64_t channels) {
  const int64_t height = what->kernel[0], width = what->kernel[1];
  if (what->kind == NODE_CONVOLUTION) {
    tdm_conv_options options = OPTIONS(tdm_conv_options, o.groups = OR_ONE(what->groups));
    memcpy(options.stride, what->stride, sizeof options.stride);
    memcpy(options.padding, what->padding, sizeof options.padding);
    memcpy(options.dilation, what->dilation, sizeof options.dilation);
    options.without_bias = what->parameter_count == 1;
    return tdm_conv2d(graph, "it", x, channels, height, width, &options);
  }
  tdm_pool_options options = tdm_pool_options_default();
  memcpy(options.stride, what->stride, sizeof options.stride);
  memcpy(options.padding, what->padding, sizeof options.padding);
  if (what->which == POOL_MAX) return tdm_max_pool2d(graph, "it", x, height, width, &options);
  return tdm_avg_pool2d(graph, "it", x, height, width, &options);
}

static tdm_value build_loss(tdm_graph *graph, int which, tdm_value a, tdm_value b) {
  const tdm_loss_options options = OPTIONS(tdm_loss_options, o.reduction = TDM_LOSS_SUM);
  switch (which) {
  case LOSS_MSE:
    return tdm_mse_with(graph, "it", a, b, &options);
  case LOSS_L1:
    return tdm_l1_with(graph, "it", a, b, &options);
  case LOSS_SMOOTH_L1:
    return tdm_smooth_l1_with(graph, "it", a, b, &options);
  default:
    return tdm_huber_with(graph, "it", a, b, &options);
  }
}

static tdm_value build_reduction(tdm_graph *graph, const random_node *what, tdm_value x) {
  const int *dimensions = what->dimension < 0 ? NULL : &what->dimension;
  const size_t count = what->dimension < 0 ? 0 : 1;
  switch (what->kind) {
  case NODE_SUM:
    return tdm_sum(graph, "it", x, dimensions, count, false);
  case NODE_MEAN:
    return tdm_mean(graph, "it", x, dimensions, count, false);
  case NODE_CUMSUM:
    return tdm_cumsum(graph, "it", x, what->dimension);
  default:
    return what->flag ? tdm_min(graph, "it", x, what->dimension, false, NULL)
                      : tdm_max(graph, "it", x, what->dimension, false, NULL);
  }
}

static void build_split(building *it, const random_node *what) {
  tdm_dim sizes[4];
  const tdm_value x = it->values[what->operands[0]];
  if (what->flag)
    tdm_split_evenly(it->graph, "it", x, what->dimension, (size_t)what->value_count,
                     &it->values[what->first_value]);
  if (what->flag) return;
  for (int i = 0; i < what->value_count; i++)
    sizes[i] = it->model->values[what->first_value + i].dims[what->dimension];
  tdm_split(it->graph, "it", x, what->dimension, sizes, (size_t)what->value_count,
            &it->values[what->first_value]);
}

static tdm_value build_transpose(tdm_graph *graph, const random_node *what, tdm_value x) {
  if (what->dimension == 0 && what->other == 1) return tdm_swap_first_dimensions(graph, "it", x);
  return tdm_transpose(graph, "it", x, what->dimension, what->other);
}

static tdm_value build_where(tdm_graph *graph, const random_node *what, const tdm_value *x) {
  static const tdm_relation RELATIONS[] = {TDM_LESS,          TDM_LESS_EQUAL, TDM_GREATER,
                                           TDM_GREATER_EQUAL, TDM_EQUAL,      TDM_NOT_EQUAL};
  const tdm_value condition = tdm_compare(graph, "condition", x[2], RELATIONS[what->which], x[3]);
  return tdm_where(graph, "it", condition, x[0], x[1]);
}

/* Consumers read plain numbers: a gradient is not differentiated again. */
static tdm_value build_gradient(const building *it, const random_node *what, const tdm_value *x) {
  const tdm_value by = what->target < 0 ? x[1] : it->target;
  const tdm_value made = tdm_gradient_of(it->graph, "it", x[0], by);
  return what->flag ? tdm_detach(it->graph, "numbers", made) : made;
}

static tdm_value build_one(building *it, const random_node *what) {
  tdm_graph *graph = it->graph;
  tdm_value x[MOST_OPERANDS] = {{0}};
  for (int i = 0; i < what->operand_count; i++)
    x[i] = it->values[what->operands[i]];
  const extent *made = &it->model->values[what->first_value];
  const int64_t last = made->rank > 0 ? made->dims[made->rank - 1] : 0;
  tdm_initializer first = {.kind = TDM_INIT_ZEROS, .zero_row = -1};
  if (it->model->moves_rows) first = (tdm_initializer){TDM_INIT_CONSTANT, 0.5, 0, -1};
  switch (what->kind) {
  case NODE_PARAMETER:
    return tdm_parameter(graph, "own", dtype_of(it->model), shape_of(it->model, made, false),
                         &first);
  case NODE_LINEAR:
    return what->parameter_count > 1 ? tdm_linear(graph, "it", x[0], last)
                                     : tdm_linear_without_bias(graph, "it", x[0], last);
  case NODE_EMBEDDING:
  case NODE_BAG:
    return build_table(graph, what, x[0], x[1], last);
  case NODE_UNARY:
    return build_unary(graph, what, x[0]);
  case NODE_BINARY:
    return build_binary(graph, what->which, x[0], x[1]);
  case NODE_WHERE:
    return build_where(graph, what, x);
  case NODE_CONCAT:
    return tdm_concat(graph, "it", x, (size_t)what->operand_count, what->dimension);
  case NODE_RESHAPE:
    return tdm_reshape(graph, "it", x[0], shape_of(it->model, made, what->flag));
  case NODE_TRANSPOSE:
    return build_transpose(graph, what, x[0]);
  case NODE_SELECT:
    return tdm_select(graph, "it", x[0], what->dimension, what->count);
  case NODE_OBSERVE:
    return tdm_observe(graph, "it", x[0]);
  case NODE_MATMUL:
    return tdm_matmul(graph, "it", x[0], x[1]);
  case NODE_INTERACTION:
    return tdm_dot_interaction(graph, "it", x[0], what->flag);
  case NODE_CONVOLUTION:
  case NODE_POOL:
    return build_image(graph, what, x[0], made->dims[1]);
  case NODE_LOSS:
    return build_loss(graph, what->which, x[0], x[1]);
  case NODE_GRADIENT:
    return build_gradient(it, what, x);
  case NODE_KEEP_ROWS:
    return tdm_keep_rows(graph, "it", x[0], x[1], x[2]);
  case NODE_ROWS:
    return build_rows(graph, what, x[0], made);
  case NODE_REAL:
    return build_real(graph, what, x[0], made);
  default:
    return build_reduction(graph, what, x[0]);
  }
}

static void build_node(building *it, int index) {
  const random_node *what = &it->model->nodes[index];
  const extent *made = &it->model->values[what->first_value];
  char name[16], device[16];
  (void)snprintf(name, sizeof name, "n%d", index);
  if (what->kind <= NODE_INDICES) {
    it->values[what->first_value] =
        tdm_input(it->graph, name, what->kind == NODE_INPUT ? dtype_of(it->model) : TDM_INT64,
                  shape_of(it->model, made, false));
    return;
  }
  build_ties(it->graph, it->model, index);
  if (what->target >= 0)
    it->target = tdm_get_parameter(it->graph, it->model->parameters[what->target].name);
  if (what->kind == NODE_KEPT) {
    it->values[what->first_value] =
        tdm_kept(it->graph, name, dtype_of(it->model), shape_of(it->model, made, false));
    return;
  }
  tdm_scope_push(it->graph, name);
  if (it->view->devices[index] != NOWHERE)
    tdm_place(it->graph, machine_device(it->machine, it->view->devices[index], device));
  if (what->kind == NODE_SPLIT) build_split(it, what);
  if (what->kind == NODE_KEEP)
    tdm_keep(it->graph, "it", it->values[what->operands[0]], it->values[what->operands[1]]);
  else if (what->kind != NODE_SPLIT)
    it->values[what->first_value] = build_one(it, what);
  tdm_scope_pop(it->graph);
}

/* ---- Wraps ----------------------------------------------------------------------------------- */

/* Values that enter, or leave, the nodes of a wrap. */
static size_t boundary(const building *it, const random_wrap *part, bool leaving, int *out_values) {
  size_t count = 0;
  for (int value = 0; value < it->model->value_count; value++) {
    const int maker = it->model->value_node[value];
    const bool made_inside = maker >= part->first && maker <= part->last;
    bool crosses = false;
    for (int n = 0; n < it->view->node_count; n++) {
      const bool reads_inside = n >= part->first && n <= part->last;
      for (int k = 0; k < it->model->nodes[n].operand_count; k++)
        crosses |= it->model->nodes[n].operands[k] == value && reads_inside == !leaving;
    }
    for (int k = 0; k < it->model->output_count && leaving; k++)
      crosses |= it->model->outputs[k] == value;
    if (crosses && made_inside == leaving) out_values[count++] = value;
  }
  return count;
}

static void build_wrap(building *it, const random_wrap *part) {
  char scope[512] = "", devices[128] = "", text[16], output[16];
  for (int i = part->first; i <= part->last; i++)
    (void)snprintf(scope + strlen(scope), sizeof scope - strlen(scope), "%sn%d",
                   i > part->first ? "," : "", i);
  for (int i = 0; i < part->device_count; i++)
    (void)snprintf(devices + strlen(devices), sizeof devices - strlen(devices), "%s%s",
                   i > 0 ? "," : "", machine_device(it->machine, part->devices[i], text));
  int entering[MOST_VALUES], leaving[MOST_VALUES];
  const size_t in = boundary(it, part, false, entering), out = boundary(it, part, true, leaving);
  tdm_scatter scatter[MOST_VALUES];
  tdm_value inputs[MOST_VALUES], outputs[MOST_VALUES];
  size_t scattered = 0, input_count = 0;
  for (size_t i = 0; i < in; i++) {
    const int batch = extent_batch(&it->model->values[entering[i]]);
    const random_node *maker = &it->model->nodes[it->model->value_node[entering[i]]];
    if (maker->kind == NODE_PARAMETER) continue;
    inputs[input_count++] = it->values[entering[i]];
    if (batch != 0)
      scatter[scattered++] =
          (tdm_scatter){it->values[entering[i]], batch < 0 ? TDM_BROADCAST : batch};
  }
  for (size_t i = 0; i < out; i++)
    outputs[i] = it->values[leaving[i]];
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = devices,
              o.output_device = part->output_device == NOWHERE
                                    ? NULL
                                    : machine_device(it->machine, part->output_device, output),
              o.weights = part->weighted ? part->weights : NULL, o.scatter = scatter,
              o.scatter_count = scattered, o.sharding = part->sharding);
  if (part->between && out > 0 && input_count > 0)
    tdm_data_parallel_between(it->graph, inputs, input_count, outputs, out, &options);
  else
    tdm_data_parallel(it->graph, scope, &options);
}

static void build_shards(const building *it, bool first) {
  for (int i = 0; i < it->view->shard_count; i++)
    if (it->view->shards[i].is_first == first)
      build_shard(it->graph, it->view, it->machine, &it->view->shards[i]);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void observe(void *user, const tdm_observation *observation) {
  _Atomic uint64_t *count = user;
  if (tdm_tensor_data(observation->tensor) || tdm_tensor_bytes(observation->tensor) == 0)
    (*count)++;
}

static tdm_session *open_session(building *it, tdm_store *store, _Atomic uint64_t *observations) {
  const random_view *view = it->view;
  const random_model *model = it->model;
  const tdm_optimizer optimizer = build_optimizer(model, 0, view->learning_rate);
  view_groups groups;
  build_groups(&groups, model, view->learning_rate, view->frozen);
  tdm_session_options options =
      OPTIONS(tdm_session_options, o.store = store, o.depth = OR_ONE(view->depth),
              o.queue_limit = view->queue_limit > 0 ? view->queue_limit : TDM_NO_QUEUE_LIMIT,
              o.plan_limit = OR_ONE(view->plan_limit), o.deterministic = view->deterministic,
              o.check_finite = view->check_finite, o.profile = view->profile,
              o.trace_runs = view->trace_runs, o.micro_batches = OR_ONE(view->micro_batches),
              o.batch_dimension = "batch", o.unfused = view->unfused,
              o.averages = view->reads_averages, o.collective = (tdm_collective)view->collective);
  if (view->observes) {
    options.observer = observe;
    options.observer_user = observations;
  }
  if (view->trains) {
    options.loss = it->values[model->loss];
    options.optimizer = &optimizer;
    options.groups = groups.list;
    options.group_count = groups.count;
  }
  return tdm_session_create(it->graph, &options);
}

tdm_session *view_open(const random_view *view, const random_model *of, const random_machine *on,
                       tdm_context *context, tdm_store *store, _Atomic uint64_t *observations) {
  building it = {.view = view, .model = of, .machine = on, .graph = tdm_graph_create(context)};
  if (!it.graph) return NULL;
  tdm_scope_dtype(it.graph, dtype_of(of));
  for (int i = 0; i < view->node_count; i++)
    build_node(&it, i);
  build_shards(&it, true);
  for (int i = 0; i < view->wrap_count; i++)
    build_wrap(&it, &view->wraps[i]);
  build_shards(&it, false);
  for (int i = 0; i < of->output_count; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "o%d", i);
    if (view_has_output(view, of, i)) tdm_output(it.graph, name, it.values[of->outputs[i]]);
  }
  tdm_session *session = open_session(&it, store, observations);
  tdm_graph_release(it.graph);
  return session;
}
