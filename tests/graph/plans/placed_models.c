/* See models.h. */
#include "tests/graph/plans/models.h"
#include "tests/options.h"

/* ---- Inputs ---------------------------------------------------------------------------------- */

static tdm_value input_ids(tdm_graph *graph) {
  return tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
}

static tdm_value input_targets(tdm_graph *graph) {
  return tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
}

static tdm_value input_x(tdm_graph *graph) {
  return tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), PLAN_WIDTH));
}

/* Adds a linear layer on a device. */
static tdm_value layer(tdm_graph *graph, const char *name, tdm_value x, int64_t features,
                       const char *device) {
  tdm_place(graph, device);
  return tdm_linear(graph, name, x, features);
}

/* ---- Models ---------------------------------------------------------------------------------- */

static tdm_value build_stages(tdm_graph *graph, tdm_session_options *options,
                              tdm_optimizer *optimizer) {
  (void)options;
  *optimizer = tdm_adam(1e-3);
  optimizer->clip_norm = 1;
  tdm_place(graph, "cpu:0");
  tdm_value x = tdm_embedding(graph, "table", input_ids(graph), PLAN_TABLE_ROWS, PLAN_WIDTH);
  x = tdm_tanh(graph, "bend", layer(graph, "middle", x, PLAN_WIDTH, "sim:0"));
  x = layer(graph, "scores", x, PLAN_CLASSES, "cpu:1");
  tdm_output(graph, "scores", x);
  return tdm_cross_entropy(graph, "loss", x, input_targets(graph));
}

static tdm_value build_parts(tdm_graph *graph, tdm_session_options *options,
                             tdm_optimizer *optimizer) {
  options->micro_batches = 3;
  options->depth = 2;
  return build_stages(graph, options, optimizer);
}

static tdm_value build_back_and_forth(tdm_graph *graph, tdm_session_options *options,
                                      tdm_optimizer *optimizer) {
  (void)options;
  optimizer->average_decay = 0.9;
  const tdm_value x = input_x(graph);
  const tdm_value a = tdm_relu(graph, "bend", layer(graph, "a", x, PLAN_WIDTH, "sim:0"));
  const tdm_value b = layer(graph, "b", a, PLAN_WIDTH, "sim:1");
  const tdm_value c = layer(graph, "c", b, PLAN_WIDTH, "cpu:1");
  tdm_place(graph, "sim:0");
  const tdm_value sum = tdm_add(graph, "sum", tdm_mul(graph, "product", a, b), c);
  tdm_place(graph, "cpu:0");
  return tdm_mse(graph, "loss", sum, x);
}

static tdm_value build_tied(tdm_graph *graph, tdm_session_options *options,
                            tdm_optimizer *optimizer) {
  (void)options;
  *optimizer = tdm_sgd_with(WITH(tdm_sgd_options, o.learning_rate = 0.1, o.momentum = 0.9));
  const tdm_value x = input_x(graph);
  tdm_value y = tdm_relu(graph, "first_bend", layer(graph, "shared", x, PLAN_WIDTH, "cpu:0"));
  y = tdm_gelu(graph, "between", layer(graph, "own", y, PLAN_WIDTH, "cpu:0"));
  tdm_tie(graph, "shared", "shared");
  y = layer(graph, "shared", y, PLAN_WIDTH, "sim:0");
  y = tdm_affine(graph, "scaled", tdm_sigmoid(graph, "last_bend", y), 2, -1);
  return tdm_mse(graph, "loss", y, x);
}

