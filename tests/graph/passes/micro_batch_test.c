/* Micro-batches: against the model without them, against the same parts one after another, through
 * parallel regions. */
#include <stdio.h>
#include <stdlib.h>

#include "devices/kernels.h"
#include "graph/run/session.h"
#include "tests/graph/group.h"
#include "tests/options.h"

/* ---- Models of support.h --------------------------------------------------------------------- */

typedef tdm_graph *(*model)(tdm_context *context, const char *first, const char *second,
                            tdm_value *out_loss);

/* The table is looked up twice, so that two contributions meet in each part. */
static tdm_graph *twice_graph(tdm_context *of, const char *first, const char *second,
                              tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(of);
  const tdm_shape batch = tdm_shape_of(1, TDM_DIM("batch"));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, batch);
  const tdm_value targets = tdm_input(graph, "targets", TDM_INT64, batch);
  tdm_place(graph, first);
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  tdm_tie(graph, "embedding", "embedding");
  const tdm_value again = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  const tdm_value both = tdm_add(graph, "both", words, tdm_tanh(graph, "bent", again));
  tdm_place(graph, second);
  const tdm_value scores = tdm_linear(graph, "rnn", both, MODEL_WIDTH);
  tdm_output(graph, "scores", scores);
  *out_loss = tdm_cross_entropy(graph, "loss", scores, targets);
  return graph;
}

static const struct {
  model build;
  const char *scopes; /* scopes of all layers except the loss */
} models[] = {
    {seed_graph, "embedding,rnn"},
    {zigzag_graph, "embedding,hidden1,there,hidden2,back,last"},
    {tied_graph, "embedding,tied,once,twice,rnn"},
    {twice_graph, "embedding,bent,both,rnn"},
};

static tdm_session *micro_session(tdm_context *of, model build, const char *first,
                                  const char *second, int micro_batches) {
  tdm_value loss;
  tdm_graph *graph = build(of, first, second, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 3, o.deterministic = true,
              o.micro_batches = OR_ONE(micro_batches));
  return train_session(graph, loss, tdm_adam(0.01), &options);
}

/* Creates a session that computes the parts in turn on cpu:0, without micro-batches. */
static tdm_session *chunk_session(size_t k, int chunks) {
  static const char *const lists[] = {NULL,
                                      "cpu:0",
                                      "cpu:0,cpu:0",
                                      "cpu:0,cpu:0,cpu:0",
                                      "cpu:0,cpu:0,cpu:0,cpu:0",
                                      "cpu:0,cpu:0,cpu:0,cpu:0,cpu:0"};
  tdm_value loss;
  tdm_graph *graph = models[k].build(context, "cpu:0", "cpu:0", &loss);
  const tdm_parallel_options parallel = OPTIONS(tdm_parallel_options, o.devices = lists[chunks]);
  tdm_data_parallel(graph, models[k].scopes, &parallel);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 3, o.deterministic = true);
  return train_session(graph, loss, tdm_adam(0.01), &options);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void assert_near_floats(const tdm_tensor *a, const tdm_tensor *b, double tolerance) {
  assert_int_equal(tdm_tensor_bytes(a), tdm_tensor_bytes(b));
  const bool wide = tdm_tensor_dtype(a) == TDM_FLOAT64;
  double most = 0;
  double error = 0;
  for (size_t i = 0; i < tdm_tensor_bytes(a) / (wide ? 8 : 4); i++) {
    const double x = wide ? ((double *)tdm_tensor_data(a))[i] : ((float *)tdm_tensor_data(a))[i];
    const double y = wide ? ((double *)tdm_tensor_data(b))[i] : ((float *)tdm_tensor_data(b))[i];
    const double size = y < 0 ? -y : y;
    const double difference = x < y ? y - x : x - y;
    if (most < size) most = size;
    if (!(error >= difference)) error = difference; /* NaN counts */
  }
  if (!(error <= tolerance * most)) fail_msg("%g apart, of %g", error, most);
}

