/* The three models: that of examples/distributed_model (its sizes and optimizer), LeNet, and
 * "balanced". The arithmetic of the last is proportional to the rows, the bytes that are sent are
 * not. So for every link there is a number of rows at which both take the same time. */
#include "bench/distributed/models.h"

#include <stdio.h>
#include <string.h>

#include "bench/timing.h"

enum {
  SEED = 5,
  MOST_RANK = 4,
  /* main: as examples/distributed_model has it over its lists of words */
  CHARACTERS = 96,
  LANGUAGES = 7,
  WORD_LENGTH = 8,
  CHARACTER_SIZE = 32,
  RNN_SIZE = 128,
  /* cnn */
  IMAGE_SIZE = 28,
  /* balanced */
  WIDTH = 512,
  LAYERS = 8,
  CLASSES = 10,
};

/* A described model; its inputs are named x and y. */
typedef struct description {
  tdm_value loss;
  tdm_optimizer optimizer;
} description;

typedef struct model_kind {
  const char *name;
  int64_t rows;
  tdm_dtype dtype; /* dtype of x */
  int rank;        /* rank of x */
  tdm_dim sizes[MOST_RANK];
  int batch_dimension;
  int64_t classes;
  bool has_loss; /* each replica computes the loss of its rows; otherwise cpu:0 computes that of all
                  * rows */
  description (*describe)(tdm_graph *graph, const model_request *request, tdm_value x, tdm_value y);
} model_kind;

/* ---- Models ---------------------------------------------------------------------------------- */

static description describe_main(tdm_graph *graph, const model_request *request, tdm_value x,
                                 tdm_value y) {
  (void)request;
  const tdm_value words = tdm_embedding(graph, "embedding", x, CHARACTERS, CHARACTER_SIZE);
  const tdm_value steps = tdm_rnn(graph, "rnn", words, RNN_SIZE, NULL, NULL);
  const tdm_value last = tdm_last_step(graph, "last", steps);
  const tdm_value scores = tdm_linear(graph, "linear", last, LANGUAGES);
  tdm_scope_pop(graph);
  tdm_optimizer adam = tdm_adam(1e-3);
  adam.clip_norm = 1;
  return (description){tdm_cross_entropy(graph, "loss", scores, y), adam};
}

static description describe_cnn(tdm_graph *graph, const model_request *request, tdm_value x,
                                tdm_value y) {
  (void)request;
  tdm_conv_options same_size = tdm_conv_options_default();
  same_size.padding[0] = same_size.padding[1] = 2;
  x = tdm_relu(graph, "relu1", tdm_conv2d(graph, "conv1", x, 6, 5, 5, &same_size));
  x = tdm_max_pool2d(graph, "pool1", x, 2, 2, NULL);
  x = tdm_relu(graph, "relu2", tdm_conv2d(graph, "conv2", x, 16, 5, 5, NULL));
  x = tdm_max_pool2d(graph, "pool2", x, 2, 2, NULL);
  x = tdm_reshape(graph, "flatten", x, tdm_shape_of(2, TDM_DIM("batch"), 400));
  x = tdm_relu(graph, "relu3", tdm_linear(graph, "fc1", x, 120));
  x = tdm_relu(graph, "relu4", tdm_linear(graph, "fc2", x, 84));
  const tdm_value scores = tdm_linear(graph, "fc3", x, CLASSES);
  tdm_scope_pop(graph);
  return (description){tdm_cross_entropy(graph, "loss", scores, y), tdm_sgd(0.01)};
}

static description describe_balanced(tdm_graph *graph, const model_request *request, tdm_value x,
                                     tdm_value y) {
  const int layers = request->layers > 0 ? request->layers : LAYERS;
  for (int layer = 0; layer < layers; layer++) {
    char name[16], bend[16];
    (void)snprintf(name, sizeof name, "fc%d", layer);
    (void)snprintf(bend, sizeof bend, "relu%d", layer);
    x = tdm_relu(graph, bend, tdm_linear(graph, name, x, WIDTH));
  }
  const tdm_value scores = tdm_linear(graph, "scores", x, CLASSES);
  const tdm_value loss = tdm_cross_entropy(graph, "loss", scores, y);
  tdm_scope_pop(graph);
  return (description){loss, tdm_sgd(0.01)};
}