tdm_value plan_build_rows(tdm_graph *graph, tdm_session_options *options,
                          tdm_optimizer *optimizer) {
  (void)options;
  *optimizer = tdm_adagrad(0.1);
  const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
  const tdm_value ids = input_ids(graph);
  tdm_place(graph, "cpu:0");
  const tdm_value left =
      tdm_embedding_with(graph, "table", ids, PLAN_TABLE_ROWS, PLAN_WIDTH, &sparse);
  tdm_place(graph, "sim:0");
  const tdm_value others = tdm_input(graph, "others", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_tie(graph, "table", "table");
  const tdm_value right =
      tdm_embedding_with(graph, "table", others, PLAN_TABLE_ROWS, PLAN_WIDTH, &sparse);
  return tdm_mse(graph, "loss", left, right);
}

static tdm_value build_moves(tdm_graph *graph, tdm_session_options *options,
                             tdm_optimizer *optimizer) {
  (void)options;
  (void)optimizer;
  tdm_place(graph, "cpu:0");
  const tdm_value x = input_x(graph);
  tdm_value halves[2];
  tdm_split_evenly(graph, "halves", tdm_linear(graph, "in", x, PLAN_WIDTH), 1, 2, halves);
  const tdm_value left = tdm_exp(graph, "exp", halves[0]);
  const tdm_value right = tdm_linear(graph, "right", halves[1], PLAN_WIDTH / 2);
  const tdm_value far = tdm_relu(graph, "far", layer(graph, "away", left, 2, "sim:0"));
  tdm_place(graph, "cpu:0");
  const tdm_value parts[] = {left, right, far, left};
  const tdm_value joined = tdm_concat(graph, "joined", parts, 4, 1);
  const tdm_value turned = tdm_transpose(graph, "turned", joined, 0, 1);
  const tdm_value some = tdm_slice(graph, "some", turned, 0, 1, 9, 2);
  return tdm_mean(graph, "loss", tdm_square(graph, "squares", some), NULL, 0, false);
}

static tdm_value build_shared_gradient(tdm_graph *graph, tdm_session_options *options,
                                       tdm_optimizer *optimizer) {
  (void)options;
  (void)optimizer;
  tdm_place(graph, "cpu:0");
  const tdm_value x = input_x(graph);
  const tdm_value once = tdm_linear(graph, "once", x, PLAN_WIDTH);
  const tdm_value half = tdm_slice(graph, "half", once, 0, 0, PLAN_ROWS / 2, 1);
  tdm_value parts[2];
  tdm_split(graph, "parts", tdm_linear(graph, "cut", x, PLAN_WIDTH), 0,
            (const int64_t[]){PLAN_ROWS / 2, PLAN_ROWS / 2}, 2, parts);
  const tdm_value sum = tdm_add(graph, "sum", half, parts[0]);
  const tdm_value other = tdm_mul(graph, "other", half, parts[1]);
  return tdm_mean(graph, "loss", tdm_mul(graph, "product", sum, other), NULL, 0, false);
}

tdm_value plan_build_image(tdm_graph *graph, tdm_session_options *options,
                           tdm_optimizer *optimizer) {
  (void)options;
  *optimizer = tdm_rmsprop(0.01);
  const tdm_conv_options same = OPTIONS(tdm_conv_options, o.padding[0] = o.padding[1] = 1);
  tdm_value x = tdm_input(graph, "images", TDM_FLOAT32, tdm_shape_of(4, TDM_DIM("batch"), 1, 6, 6));
  tdm_place(graph, "sim:0");
  x = tdm_batch_norm(graph, "norm", tdm_conv2d(graph, "conv", x, 3, 3, 3, &same));
  x = tdm_max_pool2d(graph, "pool", tdm_relu(graph, "bend", x), 2, 2, NULL);
  x = tdm_dropout(graph, "drop", x, 0.5);
  x = tdm_reshape(graph, "flat", x, tdm_shape_of(2, TDM_DIM("batch"), 27));
  x = layer(graph, "scores", x, PLAN_CLASSES, "cpu:1");
  return tdm_cross_entropy(graph, "loss", x, input_targets(graph));
}

tdm_value plan_build_steps(tdm_graph *graph, tdm_session_options *options,
                           tdm_optimizer *optimizer) {
  (void)options;
  (void)optimizer;
  const tdm_rnn_options both = OPTIONS(tdm_rnn_options, o.bidirectional = true);
  const tdm_rnn_options two = OPTIONS(tdm_rnn_options, o.layers = 2, o.dropout = 0.25);
  tdm_value x = tdm_input(graph, "steps", TDM_FLOAT32,
                          tdm_shape_of(3, PLAN_STEPS, TDM_DIM("batch"), PLAN_WIDTH));
  tdm_place(graph, "cpu:0");
  x = tdm_gru(graph, "gru", x, 3, &both, NULL);
  tdm_place(graph, "sim:1");
  x = tdm_lstm(graph, "lstm", x, PLAN_CLASSES, &two, NULL, NULL);
  x = tdm_last_step(graph, "last", x);
  tdm_place(graph, "cpu:0");
  return tdm_cross_entropy(graph, "loss", x, input_targets(graph));
}

tdm_value plan_build_block(tdm_graph *graph, tdm_session_options *options,
                           tdm_optimizer *optimizer) {
  static const tdm_parameter_group groups[] = {{"block.self_attn", NULL}};
  options->groups = groups;
  options->group_count = TDM_COUNT_OF(groups);
  *optimizer = tdm_adamw(1e-3);
  optimizer->clip_norm = 1;
  const tdm_transformer_options block =
      OPTIONS(tdm_transformer_options, o.feedforward = 12, o.batch_first = true, o.causal = true);
  const tdm_value ids =
      tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, TDM_DIM("batch"), PLAN_STEPS));
  tdm_place(graph, "cpu:0");
  tdm_value x = tdm_embedding(graph, "table", ids, PLAN_TABLE_ROWS, PLAN_WIDTH);
  tdm_place(graph, "sim:0");
  x = tdm_transformer_encoder_layer(graph, "block", x, 2, &block);
  x = tdm_rms_norm(graph, "norm", x, 1);
  x = tdm_reshape(graph, "rows", x, tdm_shape_of(2, -1, PLAN_WIDTH));
  tdm_tie(graph, "head", "table");
  x = tdm_linear_without_bias(graph, "head", x, PLAN_TABLE_ROWS);
  const tdm_value next = tdm_reshape(graph, "next", ids, tdm_shape_of(1, -1));
  return tdm_cross_entropy(graph, "loss", x, next);
}