static void assert_near_parameters(tdm_session *a, tdm_session *b, double tolerance) {
  tdm_tensor_list *mine = state_of(a);
  tdm_tensor_list *other = state_of(b);
  assert_int_equal(tdm_tensor_list_count(mine), tdm_tensor_list_count(other));
  for (size_t i = 0; i < tdm_tensor_list_count(mine); i++) {
    const char *name = tdm_tensor_list_name(mine, i);
    if (strstr(name, "optimizer/")) continue;
    assert_near_floats(tdm_tensor_list_tensor(mine, i), tdm_tensor_list_find(other, name),
                       tolerance);
  }
  tdm_tensor_list_release(mine);
  tdm_tensor_list_release(other);
}

static void assert_same_sessions(tdm_session *a, tdm_session *b) {
  tdm_tensor_list *mine = state_of(a);
  tdm_tensor_list *other = state_of(b);
  assert_same_state(mine, other);
  tdm_tensor_list_release(mine);
  tdm_tensor_list_release(other);
}

static void train_on(tdm_session *session, int steps, const int64_t *rows, size_t row_count) {
  for (int i = 0; i < steps; i++) {
    test_batch batch;
    test_batch_make(&batch, session->context, rows[(size_t)i % row_count], (uint64_t)i + 1);
    (void)train_once(session, &batch);
    test_batch_release(&batch);
  }
}

/* ---- The models ------------------------------------------------------------------------------ */

static void forward_rows_are_those_of_the_plain_model(void **unused) {
  (void)unused;
  static const int64_t rows[] = {30, 10, 7, 3, 2, 1, 0, 30};
  for (size_t k = 0; k < TDM_COUNT_OF(models); k++) {
    tdm_session *plain = micro_session(context, models[k].build, "cpu:0", "sim:0", 1);
    for (int count = 2; count <= 8; count += 3) {
      tdm_session *cut = micro_session(context, models[k].build, "cpu:0", "sim:0", count);
      for (size_t i = 0; i < TDM_COUNT_OF(rows); i++) {
        test_batch batch;
        test_batch_make(&batch, context, rows[i], i);
        tdm_tensor *want = run_once(plain, &batch, "scores");
        tdm_tensor *got = run_once(cut, &batch, "scores");
        const int64_t most = (rows[i] + count - 1) / count; /* most rows in a part */
        assert_int_equal(cut->newest->micro_count, most > 0 ? (rows[i] + most - 1) / most : 1);
        assert_same_tensor(got, want);
        tdm_tensor_release(want);
        tdm_tensor_release(got);
        test_batch_release(&batch);
      }
      tdm_session_release(cut);
    }
    tdm_session_release(plain);
  }
}

static void training_is_that_of_the_same_parts_in_sequence(void **unused) {
  (void)unused;
  static const char *const places[][2] = {{"cpu:0", "sim:0"}, {"sim:1", "cpu:1"}};
  static const int64_t rows[] = {30, 10, 3, 7};
  for (size_t k = 0; k < TDM_COUNT_OF(models); k++)
    for (int count = 2; count <= 5; count++) {
      tdm_session *chunks = chunk_session(k, count);
      train_on(chunks, 6, rows, TDM_COUNT_OF(rows));
      for (size_t p = 0; p < TDM_COUNT_OF(places); p++) {
        if (models[k].build == tied_graph && p == 0 && count > 2) continue; /* once is enough */
        tdm_session *cut =
            micro_session(context, models[k].build, places[p][0],
                          models[k].build == tied_graph ? places[p][0] : places[p][1], count);
        train_on(cut, 6, rows, TDM_COUNT_OF(rows));
        assert_int_equal(cut->newest->micro_count, count < 7 ? count : 7);
        assert_same_sessions(cut, chunks);
        tdm_session_release(cut);
      }
      tdm_session_release(chunks);
    }
}

static int count_operations(const tdm_graph *graph, const char *name) {
  int count = 0;
  TDM_EACH_NODE(graph, node)
    count += node->operation && strcmp(node->operation->name, name) == 0;
  return count;
}

/* A gradient as large as the table is made for the first part; the others add their rows, unless
 * they have nearly as many. */
