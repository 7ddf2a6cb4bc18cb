/* The models: the one of examples/distributed_model (its sizes, its optimizer), an MLP, a large
 * table of embeddings with a small dense part, and a transformer of GPT's kind. */
#include "tools/forecast/models.h"

#include <stdio.h>
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
  /* gpt-7b: 12 x 4096 x 4096 parameters a block, and 2 x 32000 x 4096 others */
  GPT_WORDS = 32000,
  GPT_LENGTH = 2048,
  GPT_SIZE = 4096,
  GPT_HEADS = 32,
  GPT_BLOCKS = 32,
  GPT_MICRO_BATCHES = 16,
};

const char *const model_names[] = {"main", "mlp", "embedding", "gpt-7b", NULL};
bool model_is_placed(const char *name) {
  return strcmp(name, "gpt-7b") == 0;
}

/* A described model. */
typedef struct description {
  tdm_value loss;
  tdm_optimizer optimizer;
} description;

/* ---- Feeds ----------------------------------------------------------------------------------- */

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

/* ---- Models ---------------------------------------------------------------------------------- */

/* Wraps scopes over the replicas, if there are any; x enters them, its rows in `dimension`. */
static void wrap(tdm_graph *graph, const model_request *request, const char *scopes, tdm_value x,
                 int dimension) {
  const tdm_scatter scatter = {x, dimension};
  tdm_parallel_options options = tdm_parallel_options_default();
  options.devices = request->replicas;
  options.output_device = request->body;
  options.scatter = &scatter;
  options.scatter_count = 1;
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
  tdm_embedding_options sparse = tdm_embedding_options_default();
  sparse.sparse = true;
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

/* Places block i: the blocks are divided evenly among the devices. */
static void place_block(tdm_graph *graph, const model_request *request, int i) {
  char device[24];
  const int devices = request->devices > 0 ? request->devices : 1;
  (void)snprintf(device, sizeof device, "paper:%d", i * devices / GPT_BLOCKS);
  tdm_place(graph, device);
}

static tdm_value add_block(tdm_graph *graph, tdm_value x) {
  tdm_attention_options heads = tdm_attention_options_default();
  heads.heads = GPT_HEADS;
  heads.causal = true;
  const tdm_value normed = tdm_layer_norm(graph, "norm1", x, 1);
  const tdm_value seen =
      tdm_attention(graph, "attention", tdm_linear(graph, "query", normed, GPT_SIZE),
                    tdm_linear(graph, "key", normed, GPT_SIZE),
                    tdm_linear(graph, "value", normed, GPT_SIZE), &heads);
  x = tdm_add(graph, "seen", x, tdm_linear(graph, "out", seen, GPT_SIZE));
  const tdm_value wide =
      tdm_linear(graph, "up", tdm_layer_norm(graph, "norm2", x, 1), (int64_t)4 * GPT_SIZE);
  return tdm_add(graph, "thought", x,
                 tdm_linear(graph, "down", tdm_gelu(graph, "gelu", wide), GPT_SIZE));
}

static description describe_gpt(tdm_graph *graph, const model_request *request) {
  const tdm_shape window = tdm_shape_of(2, TDM_DIM("batch"), (int64_t)GPT_LENGTH);
  const tdm_value x = tdm_input(graph, "x", TDM_INT64, window);
  const tdm_value y = tdm_input(graph, "y", TDM_INT64, window);
  place_block(graph, request, 0);
  tdm_value thought = tdm_embedding(graph, "words", x, GPT_WORDS, GPT_SIZE);
  for (int i = 0; i < GPT_BLOCKS; i++) {
    char name[24];
    (void)snprintf(name, sizeof name, "block%d", i);
    place_block(graph, request, i);
    tdm_scope_push(graph, name);
    thought = add_block(graph, thought);
    tdm_scope_pop(graph);
  }
  const tdm_value scores =
      tdm_linear(graph, "scores", tdm_layer_norm(graph, "norm", thought, 1), GPT_WORDS);
  const tdm_value flat =
      tdm_reshape(graph, "flat", scores, tdm_shape_of(2, TDM_INFER, (int64_t)GPT_WORDS));
  const tdm_value wanted = tdm_reshape(graph, "wanted", y, tdm_shape_of(1, TDM_INFER));
  return (description){tdm_cross_entropy(graph, "loss", flat, wanted), tdm_adam(1e-4)};
}

static tdm_status feed_gpt(tdm_context *context, int64_t batch, tdm_feed *feeds) {
  for (int i = 0; i < MODEL_FEEDS; i++)
    feeds[i].tensor = draw_ids(context, tdm_shape_of(2, batch, (int64_t)GPT_LENGTH), GPT_WORDS);
  return feeds[0].tensor && feeds[1].tensor ? TDM_OK : TDM_OUT_OF_MEMORY;
}

static const struct {
  description (*describe)(tdm_graph *graph, const model_request *request);
  tdm_status (*feed)(tdm_context *context, int64_t batch, tdm_feed *feeds);
} models[] = {{describe_main, feed_main},
              {describe_mlp, feed_mlp},
              {describe_embedding, feed_embedding},
              {describe_gpt, feed_gpt}};

/* ---- Opening --------------------------------------------------------------------------------- */

/* Returns the number of micro-batches, so that consecutive devices work concurrently on parts of
 * the batch. */
static int micro_batches_of(const model_request *request) {
  if (!model_is_placed(request->name) || request->devices <= 1) return 1;
  return request->batch < GPT_MICRO_BATCHES ? (int)request->batch : GPT_MICRO_BATCHES;
}

static tdm_status open_session(tdm_context *context, const model_request *request, size_t model,
                               opened_model *out_model) {
  tdm_graph *graph = tdm_graph_create(context);
  if (!graph) return TDM_OUT_OF_MEMORY;
  const description described = models[model].describe(graph, request);
  tdm_session_options options = tdm_session_options_default();
  options.loss = described.loss;
  options.optimizer = &described.optimizer;
  options.profile = request->profile;
  options.collective = request->collective;
  options.micro_batches = micro_batches_of(request);
  if (request->alike_ranks > 0) options.alike_ranks = request->alike_ranks;
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