static tdm_value build_answers(tdm_graph *graph, tdm_session_options *options,
                               tdm_optimizer *optimizer) {
  (void)optimizer;
  options->depth = 2;
  const tdm_value ids = input_ids(graph);
  tdm_place(graph, "cpu:0");
  const tdm_value once = tdm_embedding(graph, "table", ids, PLAN_TABLE_ROWS, PLAN_WIDTH);
  tdm_tie(graph, "table", "table");
  const tdm_value again = tdm_embedding(graph, "table", ids, PLAN_TABLE_ROWS, PLAN_WIDTH);
  const tdm_value wide = tdm_cast(graph, "wide", once, TDM_FLOAT64);
  const tdm_value sum = tdm_add(graph, "sum", once, tdm_sin(graph, "sin", again));
  const tdm_value scores = layer(graph, "scores", sum, PLAN_CLASSES, "sim:0");
  tdm_output_on(graph, "scores", tdm_softmax(graph, "softmax", scores, 1), "sim:1");
  tdm_output(graph, "wide", tdm_cast(graph, "narrow", wide, TDM_FLOAT32));
  return (tdm_value){0};
}

static tdm_value build_loss_of_three(tdm_graph *graph, tdm_session_options *options,
                                     tdm_optimizer *optimizer) {
  (void)optimizer;
  options->check_finite = true;
  options->micro_batches = 2;
  const tdm_value x = input_x(graph);
  const tdm_value a = layer(graph, "a", x, PLAN_CLASSES, "cpu:0");
  const tdm_value b = layer(graph, "b", x, PLAN_CLASSES, "cpu:1");
  const tdm_value c = layer(graph, "c", x, PLAN_CLASSES, "sim:0");
  const tdm_value targets = input_targets(graph);
  tdm_place(graph, "cpu:1");
  const tdm_value first = tdm_cross_entropy(graph, "first", tdm_add(graph, "ab", a, b), targets);
  const tdm_value second = tdm_mse(graph, "second", tdm_maximum(graph, "bc", b, c), c);
  const tdm_value third = tdm_l1(graph, "third", a, c);
  return tdm_add(graph, "loss", tdm_add(graph, "two", first, second),
                 tdm_mul_scalar(graph, "tenth", third, 0.1));
}

static tdm_value build_gradients(tdm_graph *graph, tdm_session_options *options,
                                 tdm_optimizer *optimizer) {
  (void)options;
  (void)optimizer;
  const tdm_value x = input_x(graph);
  const tdm_value y = tdm_silu(graph, "bend", layer(graph, "a", x, PLAN_WIDTH, "sim:0"));
  const tdm_value loss = tdm_mean(graph, "loss", layer(graph, "b", y, 2, "cpu:0"), NULL, 0, false);
  const tdm_value d_x = tdm_gradient_of(graph, "d_x", loss, x);
  tdm_output(graph, "moved", tdm_sub(graph, "moved", x, tdm_detach(graph, "still", d_x)));
  return loss;
}

