/* The three models: the one of examples/distributed_model (its sizes, its optimizer), an MLP, and a
 * large table of embeddings with a small dense part. */
#include "tools/forecast/models.h"

#include <stdlib.h>
#include <string.h>

enum {
  SEED = 5,
  /* main: as examples/distributed_model has it over its lists of words */
  CHARACTERS = 96,
  LANGUAGES = 7,
  WORD_LENGTH = 8,
  CHARACTER_SIZE = 32,
  RNN_SIZE = 128,
  /* mlp */
  MLP_SIZE = 512,
  MLP_HIDDEN = 2048,
  /* embedding */
  TABLE_ROWS = 200000,
  LOOKUPS = 26,
  ROW_SIZE = 64,
  DENSE_SIZE = 256,
};

const char *const model_names[] = {"main", "mlp", "embedding", NULL};
const char *const model_descriptions[] = {
    "words of 8 characters -> embedding 96 x 32 -> RNN 128 -> linear 7; Adam, clipped",
    "512 -> 2048 -> 2048 -> 512, relu between; SGD",
    "26 of 200000 rows of 64 -> linear 256 -> linear 1; SGD, sparse rows", NULL};

/* What describing a model leaves behind. */
typedef struct description {
  tdm_value loss;
  tdm_optimizer optimizer;
} description;

/* ---- Feeds ---- */

/* int64 numbers in [0, end) of that shape, on cpu:0; NULL on failure. */
static tdm_tensor *draw_ids(tdm_context *context, tdm_shape shape, int64_t end) {
  tdm_tensor *tensor = tdm_tensor_create(context, "cpu:0", TDM_INT64, shape);
  if (!tensor) return NULL;
  int64_t *ids = tdm_tensor_data(tensor);
  const tdm_random random = {SEED, tdm_random_stream("ids"), 0};
  const int64_t count = tdm_shape_count(&shape);
  for (int64_t i = 0; i < count; i++)
    ids[i] = (int64_t)(tdm_random_uniform_float64(&random, (uint64_t)i) * (double)end);
  return tensor;
}

static tdm_tensor *draw(tdm_context *context, tdm_shape shape) {
  return tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, shape, SEED, -1, 1);
}

/* ---- Models ---- */

/* Wraps scopes over the replicas, if there are any; x enters them, its rows in `dimension`. */
static void wrap(tdm_graph *graph, const model_request *request, const char *scopes, tdm_value x,
                 int dimension) {
  const tdm_scatter scatter = {x, dimension};
  const tdm_parallel_options options = {.struct_size = sizeof options,
                                        .devices = request->replicas,
                                        .output_device = request->body,
                                        .scatter = &scatter,
                                        .scatter_count = 1};
  if (request->replicas) tdm_data_parallel(graph, scopes, &options);
}

static description describe_main(tdm_graph *graph, const model_request *request) {
  const tdm_dim length = TDM_DIM("length");
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_INT64, tdm_shape_of(2, length, batch));
  const tdm_value y = tdm_input(graph, "y", TDM_INT64, tdm_shape_of(1, batch));
  tdm_place(graph, request->front);
  const tdm_value words = tdm_embedding(graph, "embedding", x, CHARACTERS, CHARACTER_SIZE);
  tdm_place(graph, request->body);
  const tdm_value steps = tdm_rnn(graph, "rnn", words, RNN_SIZE, NULL, NULL);
  const tdm_value last = tdm_last_step(graph, "last", steps);
  const tdm_value scores = tdm_linear(graph, "linear", last, LANGUAGES);
  wrap(graph, request, "rnn,last,linear", words, 1);
  tdm_optimizer adam = tdm_adam(1e-3);
  adam.clip_norm = 1;
  return (description){tdm_cross_entropy(graph, "loss", scores, y), adam};
}

static tdm_status feed_main(tdm_context *context, int64_t batch, tdm_feed *feeds) {
  feeds[0].tensor = draw_ids(context, tdm_shape_of(2, (int64_t)WORD_LENGTH, batch), CHARACTERS);
  feeds[1].tensor = draw_ids(context, tdm_shape_of(1, batch), LANGUAGES);
  return feeds[0].tensor && feeds[1].tensor ? TDM_OK : TDM_OUT_OF_MEMORY;
}