static void a_tables_gradient_is_made_once(void **unused) {
  (void)unused;
  for (int few = 0; few < 2; few++) {
    tdm_session *cut = micro_session(context, seed_graph, "cpu:0", "sim:0", 4);
    train_on(cut, 1, (const int64_t[]){few ? 40 : 2 * MODEL_ROWS}, 1);
    const tdm_graph *graph = &cut->newest->graph;
    assert_int_equal(count_operations(graph, TDM_OP_EMBEDDING_GRADIENT), few ? 1 : 4);
    assert_int_equal(count_operations(graph, TDM_OP_ADD_ROWS), few ? 3 : 0);
    tdm_session_release(cut);
  }
}

static void training_is_near_the_plain_model(void **unused) {
  (void)unused;
  static const int64_t rows[] = {30, 10, 7, 1};
  for (size_t k = 0; k < TDM_COUNT_OF(models); k++) {
    tdm_session *plain = micro_session(context, models[k].build, "cpu:0", "cpu:0", 0);
    tdm_session *cut = micro_session(context, models[k].build, "cpu:0", "sim:0", 4);
    for (uint64_t i = 0; i < 20; i++) {
      test_batch batch;
      test_batch_make(&batch, context, rows[i % 4], i);
      const double wanted = train_once(plain, &batch);
      const double loss = train_once(cut, &batch);
      assert_true(loss - wanted <= 1e-5 * wanted && wanted - loss <= 1e-5 * wanted);
      test_batch_release(&batch);
    }
    assert_near_parameters(cut, plain, 1e-4);
    tdm_session_release(cut);
    tdm_session_release(plain);
  }
}

/* ---- Losses ---------------------------------------------------------------------------------- */

enum { LENGTH = 3, CLASSES = 5, WIDTH = 4 };

typedef struct sequence_options {
  tdm_dtype dtype;
  int micro_batches;
  bool sparse;
} sequence_options;

/* ids, targets (length, batch): embedding, rnn, linear for every step, whose rows a reshape makes
 * one dimension; one target in three is ignored. */
static tdm_graph *sequence_graph(const sequence_options *chosen, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("length"), TDM_DIM("batch"));
  tdm_scope_dtype(graph, chosen->dtype);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, shape);
  const tdm_value targets = tdm_input(graph, "targets", TDM_INT64, shape);
  tdm_place(graph, "cpu:0");
  const tdm_embedding_options embedding = OPTIONS(tdm_embedding_options, o.sparse = chosen->sparse);
  tdm_value x = tdm_embedding_with(graph, "embedding", ids, 20, WIDTH, &embedding);
  tdm_place(graph, "sim:0");
  x = tdm_rnn(graph, "rnn", x, WIDTH, NULL, NULL);
  tdm_output(graph, "steps", x);
  tdm_output(graph, "last", tdm_last_step(graph, "last", x));
  x = tdm_linear(graph, "decoder", x, CLASSES);
  const tdm_value scores = tdm_reshape(graph, "flat", x, tdm_shape_of(2, TDM_INFER, CLASSES));
  const tdm_value wanted = tdm_reshape(graph, "wanted", targets, tdm_shape_of(1, TDM_INFER));
  const tdm_loss_options loss = OPTIONS(tdm_loss_options, o.ignore_index = 0);
  *out_loss = tdm_cross_entropy_with(graph, "loss", scores, wanted, &loss);
  return graph;
}

static tdm_session *sequence_session(const sequence_options *chosen) {
  tdm_value loss;
  tdm_graph *graph = sequence_graph(chosen, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 2, o.micro_batches = OR_ONE(chosen->micro_batches));
  return train_session(graph, loss, chosen->sparse ? tdm_sgd(0.5) : tdm_adam(0.02), &options);
}

static tdm_tensor *draw_ids(int64_t batch, uint64_t seed, uint32_t below, int64_t ignored_until) {
  const tdm_random random = {seed, 1, 0};
  int64_t values[LENGTH * 64];
  for (int64_t i = 0; i < LENGTH * batch; i++)
    values[i] = i % batch < ignored_until ? 0 : tdm_random_uint32(&random, (uint64_t)i) % below;
  return tdm_tensor_from(context, TDM_INT64, tdm_shape_of(2, LENGTH, batch), values);
}