static tdm_value build_kept(tdm_graph *graph, tdm_session_options *options,
                            tdm_optimizer *optimizer) {
  (void)options;
  (void)optimizer;
  tdm_place(graph, "sim:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 1, PLAN_WIDTH));
  const tdm_value at = tdm_input(graph, "at", TDM_INT64, tdm_shape_of(1, 1));
  const tdm_value state = tdm_kept(graph, "state", TDM_FLOAT32, tdm_shape_of(2, 1, PLAN_WIDTH));
  const tdm_value cache = tdm_kept(graph, "cache", TDM_FLOAT32, tdm_shape_of(2, 5, PLAN_WIDTH));
  const tdm_value next = tdm_rnn_cell(graph, "cell", x, state, PLAN_WIDTH, NULL);
  tdm_keep(graph, "state_after", state, next);
  const tdm_value rows = tdm_keep_rows(graph, "cache_after", cache, next, at);
  const int first[] = {0};
  tdm_output(graph, "y", tdm_sum(graph, "total", rows, first, 1, false));
  return (tdm_value){0};
}

/* ---- The list -------------------------------------------------------------------------------- */

const plan_model plan_placed_models[] = {
    {.name = "stages",
     .says = "three stages on three devices; gradients clipped by the norm of all of them",
     .build = build_stages,
     .feeds = {PLAN_IDS("ids"), PLAN_IDS("targets")}},
    {.name = "stages_answer",
     .says = "the same without training: the output alone",
     .build = build_stages,
     .feeds = {PLAN_IDS("ids")},
     .fetch = "scores"},
    {.name = "stages_in_parts",
     .says = "the same, of a batch in three parts, two runs in flight",
     .build = build_parts,
     .feeds = {PLAN_IDS("ids"), PLAN_IDS("targets")}},
    {.name = "back_and_forth",
     .says = "values that are read on two devices; moving averages of parameters",
     .build = build_back_and_forth,
     .feeds = {PLAN_FLOATS("x", 2, PLAN_ROWS, PLAN_WIDTH)}},
    {.name = "tied",
     .says = "a parameter that two devices read; its copy is refreshed; momentum",
     .build = build_tied,
     .feeds = {PLAN_FLOATS("x", 2, PLAN_ROWS, PLAN_WIDTH)}},
    {.name = "rows",
     .says = "a table with gradients of rows, read on two devices",
     .build = plan_build_rows,
     .feeds = {PLAN_IDS("ids"), PLAN_IDS("others")}},
    {.name = "moves",
     .says = "parts, concatenations in place, transposed and strided reads",
     .build = build_moves,
     .feeds = {PLAN_FLOATS("x", 2, PLAN_ROWS, PLAN_WIDTH)}},
    {.name = "shared_gradient",
     .says = "a gradient that is a part of a concatenation and of a sum",
     .build = build_shared_gradient,
     .feeds = {PLAN_FLOATS("x", 2, PLAN_ROWS, PLAN_WIDTH)}},
    {.name = "image",
     .says = "a convolution, statistics of batches, dropout",
     .build = plan_build_image,
     .feeds = PLAN_IMAGE_FEEDS},
    {.name = "steps",
     .says = "recurrent layers, in both directions and one on the other",
     .build = plan_build_steps,
     .feeds = PLAN_STEPS_FEEDS},
    {.name = "block",
     .says =
         "a transformer's block, of which the attention is not trained; a head tied to the table",
     .build = plan_build_block,
     .feeds = PLAN_BLOCK_FEEDS},
    {.name = "answers",
     .says = "what is computed twice alike; an output on a device of its own",
     .build = build_answers,
     .feeds = {PLAN_IDS("ids")},
     .fetch = "scores"},
    {.name = "narrowed",
     .says = "casts to and fro, of the other output alone",
     .build = build_answers,
     .feeds = {PLAN_IDS("ids")},
     .fetch = "wide"},
    {.name = "three_losses",
     .says = "losses of three devices, in two parts, looked at before updates",
     .build = build_loss_of_three,
     .feeds = {PLAN_FLOATS("x", 2, PLAN_ROWS, PLAN_WIDTH), PLAN_IDS("targets")}},
    {.name = "gradient_fetched",
     .says = "a gradient that is an output's input, in a run that does not train",
     .build = build_gradients,
     .feeds = {PLAN_FLOATS("x", 2, PLAN_ROWS, PLAN_WIDTH)},
     .fetch = "moved"},
    {.name = "kept",
     .says = "a state and a cache that runs leave to the next",
     .build = build_kept,
     .feeds = {PLAN_FLOATS("x", 2, 1, PLAN_WIDTH), {"at", TDM_INT64, {1, {1}}}},
     .fetch = "y",
     .in_sequence = true},
};
const size_t plan_placed_count = TDM_COUNT_OF(plan_placed_models);
