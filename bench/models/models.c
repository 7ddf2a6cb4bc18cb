/* The models that are timed, as descriptions. Invariant: everything is on model_device, with the
 * layers' own initial values. */
#include "bench/models/models.h"

#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 1000, WIDTH = 10, CHAIN = 100, IMAGE_SIZE = 28, CLASSES = 10 };
enum { LSTM_IN = 256, LSTM_HIDDEN = 512, LSTM_STEPS = 128 };
enum { TABLE_ROWS = 1000000, TABLE_WIDTH = 64, BAG = 26 };
static const int64_t SPREAD = 2654435761; /* 2^32 / golden ratio, so that consecutive ids are far
                                           * apart */

const char *model_device = "cpu:0";
bool model_profiles;
bool model_unfused;

void model_finish(model *made, tdm_value loss, tdm_optimizer optimizer) {
  tdm_session_options options = tdm_session_options_default();
  options.loss = loss;
  options.optimizer = &optimizer;
  options.profile = model_profiles;
  options.unfused = model_unfused;
  made->session = tdm_session_create(made->graph, &options);
  if (!made->session) bench_fail("session");
}

void model_feed(model *made, const char *name, tdm_tensor *tensor) {
  if (!tensor) bench_fail(name);
  made->feeds[made->feed_count++] = (tdm_feed){name, tensor, false};
}

tdm_tensor *model_ids(tdm_context *context, int64_t first, int64_t count, int64_t step,
                      int64_t limit) {
  int64_t *values = malloc((size_t)count * sizeof *values);
  if (!values) bench_fail("ids");
  for (int64_t i = 0; i < count; i++)
    values[i] = (first + i) * step % limit;
  tdm_tensor *ids = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, count), values);
  free(values);
  return ids;
}

void model_turn(model *turned) {
  if (turned->batch_count == 0) return;
  tdm_tensor_release(turned->feeds[0].tensor);
  turned->feeds[0].tensor =
      tdm_tensor_retain(turned->batches[turned->next_batch++ % turned->batch_count]);
}

void model_release(model *released) {
  for (size_t i = 0; i < released->batch_count; i++)
    tdm_tensor_release(released->batches[i]);
  for (size_t i = 0; i < released->feed_count; i++)
    tdm_tensor_release(released->feeds[i].tensor);
  tdm_session_release(released->session);
  tdm_graph_release(released->graph);
}

tdm_tensor *model_uniform(tdm_context *context, tdm_shape shape, uint64_t seed) {
  return tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, shape, seed, -1, 1);
}

model model_begin(tdm_context *context, const char *output) {
  const model made = {.graph = tdm_graph_create(context), .output = output};
  if (!made.graph) bench_fail("graph");
  tdm_place(made.graph, model_device);
  return made;
}

model model_words(tdm_context *context, int64_t rows) {
  model made = model_begin(context, "scores");
  tdm_graph *graph = made.graph;
  const tdm_shape batch = tdm_shape_of(1, TDM_DIM("batch"));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, batch);
  const tdm_value classes = tdm_input(graph, "classes", TDM_INT64, batch);
  const tdm_value words = tdm_embedding(graph, "embedding", ids, WORDS, WIDTH);
  const tdm_value scores = tdm_linear(graph, "linear", words, WIDTH);
  tdm_output(graph, "scores", scores);
  model_finish(&made, tdm_cross_entropy(graph, "loss", scores, classes), tdm_sgd(0.01));
  model_feed(&made, "ids", model_ids(context, 0, rows, 7919, WORDS));
  made.forward_feed_count = made.feed_count;
  model_feed(&made, "classes", model_ids(context, 0, rows, 1, WIDTH));
  return made;
}

model model_chain(tdm_context *context, int64_t rows) {
  model made = model_begin(context, "y");
  tdm_graph *graph = made.graph;
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), WIDTH);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value wanted = tdm_input(graph, "wanted", TDM_FLOAT32, shape);
  for (int i = 0; i < CHAIN; i++) {
    char name[8];
    (void)snprintf(name, sizeof name, "l%d", i);
    x = tdm_linear(graph, name, x, WIDTH);
  }
  tdm_output(graph, "y", x);
  model_finish(&made, tdm_mse(graph, "loss", x, wanted), tdm_sgd(0.01));
  const tdm_shape sizes = tdm_shape_of(2, rows, WIDTH);
  model_feed(&made, "x", model_uniform(context, sizes, 1));
  made.forward_feed_count = made.feed_count;
  model_feed(&made, "wanted", model_uniform(context, sizes, 2));
  return made;
}