/* The first rows' targets are all ignored, so that whole micro-batches count none. */
static double sequence_step(tdm_session *session, int64_t batch, uint64_t seed) {
  tdm_tensor *ids = draw_ids(batch, seed, 20, 0);
  tdm_tensor *targets = draw_ids(batch, seed + 100, CLASSES, batch / 3);
  const tdm_feed feeds[2] = {{.name = "ids", .tensor = ids},
                             {.name = "targets", .tensor = targets}};
  double loss = 0;
  assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, &loss));
  tdm_tensor_release(ids);
  tdm_tensor_release(targets);
  return loss;
}

static tdm_tensor *sequence_run(tdm_session *session, const char *name) {
  tdm_tensor *ids = draw_ids(10, 77, 20, 0);
  const tdm_feed feed = {.name = "ids", .tensor = ids};
  tdm_fetch fetch = {.name = name};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  tdm_tensor_release(ids);
  return fetch.tensor;
}

static void means_are_over_the_whole_batch(void **unused) {
  (void)unused;
  for (int variant = 0; variant < 3; variant++) {
    const bool wide = variant == 1;
    sequence_options chosen = {.dtype = wide ? TDM_FLOAT64 : TDM_FLOAT32, .sparse = variant == 2};
    tdm_session *plain = sequence_session(&chosen);
    chosen.micro_batches = 4;
    tdm_session *cut = sequence_session(&chosen);
    for (uint64_t i = 0; i < 20; i++) {
      const double wanted = sequence_step(plain, i % 3 ? 13 : 6, i);
      const double loss = sequence_step(cut, i % 3 ? 13 : 6, i);
      assert_true(loss - wanted <= 1e-5 * wanted && wanted - loss <= 1e-5 * wanted);
    }
    assert_near_parameters(cut, plain, wide ? 1e-10 : 1e-4);
    static const char *const names[] = {"steps", "last"};
    for (size_t i = 0; i < 2; i++) { /* the batch is dimension 1, then 0 */
      tdm_tensor *want = sequence_run(plain, names[i]);
      tdm_tensor *got = sequence_run(cut, names[i]);
      assert_near_floats(got, want, wide ? 1e-10 : 1e-4);
      tdm_tensor_release(want);
      tdm_tensor_release(got);
    }
    tdm_session_release(cut);
    tdm_session_release(plain);
  }
}

static double mse_step(tdm_session *session, int64_t rows, uint64_t seed) {
  tdm_tensor *x = tdm_tensor_create(context, "cpu:0", TDM_FLOAT64, tdm_shape_of(2, rows, WIDTH));
  const tdm_random random = {seed, 1, 0};
  for (int64_t i = 0; i < rows * WIDTH; i++)
    ((double *)tdm_tensor_data(x))[i] = tdm_random_uint32(&random, (uint64_t)i) % 100 / 50.0 - 1;
  const tdm_feed feed = {.name = "x", .tensor = x};
  double loss = 0;
  assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, &loss));
  tdm_tensor_release(x);
  return loss;
}

static tdm_session *mse_session(int micro_batches, tdm_loss_reduction reduction,
                                const char *parallel) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_scope_dtype(graph, TDM_FLOAT64);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT64, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_place(graph, "cpu:0");
  const tdm_value hidden = tdm_tanh(graph, "tanh", tdm_linear(graph, "in", x, 6));
  tdm_place(graph, "sim:0");
  const tdm_value out = tdm_linear(graph, "out", hidden, WIDTH);
  if (parallel) {
    const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = parallel);
    tdm_data_parallel(graph, "out", &options);
  }
  const tdm_loss_options options = OPTIONS(tdm_loss_options, o.reduction = reduction);
  const tdm_value loss = tdm_mse_with(graph, "loss", out, x, &options);
  const tdm_session_options session =
      OPTIONS(tdm_session_options, o.seed = 4, o.micro_batches = OR_ONE(micro_batches));
  return train_session(graph, loss, tdm_sgd(0.02), &session);
}