static description describe_mlp(tdm_graph *graph, const model_request *request) {
  const tdm_shape rows = tdm_shape_of(2, TDM_DIM("batch"), (int64_t)MLP_SIZE);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, rows);
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, rows);
  tdm_place(graph, request->front);
  tdm_value hidden = tdm_relu(graph, "relu1", tdm_linear(graph, "fc1", x, MLP_HIDDEN));
  tdm_place(graph, request->body);
  hidden = tdm_relu(graph, "relu2", tdm_linear(graph, "fc2", hidden, MLP_HIDDEN));
  const tdm_value out = tdm_linear(graph, "fc3", hidden, MLP_SIZE);
  wrap(graph, request, "fc1,relu1,fc2,relu2,fc3", x, 0);
  return (description){tdm_mse(graph, "loss", out, y), tdm_sgd(0.01)};
}

static tdm_status feed_mlp(tdm_context *context, int64_t batch, tdm_feed *feeds) {
  feeds[0].tensor = draw(context, tdm_shape_of(2, batch, (int64_t)MLP_SIZE));
  feeds[1].tensor = draw(context, tdm_shape_of(2, batch, (int64_t)MLP_SIZE));
  return feeds[0].tensor && feeds[1].tensor ? TDM_OK : TDM_OUT_OF_MEMORY;
}

static description describe_embedding(tdm_graph *graph, const model_request *request) {
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_embedding_options sparse = {.struct_size = sizeof sparse, .sparse = true};
  const tdm_value x = tdm_input(graph, "x", TDM_INT64, tdm_shape_of(2, batch, (int64_t)LOOKUPS));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, batch, (int64_t)1));
  tdm_place(graph, request->front);
  const tdm_value rows = tdm_embedding_with(graph, "table", x, TABLE_ROWS, ROW_SIZE, &sparse);
  tdm_place(graph, request->body);
  const tdm_value flat =
      tdm_reshape(graph, "flat", rows, tdm_shape_of(2, batch, (int64_t)(LOOKUPS * ROW_SIZE)));
  const tdm_value hidden = tdm_relu(graph, "relu", tdm_linear(graph, "hidden", flat, DENSE_SIZE));
  const tdm_value out = tdm_linear(graph, "out", hidden, 1);
  wrap(graph, request, "hidden,relu,out", flat, 0);
  return (description){tdm_mse(graph, "loss", out, y), tdm_sgd(1e-3)};
}

static tdm_status feed_embedding(tdm_context *context, int64_t batch, tdm_feed *feeds) {
  feeds[0].tensor = draw_ids(context, tdm_shape_of(2, batch, (int64_t)LOOKUPS), TABLE_ROWS);
  feeds[1].tensor = draw(context, tdm_shape_of(2, batch, (int64_t)1));
  return feeds[0].tensor && feeds[1].tensor ? TDM_OK : TDM_OUT_OF_MEMORY;
}

static const struct {
  description (*describe)(tdm_graph *graph, const model_request *request);
  tdm_status (*feed)(tdm_context *context, int64_t batch, tdm_feed *feeds);
} models[] = {
    {describe_main, feed_main}, {describe_mlp, feed_mlp}, {describe_embedding, feed_embedding}};

/* ---- Opening ---- */

static tdm_status open_session(tdm_context *context, const model_request *request, size_t model,
                               opened_model *out_model) {
  tdm_graph *graph = tdm_graph_create(context);
  if (!graph) return TDM_OUT_OF_MEMORY;
  const description described = models[model].describe(graph, request);
  const tdm_session_options options = {.struct_size = sizeof options,
                                       .loss = described.loss,
                                       .optimizer = &described.optimizer,
                                       .profile = request->profile,
                                       .collective = request->collective};
  out_model->session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return out_model->session ? TDM_OK : TDM_INVALID_ARGUMENT;
}

tdm_status model_open(tdm_context *context, const model_request *request, opened_model *out_model) {
  *out_model = (opened_model){.feeds = {{.name = "x"}, {.name = "y"}}};
  size_t model = 0;
  while (model_names[model] && strcmp(model_names[model], request->name) != 0)
    model++;
  if (!model_names[model])
    return tdm_fail(TDM_INVALID_ARGUMENT, "there is no model %s", request->name);
  tdm_status status = open_session(context, request, model, out_model);
  if (status == TDM_OK) status = models[model].feed(context, request->batch, out_model->feeds);
  if (status != TDM_OK) model_close(out_model);
  return status;
}

tdm_status model_prepare(opened_model *model) {
  return tdm_session_prepare(model->session, model->feeds, MODEL_FEEDS, NULL, 0, true);
}

tdm_status model_train(opened_model *model) {
  return tdm_train_step(model->session, model->feeds, MODEL_FEEDS, NULL, 0, NULL);
}

void model_close(opened_model *model) {
  for (int i = 0; i < MODEL_FEEDS; i++)
    tdm_tensor_release(model->feeds[i].tensor);
  tdm_session_release(model->session);
  *model = (opened_model){.session = NULL};
}