model model_lenet(tdm_context *context, int64_t rows) {
  model made = model_begin(context, "scores");
  tdm_graph *graph = made.graph;
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value images =
      tdm_input(graph, "images", TDM_FLOAT32, tdm_shape_of(4, batch, 1, IMAGE_SIZE, IMAGE_SIZE));
  const tdm_value classes = tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(1, batch));
  tdm_conv_options same_size = tdm_conv_options_default();
  same_size.padding[0] = same_size.padding[1] = 2;
  tdm_value x = tdm_relu(graph, "relu1", tdm_conv2d(graph, "conv1", images, 6, 5, 5, &same_size));
  x = tdm_max_pool2d(graph, "pool1", x, 2, 2, NULL);
  x = tdm_relu(graph, "relu2", tdm_conv2d(graph, "conv2", x, 16, 5, 5, NULL));
  x = tdm_max_pool2d(graph, "pool2", x, 2, 2, NULL);
  x = tdm_reshape(graph, "flatten", x, tdm_shape_of(2, batch, 400));
  x = tdm_relu(graph, "relu3", tdm_linear(graph, "fc1", x, 120));
  x = tdm_relu(graph, "relu4", tdm_linear(graph, "fc2", x, 84));
  const tdm_value scores = tdm_linear(graph, "fc3", x, CLASSES);
  tdm_output(graph, "scores", scores);
  model_finish(&made, tdm_cross_entropy(graph, "loss", scores, classes), tdm_sgd(0.01));
  model_feed(&made, "images",
             model_uniform(context, tdm_shape_of(4, rows, 1, IMAGE_SIZE, IMAGE_SIZE), 1));
  made.forward_feed_count = made.feed_count;
  model_feed(&made, "classes", model_ids(context, 0, rows, 1, CLASSES));
  return made;
}

model model_lstm(tdm_context *context, int64_t rows) {
  model made = model_begin(context, "y");
  tdm_graph *graph = made.graph;
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, LSTM_STEPS, batch, LSTM_IN));
  const tdm_value wanted =
      tdm_input(graph, "wanted", TDM_FLOAT32, tdm_shape_of(3, LSTM_STEPS, batch, LSTM_HIDDEN));
  const tdm_value y = tdm_lstm(graph, "lstm", x, LSTM_HIDDEN, NULL, NULL, NULL);
  tdm_output(graph, "y", y);
  model_finish(&made, tdm_mse(graph, "loss", y, wanted), tdm_sgd(0.01));
  model_feed(&made, "x", model_uniform(context, tdm_shape_of(3, LSTM_STEPS, rows, LSTM_IN), 1));
  made.forward_feed_count = made.feed_count;
  model_feed(&made, "wanted",
             model_uniform(context, tdm_shape_of(3, LSTM_STEPS, rows, LSTM_HIDDEN), 2));
  return made;
}

/* Feeds ids (rows, BAG) and what the outputs (rows, width) should be. */
static void feed_bags(model *made, tdm_context *context, int64_t rows, int64_t width) {
  for (size_t i = 0; i < MODEL_MAX_BATCHES; i++) {
    tdm_tensor *ids = model_ids(context, (int64_t)i * rows * BAG, rows * BAG, SPREAD, TABLE_ROWS);
    made->batches[made->batch_count++] = tdm_tensor_view(ids, tdm_shape_of(2, rows, BAG));
    tdm_tensor_release(ids);
  }
  model_feed(made, "ids", tdm_tensor_retain(made->batches[0]));
  made->forward_feed_count = made->feed_count;
  model_feed(made, "wanted", model_uniform(context, tdm_shape_of(2, rows, width), 2));
}

/* (batch, TABLE_WIDTH): the sums of bags. */
static tdm_value describe_bags(tdm_graph *graph) {
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, TDM_DIM("batch"), BAG));
  tdm_embedding_bag_options sums = tdm_embedding_bag_options_default();
  sums.mode = TDM_BAG_SUM;
  sums.sparse = true;
  return tdm_embedding_bag(graph, "bag", ids, TABLE_ROWS, TABLE_WIDTH, &sums);
}

static tdm_value squared_error(tdm_graph *graph, tdm_value y, int64_t width) {
  return tdm_mse(graph, "loss", y,
                 tdm_input(graph, "wanted", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), width)));
}

model model_bag(tdm_context *context, int64_t rows) {
  model made = model_begin(context, "sums");
  const tdm_value sums = describe_bags(made.graph);
  tdm_output(made.graph, "sums", sums);
  model_finish(&made, squared_error(made.graph, sums, TABLE_WIDTH), tdm_sgd(0.01));
  feed_bags(&made, context, rows, TABLE_WIDTH);
  return made;
}

model model_recommender(tdm_context *context, int64_t rows) {
  model made = model_begin(context, "clicks");
  tdm_graph *graph = made.graph;
  tdm_value x = describe_bags(graph);
  x = tdm_relu(graph, "relu1", tdm_linear(graph, "fc1", x, 512));
  x = tdm_relu(graph, "relu2", tdm_linear(graph, "fc2", x, 256));
  x = tdm_linear(graph, "fc3", x, 1);
  tdm_output(graph, "clicks", x);
  model_finish(&made, squared_error(graph, x, 1), tdm_sgd(0.01));
  feed_bags(&made, context, rows, 1);
  return made;
}