static void squares_are_divided_by_all_elements(void **unused) {
  (void)unused;
  for (int reduction = TDM_LOSS_MEAN; reduction <= TDM_LOSS_SUM; reduction++) {
    tdm_session *plain = mse_session(0, (tdm_loss_reduction)reduction, NULL);
    tdm_session *cut = mse_session(3, (tdm_loss_reduction)reduction, NULL);
    for (uint64_t i = 0; i < 20; i++) {
      const double wanted = mse_step(plain, 11, i);
      const double loss = mse_step(cut, 11, i);
      assert_true(loss - wanted <= 1e-12 * wanted && wanted - loss <= 1e-12 * wanted);
    }
    assert_near_parameters(cut, plain, 1e-10);
    tdm_session_release(cut);
    tdm_session_release(plain);
  }
}

/* Every micro-batch is spread over the replicas. */
static void micro_batches_go_through_wrapped_parts(void **unused) {
  (void)unused;
  tdm_session *plain = mse_session(0, TDM_LOSS_MEAN, NULL);
  tdm_session *cut = mse_session(3, TDM_LOSS_MEAN, "sim:0,sim:1");
  for (uint64_t i = 0; i < 20; i++) {
    const double wanted = mse_step(plain, 11, i);
    const double loss = mse_step(cut, 11, i);
    assert_true(loss - wanted <= 1e-12 * wanted && wanted - loss <= 1e-12 * wanted);
  }
  assert_near_parameters(cut, plain, 1e-10);
  int replicas = 0;
  const tdm_graph *graph = &cut->newest->graph;
  TDM_EACH_NODE(graph, node)
    replicas += node->role == TDM_ROLE_FORWARD && node->part.replica && node->part.micro;
  assert_int_equal(replicas, 3 * 2);
  tdm_session_release(cut);
  tdm_session_release(plain);
}

/* A weight that is bent inside the parallel region, twice there: no row reaches these nodes. */
static tdm_session *bent_session(int micro_batches, const char *parallel) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_scope_dtype(graph, TDM_FLOAT64);
  const tdm_initializer draws = {TDM_INIT_UNIFORM, -1, 1, -1};
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT64, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_place(graph, "sim:0");
  tdm_scope_push(graph, "part");
  const tdm_value weight =
      tdm_parameter(graph, "weight", TDM_FLOAT64, tdm_shape_of(2, WIDTH, WIDTH), &draws);
  const tdm_value bent = tdm_tanh(graph, "bent", weight);
  const tdm_value turned = tdm_transpose(graph, "turned", bent, 0, 1);
  const tdm_value once = tdm_tanh(graph, "once", tdm_matmul(graph, "first", x, bent));
  const tdm_value out = tdm_matmul(graph, "second", once, turned);
  tdm_scope_pop(graph);
  if (parallel) {
    const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = parallel);
    tdm_data_parallel(graph, "part", &options);
  }
  const tdm_value loss = tdm_mse(graph, "loss", out, x);
  const tdm_session_options session =
      OPTIONS(tdm_session_options, o.seed = 4, o.micro_batches = OR_ONE(micro_batches));
  return train_session(graph, loss, tdm_sgd(0.1), &session);
}

static void what_reads_parameters_only_may_be_wrapped(void **unused) {
  (void)unused;
  static const struct {
    int micro_batches;
    const char *parallel;
    int bent; /* number of executions of the kernel that changes the weight */
  } ways[] = {{0, "sim:0,sim:1", 2}, {3, NULL, 1}, {3, "sim:0", 3}, {3, "sim:0,sim:1", 6}};
  for (size_t w = 0; w < TDM_COUNT_OF(ways); w++) {
    tdm_session *plain = bent_session(0, NULL);
    tdm_session *cut = bent_session(ways[w].micro_batches, ways[w].parallel);
    double first = 0;
    double loss = 0;
    for (uint64_t i = 0; i < 10; i++) {
      const double wanted = mse_step(plain, 11, 7);
      loss = mse_step(cut, 11, 7);
      if (i == 0) first = loss;
      assert_true(loss - wanted <= 1e-12 * wanted && wanted - loss <= 1e-12 * wanted);
    }
    assert_true(loss < first); /* gradients reach the weight */
    assert_near_parameters(cut, plain, 1e-10);
    int bent = 0;
    const tdm_graph *graph = &cut->newest->graph;
    TDM_EACH_NODE(graph, node)
      bent += node->role == TDM_ROLE_FORWARD && strcmp(node->name, "part/bent") == 0;
    assert_int_equal(bent, ways[w].bent);
    tdm_session_release(cut);
    tdm_session_release(plain);
  }
}

