/* The embedding model: ids (batch, 26) -> rows of 64 -> two linear layers -> a number; and what
 * both models draw their input with. */
#include "bench/transfer/subject.h"

#include <stdlib.h>

enum { LOOKUPS = 26, ROW_SIZE = 64, HIDDEN_SIZE = 256, SEED = 5 };
static const double LEARNING_RATE = 1e-3;

tdm_tensor *subject_draw_ids(tdm_context *context, tdm_shape shape, int64_t low, int64_t high) {
  int64_t count = 1;
  for (int i = 0; i < shape.rank; i++)
    count *= shape.dims[i];
  int64_t *ids = calloc((size_t)count, sizeof *ids);
  if (!ids) return NULL;
  uint64_t state = SEED;
  for (int64_t i = 0; i < count; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    ids[i] = low + (int64_t)((state >> 33) % (uint64_t)(high - low));
  }
  tdm_tensor *tensor = tdm_tensor_from(context, TDM_INT64, shape, ids);
  free(ids);
  return tensor;
}

void subject_release_feeds(tdm_feed *feeds) {
  for (int i = 0; i < SUBJECT_FEEDS; i++) {
    tdm_tensor_release(feeds[i].tensor);
    feeds[i].tensor = NULL;
  }
}

/* ---- The embedding model --------------------------------------------------------------------- */

typedef struct embedding_model {
  tdm_graph *graph;
  int64_t rows;
} embedding_model;

static void close_embedding(subject *self) {
  embedding_model *mine = self->state;
  tdm_session_release(self->session);
  if (mine) tdm_graph_release(mine->graph);
  free(mine);
  *self = (subject){.context = NULL};
}

static tdm_status make_feeds(const subject *self, int64_t batch, tdm_feed *out_feeds) {
  const embedding_model *mine = self->state;
  const tdm_shape ids = tdm_shape_of(2, batch, (int64_t)LOOKUPS);
  const tdm_shape targets = tdm_shape_of(2, batch, (int64_t)1);
  out_feeds[0] = (tdm_feed){"ids", subject_draw_ids(self->context, ids, 0, mine->rows), false};
  out_feeds[1] = (tdm_feed){
      "target", tdm_tensor_uniform(self->context, "cpu:0", TDM_FLOAT32, targets, SEED, -1, 1),
      false};
  if (out_feeds[0].tensor && out_feeds[1].tensor) return TDM_OK;
  subject_release_feeds(out_feeds);
  return TDM_OUT_OF_MEMORY;
}

/* Returns the loss. */
static tdm_value describe(tdm_graph *graph, const char *accelerator, int64_t rows) {
  const tdm_dim batch = TDM_DIM("batch");
  tdm_embedding_options sparse = tdm_embedding_options_default();
  sparse.sparse = true;
  tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, batch, (int64_t)LOOKUPS));
  tdm_value target = tdm_input(graph, "target", TDM_FLOAT32, tdm_shape_of(2, batch, (int64_t)1));
  tdm_place(graph, "cpu:0");
  tdm_value x = tdm_embedding_with(graph, "table", ids, rows, ROW_SIZE, &sparse);
  tdm_place(graph, accelerator);
  x = tdm_reshape(graph, "flat", x, tdm_shape_of(2, batch, (int64_t)(LOOKUPS * ROW_SIZE)));
  x = tdm_relu(graph, "relu", tdm_linear(graph, "hidden", x, HIDDEN_SIZE));
  return tdm_mse(graph, "loss", tdm_linear(graph, "out", x, 1), target);
}

tdm_status subject_open_embedding(tdm_context *context, const model_options *given, bool profile,
                                  subject *out_subject) {
  *out_subject = (subject){.context = context, .make_feeds = make_feeds, .close = close_embedding};
  embedding_model *mine = calloc(1, sizeof *mine);
  if (!mine) return tdm_fail(TDM_OUT_OF_MEMORY, "the embedding model");
  out_subject->state = mine;
  mine->rows = given->table_rows;
  mine->graph = tdm_graph_create(context);
  const char *accelerator = given->accelerator                  ? given->accelerator
                            : tdm_is_available(context, "cuda") ? tdm_accelerator(context)
                                                                : tdm_simulator(context);
  const tdm_value loss = describe(mine->graph, accelerator, mine->rows);
  const tdm_optimizer sgd = tdm_sgd(LEARNING_RATE);
  tdm_session_options wanted = tdm_session_options_default();
  wanted.loss = loss;
  wanted.optimizer = &sgd;
  wanted.profile = profile;
  out_subject->session = tdm_session_create(mine->graph, &wanted);
  if (out_subject->session) return TDM_OK;
  close_embedding(out_subject);
  return TDM_INVALID_ARGUMENT;
}