static const model_kind kinds[] = {
    {"main", 256, TDM_INT64, 2, {WORD_LENGTH, 0}, 1, LANGUAGES, false, describe_main},
    {"cnn", 256, TDM_FLOAT32, 4, {0, 1, IMAGE_SIZE, IMAGE_SIZE}, 0, CLASSES, false, describe_cnn},
    {"balanced", 1024, TDM_FLOAT32, 2, {0, WIDTH}, 0, CLASSES, true, describe_balanced},
};

/* ---- Feeds ----------------------------------------------------------------------------------- */

static tdm_shape shape_of(const model_kind *kind, tdm_dim rows) {
  tdm_dim dims[MOST_RANK];
  for (int i = 0; i < kind->rank; i++)
    dims[i] = i == kind->batch_dimension ? rows : kind->sizes[i];
  return tdm_shape_make(kind->rank, dims);
}

static tdm_tensor *draw_ids(tdm_context *context, tdm_shape shape, int64_t end) {
  tdm_tensor *tensor = tdm_tensor_create(context, "cpu:0", TDM_INT64, shape);
  if (!tensor) bench_fail("ids");
  int64_t *ids = tdm_tensor_data(tensor);
  const int64_t count = tdm_shape_count(&shape);
  for (int64_t i = 0; i < count; i++)
    ids[i] = i * 7919 % end;
  return tensor;
}

static tdm_tensor *draw(tdm_context *context, const model_kind *kind, int64_t rows) {
  const tdm_shape shape = shape_of(kind, rows);
  if (kind->dtype == TDM_INT64) return draw_ids(context, shape, CHARACTERS);
  return tdm_tensor_uniform(context, "cpu:0", kind->dtype, shape, SEED, -1, 1);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void replicate(tdm_graph *graph, const model_kind *kind, const model_request *request,
                      tdm_value x, tdm_value y) {
  const tdm_scatter scatter[] = {{x, kind->batch_dimension}, {y, 0}};
  tdm_parallel_options options = tdm_parallel_options_default();
  options.devices = request->replicas;
  options.sharding = request->sharding;
  options.scatter = scatter;
  options.scatter_count = kind->has_loss ? 2 : 1;
  if (request->replicas) tdm_data_parallel(graph, "model", &options);
}

static tdm_session *open_session(tdm_context *context, const model_kind *kind,
                                 const model_request *request) {
  tdm_graph *graph = tdm_graph_create(context);
  if (!graph) bench_fail("a graph");
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", kind->dtype, shape_of(kind, batch));
  const tdm_value y = tdm_input(graph, "y", TDM_INT64, tdm_shape_of(1, batch));
  if (request->home) tdm_place(graph, request->home);
  tdm_scope_push(graph, "model");
  const description described = kind->describe(graph, request, x, y);
  replicate(graph, kind, request, x, y);
  tdm_session_options options = tdm_session_options_default();
  options.loss = described.loss;
  options.optimizer = &described.optimizer;
  options.depth = request->depth;
  options.deterministic = request->deterministic;
  options.profile = request->profile;
  options.trace_runs = request->trace_runs;
  options.collective = request->collective;
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  if (!session) bench_fail(kind->name);
  return session;
}

static const model_kind *find_kind(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  return NULL;
}

bool model_is_known(const char *name) {
  return find_kind(name) != NULL;
}

opened_model model_open(tdm_context *context, const model_request *request) {
  const model_kind *kind = find_kind(request->name);
  const int64_t rows = request->rows > 0 ? request->rows : kind->rows;
  const opened_model opened = {
      .session = open_session(context, kind, request),
      .feeds = {{.name = "x", .tensor = draw(context, kind, rows)},
                {.name = "y", .tensor = draw_ids(context, tdm_shape_of(1, rows), kind->classes)}}};
  if (!opened.feeds[0].tensor) bench_fail("a batch");
  return opened;
}

tdm_status model_train(opened_model *model) {
  return tdm_train_step(model->session, model->feeds, MODEL_FEEDS, NULL, 0, NULL);
}

void model_close(opened_model *model) {
  for (int i = 0; i < MODEL_FEEDS; i++)
    tdm_tensor_release(model->feeds[i].tensor);
  tdm_session_release(model->session);
}