/* ---- Turns ----------------------------------------------------------------------------------- */

/* In which order a device works on parts, before the updates: "F1 F2 B1 ", forward and back. */
static void list_turns(const tdm_session *session, const char *device, char *out, size_t capacity) {
  const tdm_ir_node *before = NULL;
  out[0] = '\0';
  TDM_EACH_NODE(&session->newest->graph, node) {
    const bool is_back = node->role == TDM_ROLE_GRADIENT;
    if (node->role == TDM_ROLE_UPDATE) break;
    if (node->part.micro == 0 || (node->role != TDM_ROLE_FORWARD && !is_back)) continue;
    if (strcmp(tdm_device_name_at(context, (size_t)node->device), device) != 0) continue;
    if (before && before->part.micro == node->part.micro && before->role == node->role) continue;
    const size_t used = strlen(out);
    (void)snprintf(out + used, capacity - used, "%s%d ", is_back ? "B" : "F", node->part.micro);
    before = node;
  }
}

/* The first node reads only inputs, and produces one number per row. */
static tdm_graph *narrowed_graph(tdm_context *of, const char *first, const char *second,
                                 tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(of);
  const tdm_shape batch = tdm_shape_of(1, TDM_DIM("batch"));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, batch);
  const tdm_value targets = tdm_input(graph, "targets", TDM_INT64, batch);
  tdm_place(graph, first);
  const tdm_value narrow = tdm_cast(graph, "narrow", ids, TDM_INT32);
  const tdm_value words = tdm_embedding(graph, "embedding", narrow, MODEL_ROWS, MODEL_WIDTH);
  tdm_place(graph, second);
  const tdm_value scores = tdm_linear(graph, "rnn", words, MODEL_WIDTH);
  *out_loss = tdm_cross_entropy(graph, "loss", scores, targets);
  return graph;
}

/* A device has at most as many parts in progress as there are stages after it, including the links
 * between them. Values that all parts read are ready before the first part. */
static void devices_go_forward_and_back_in_turn(void **unused) {
  (void)unused;
  static const int64_t rows = 30;
  static const model graphs[] = {seed_graph, narrowed_graph};
  for (size_t i = 0; i < TDM_COUNT_OF(graphs); i++) {
    tdm_session *session = micro_session(context, graphs[i], "cpu:0", "sim:0", 5);
    char turns[256];
    train_on(session, 1, &rows, 1);
    list_turns(session, "cpu:0", turns, sizeof turns);
    assert_string_equal(turns, "F1 F2 F3 B1 F4 B2 F5 B3 B4 B5 ");
    list_turns(session, "sim:0", turns, sizeof turns);
    assert_string_equal(turns, "F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 ");
    tdm_session_release(session);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forward_rows_are_those_of_the_plain_model),
      cmocka_unit_test(training_is_that_of_the_same_parts_in_sequence),
      cmocka_unit_test(a_tables_gradient_is_made_once),
      cmocka_unit_test(training_is_near_the_plain_model),
      cmocka_unit_test(devices_go_forward_and_back_in_turn),
      cmocka_unit_test(means_are_over_the_whole_batch),
      cmocka_unit_test(squares_are_divided_by_all_elements),
      cmocka_unit_test(micro_batches_go_through_wrapped_parts),
      cmocka_unit_test(what_reads_parameters_only_may_be_wrapped),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
