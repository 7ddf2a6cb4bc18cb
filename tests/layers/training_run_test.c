/* Properties of training runs only: dropout draws numbers that depend only on seed, step and
 * position. Batch normalization keeps the statistics of the first replica, and of every
 * micro-batch. Optimizers do not change infinite parameters. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

enum { ROWS = 60, COLUMNS = 50, COUNT = ROWS * COLUMNS };
#define P 0.25

/* y = dropout(linear(rows of one 1)), so that w, the linear layer's weight, is spread over the
 * rows; the loss is the sum of y, or of its squared distance from x. w is ones before every step.
 */
typedef struct dropout_run {
  const char *device_map;
  const char *replicas; /* NULL: not wrapped */
  int micro_batches;    /* 0: the sum of y; otherwise the squares, a loss that can be divided */
  uint64_t seed;
  int steps;
  float y[COUNT];         /* result of the last step */
  float evaluated[COUNT]; /* result of a run that does not train */
  float w[COLUMNS];       /* weights after the steps */
} dropout_run;

static tdm_tensor *ones_of(tdm_context *context, tdm_shape shape) {
  tdm_tensor *ones = tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, shape, 1.0);
  assert_non_null(ones);
  return ones;
}

static void read_into(const tdm_tensor *tensor, void *out, size_t bytes) {
  if (tdm_tensor_read(tensor, out, bytes) != TDM_OK) fail_msg("%s", tdm_last_message());
}

static tdm_session *dropout_session(tdm_graph *graph, const dropout_run *run) {
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), COLUMNS));
  const int last = 1;
  const tdm_value row = tdm_mean(graph, "part/ones", x, &last, 1, true);
  const tdm_value spread = tdm_linear_without_bias(graph, "part/spread", row, COLUMNS);
  const tdm_value y = tdm_dropout(graph, "part/dropout", spread, P);
  if (run->replicas) {
    const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = run->replicas);
    tdm_data_parallel(graph, "part", &options);
  }
  tdm_output(graph, "y", y);
  const tdm_loss_options squares = OPTIONS(tdm_loss_options, o.reduction = TDM_LOSS_SUM);
  const tdm_value loss = run->micro_batches ? tdm_mse_with(graph, "loss", y, x, &squares)
                                            : tdm_sum(graph, "loss", y, NULL, 0, false);
  const tdm_optimizer optimizer = tdm_sgd(1.0 / ROWS);
  const tdm_session_options options = OPTIONS(
      tdm_session_options, o.loss = loss, o.optimizer = &optimizer, o.device_map = run->device_map,
      o.micro_batches = OR_ONE(run->micro_batches), o.seed = run->seed);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  return session;
}

static void load_ones(tdm_context *context, tdm_session *session) {
  tdm_tensor *ones = ones_of(context, tdm_shape_of(2, COLUMNS, 1));
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  assert_int_equal(tdm_tensor_list_add(list, "part/spread.weight", ones), TDM_OK);
  if (tdm_store_load(tdm_session_store(session), list) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  tdm_tensor_list_release(list);
  tdm_tensor_release(ones);
}

static void do_run(tdm_context *context, dropout_run *run) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_session *session = dropout_session(graph, run);
  tdm_tensor *x = ones_of(context, tdm_shape_of(2, ROWS, COLUMNS));
  const tdm_feed feed = {.name = "x", .tensor = x};
  for (int i = 0; i < run->steps; i++) {
    load_ones(context, session);
    tdm_fetch fetch = {.name = "y"};
    if (tdm_train_step(session, &feed, 1, &fetch, 1, NULL) != TDM_OK)
      fail_msg("%s", tdm_last_message());
    read_into(fetch.tensor, run->y, sizeof run->y);
    tdm_tensor_release(fetch.tensor);
  }
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(session), false);
  read_into(tdm_tensor_list_find(saved, "part/spread.weight"), run->w, sizeof run->w);
  tdm_tensor_list_release(saved);
  load_ones(context, session);
  tdm_fetch fetch = {.name = "y"};
  if (tdm_run(session, &feed, 1, &fetch, 1) != TDM_OK) fail_msg("%s", tdm_last_message());
  read_into(fetch.tensor, run->evaluated, sizeof run->evaluated);
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static void dropout_scales_what_it_keeps_and_trains_through_it(void **state) {
  tdm_context *context = *state;
  static dropout_run run = {.device_map = "*=cpu:0", .seed = 5, .steps = 1};
  do_run(context, &run);
  int gone = 0;
  for (int i = 0; i < COUNT; i++) {
    gone += run.y[i] == 0;
    if (run.y[i] != 0) assert_true(fabs((double)run.y[i] - 1 / (1 - P)) < 1e-6);
    assert_true(run.evaluated[i] == 1);
  }
  assert_in_range(gone, (int)(COUNT * (P - 0.04)), (int)(COUNT * (P + 0.04)));
  for (int j = 0; j < COLUMNS; j++) { /* d_w is the sum of the gradients that passed, divided by
                                       * ROWS */
    double sum = 0;
    for (int i = 0; i < ROWS; i++)
      sum += (double)run.y[i * COLUMNS + j];
    assert_true(fabs((double)run.w[j] - (1 - sum / ROWS)) < 1e-5);
  }
}

static void dropout_depends_on_seed_and_step(void **state) {
  tdm_context *context = *state;
  static dropout_run first = {.device_map = "*=cpu:0", .seed = 5, .steps = 1};
  static dropout_run same = {.device_map = "*=cpu:0", .seed = 5, .steps = 1};
  static dropout_run later = {.device_map = "*=cpu:0", .seed = 5, .steps = 2};
  static dropout_run other = {.device_map = "*=cpu:0", .seed = 6, .steps = 1};
  do_run(context, &first);
  do_run(context, &same);
  do_run(context, &later);
  do_run(context, &other);
  assert_memory_equal(first.y, same.y, sizeof first.y);
  assert_memory_not_equal(first.y, later.y, sizeof first.y);
  assert_memory_not_equal(first.y, other.y, sizeof first.y);
}

static void dropout_depends_on_no_device_and_no_replica(void **state) {
  tdm_context *context = *state;
  static dropout_run plain = {.device_map = "*=cpu:0", .seed = 5, .steps = 2};
  do_run(context, &plain);
  static const char *const replicas[] = {"cpu:0,cpu:0", "cpu:0,sim:0,cpu:0", "sim:0", NULL};
  for (size_t i = 0; i < sizeof replicas / sizeof replicas[0]; i++) {
    static dropout_run other;
    other = (dropout_run){.device_map = replicas[i] ? NULL : "*=sim:0",
                          .replicas = replicas[i],
                          .seed = 5,
                          .steps = 2};
    do_run(context, &other);
    assert_memory_equal(plain.y, other.y, sizeof plain.y);
  }
}

/* The parts of a batch draw the numbers of the whole, forward and, by the weight, backward. */
static void dropout_depends_on_no_micro_batch(void **state) {
  tdm_context *context = *state;
  static dropout_run plain = {.device_map = "*=cpu:0", .micro_batches = 1, .seed = 5, .steps = 2};
  do_run(context, &plain);
  for (int parts = 2; parts <= 7; parts += 5) /* 2 of 30 rows, or 7 of 9 (the last of 6) */
    for (int wrapped = 0; wrapped < 2; wrapped++) {
      static dropout_run other;
      other = (dropout_run){.device_map = wrapped ? NULL : "*=sim:0",
                            .replicas = wrapped ? "cpu:0,sim:0" : NULL,
                            .micro_batches = parts,
                            .seed = 5,
                            .steps = 2};
      do_run(context, &other);
      assert_memory_equal(plain.y, other.y, sizeof plain.y);
      for (int j = 0; j < COLUMNS; j++)
        assert_true(fabs((double)plain.w[j] - (double)other.w[j]) < 1e-5);
    }
}

/* ---- Batch normalization --------------------------------------------------------------------- */

/* x (rows, 2): row i is (i, 10 i). */
static tdm_tensor *norm_rows(tdm_context *context, int rows, float *values) {
  for (int i = 0; i < rows; i++) {
    values[2 * i] = (float)i;
    values[2 * i + 1] = 10.0f * (float)i;
  }
  return tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, rows, 2), values);
}

static tdm_session *norm_session(tdm_context *context, const char *replicas, int micro_batches) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 2));
  const tdm_value y = tdm_batch_norm(graph, "norm", x);
  const tdm_parallel_options parallel = OPTIONS(tdm_parallel_options, o.devices = replicas);
  if (replicas) tdm_data_parallel(graph, "norm", &parallel);
  tdm_output(graph, "y", y);
  const tdm_optimizer optimizer = tdm_sgd(0.0);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = tdm_mse(graph, "loss", y, x), o.optimizer = &optimizer,
              o.micro_batches = OR_ONE(micro_batches));
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

typedef struct norm_state {
  float mean[2];
  float variance[2];
  int64_t batches;
} norm_state;

static norm_state train_norm(tdm_session *session, const tdm_feed *feed, int steps) {
  for (int i = 0; i < steps; i++)
    if (tdm_train_step(session, feed, 1, NULL, 0, NULL) != TDM_OK)
      fail_msg("%s", tdm_last_message());
  norm_state kept;
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(session), false);
  read_into(tdm_tensor_list_find(saved, "norm.running_mean"), kept.mean, sizeof kept.mean);
  read_into(tdm_tensor_list_find(saved, "norm.running_var"), kept.variance, sizeof kept.variance);
  read_into(tdm_tensor_list_find(saved, "norm.num_batches_tracked"), &kept.batches,
            sizeof kept.batches);
  tdm_tensor_list_release(saved);
  return kept;
}

/* The second channel is ten times the first, and its variance a hundred times. */
static void assert_kept(const norm_state *kept, double mean, double of_start, double variance) {
  for (int i = 0; i < 2; i++) {
    const double scale = i == 0 ? 1 : 10;
    assert_true(fabs((double)kept->mean[i] - mean * scale) < 1e-5 * scale);
    assert_true(fabs((double)kept->variance[i] - (of_start + variance * scale * scale)) <
                1e-4 * scale);
  }
}

/* The first of two replicas has rows 0 to 2, whose mean is 1 and variance 1. */
static void batch_norm_keeps_the_statistics_of_the_first_replica(void **state) {
  tdm_context *context = *state;
  float values[12];
  tdm_tensor *tensor = norm_rows(context, 6, values);
  tdm_session *session = norm_session(context, "cpu:0,sim:0", 1);
  const tdm_feed feed = {.name = "x", .tensor = tensor};
  const norm_state kept = train_norm(session, &feed, 2);
  assert_int_equal(kept.batches, 2);
  assert_kept(&kept, 0.19, 0.81, 0.19);

  tdm_fetch fetch = {.name = "y"}; /* a run that does not train normalizes by the kept statistics */
  if (tdm_run(session, &feed, 1, &fetch, 1) != TDM_OK) fail_msg("%s", tdm_last_message());
  float found[12];
  read_into(fetch.tensor, found, sizeof found);
  tdm_tensor_release(fetch.tensor);
  for (int i = 0; i < 12; i++) {
    const double wanted =
        ((double)values[i] - (double)kept.mean[i % 2]) / sqrt((double)kept.variance[i % 2] + 1e-5);
    assert_true(fabs((double)found[i] - wanted) < 1e-5 * (1 + fabs(wanted)));
  }
  tdm_tensor_release(tensor);
  tdm_session_release(session);
}

/* Rows 0 to 2, then rows 3 to 5 with mean 4 count as two batches, one step after the other. With
 * eight rows and replicas, the first replica has rows 0 and 1, then 4 and 5: means 0.5 and 4.5,
 * variance 0.5. */
static void batch_norm_keeps_the_statistics_of_every_micro_batch(void **state) {
  tdm_context *context = *state;
  for (int wrapped = 0; wrapped < 2; wrapped++) {
    float values[16];
    const tdm_feed feed = {.name = "x", .tensor = norm_rows(context, wrapped ? 8 : 6, values)};
    tdm_session *session = norm_session(context, wrapped ? "cpu:0,sim:0" : NULL, 2);
    const norm_state kept = train_norm(session, &feed, 1);
    assert_int_equal(kept.batches, 2);
    if (wrapped)
      assert_kept(&kept, 0.9 * 0.05 + 0.45, 0.81, 0.5 * 0.19);
    else
      assert_kept(&kept, 0.9 * 0.1 + 0.4, 0.81, 0.19);
    tdm_session_release(session);
    tdm_tensor_release(feed.tensor);
  }
}

/* After a part whose last micro-batch, of one row, has one replica and the first has two. */
static void batch_norm_keeps_micro_batches_in_their_order(void **state) {
  tdm_context *context = *state;
  norm_state kept[2];
  const float values[3][2][2] = {{{0, 1}, {2, 3}}, {{4, 4}, {6, 8}}, {{9, 1}, {5, 7}}};
  const tdm_shape shape = tdm_shape_of(3, 3, 2, 2);
  const tdm_feed feed = {.name = "x",
                         .tensor = tdm_tensor_from(context, TDM_FLOAT32, shape, values)};
  for (int wrapped = 0; wrapped < 2; wrapped++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, TDM_DIM("batch"), 2, 2));
    const tdm_value part = tdm_relu(graph, "part", x);
    const tdm_parallel_options parallel = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,sim:0");
    if (wrapped) tdm_data_parallel(graph, "part", &parallel);
    const tdm_value y = tdm_batch_norm(graph, "norm", part);
    const tdm_optimizer optimizer = tdm_sgd(0.0);
    const tdm_session_options options =
        OPTIONS(tdm_session_options, o.loss = tdm_mse(graph, "loss", y, x),
                o.optimizer = &optimizer, o.micro_batches = 2);
    tdm_session *session = tdm_session_create(graph, &options);
    if (!session) fail_msg("%s", tdm_last_message());
    kept[wrapped] = train_norm(session, &feed, 1);
    tdm_session_release(session);
    tdm_graph_release(graph);
  }
  assert_memory_equal(&kept[1], &kept[0], sizeof kept[0]);
  tdm_tensor_release(feed.tensor);
}

/* One layer in two branches. Its call after a wrapped part came second, although it is called
 * first; or the second branch's part is wrapped before the first's. */
static void batch_norm_keeps_its_calls_in_their_order(void **state) {
  tdm_context *context = *state;
  norm_state kept[3];
  const float values[3][2][2] = {{{0, 1}, {2, 3}}, {{4, 4}, {6, 8}}, {{9, 1}, {5, 7}}};
  const tdm_shape shape = tdm_shape_of(3, 3, 2, 2);
  const tdm_feed feed = {.name = "x",
                         .tensor = tdm_tensor_from(context, TDM_FLOAT32, shape, values)};
  for (int wrapped = 0; wrapped < 3; wrapped++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, TDM_DIM("batch"), 2, 2));
    const tdm_value first = tdm_batch_norm(graph, "norm", tdm_relu(graph, "first", x));
    tdm_tie(graph, "norm", "norm");
    const tdm_value squares = tdm_relu(graph, "second", tdm_mul(graph, "squares", x, x));
    const tdm_value second = tdm_batch_norm(graph, "norm", squares);
    const tdm_parallel_options parallel = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,sim:0");
    if (wrapped == 2) tdm_data_parallel(graph, "second", &parallel);
    if (wrapped > 0) tdm_data_parallel(graph, "first", &parallel);
    const tdm_optimizer optimizer = tdm_sgd(0.0);
    const tdm_session_options options =
        OPTIONS(tdm_session_options, o.loss = tdm_mse(graph, "loss", first, second),
                o.optimizer = &optimizer);
    tdm_session *session = tdm_session_create(graph, &options);
    if (!session) fail_msg("%s", tdm_last_message());
    kept[wrapped] = train_norm(session, &feed, 1);
    assert_int_equal(kept[wrapped].batches, 2);
    assert_memory_equal(&kept[wrapped], &kept[0], sizeof kept[0]);
    tdm_session_release(session);
    tdm_graph_release(graph);
  }
  tdm_tensor_release(feed.tensor);
}

/* ---- Infinite parameters --------------------------------------------------------------------- */

/* One step of a parameter with infinite elements, whose gradient is x. */
static void step_infinite(tdm_context *context, const tdm_optimizer *optimizer, float *values) {
  const tdm_shape shape = tdm_shape_of(1, 3);
  const float xs[] = {1, 1, 1};
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value p = tdm_parameter(graph, "p", TDM_FLOAT32, shape, &(tdm_initializer){0});
  const tdm_value product = tdm_mul(graph, "product", p, tdm_input(graph, "x", TDM_FLOAT32, shape));
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = tdm_sum(graph, "loss", product, NULL, 0, false),
              o.optimizer = optimizer);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_tensor *start = tdm_tensor_from(context, TDM_FLOAT32, shape, values);
  tdm_tensor *x = tdm_tensor_from(context, TDM_FLOAT32, shape, xs);
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  assert_int_equal(tdm_tensor_list_add(list, "p", start), TDM_OK);
  assert_int_equal(tdm_store_load(tdm_session_store(session), list), TDM_OK);
  tdm_tensor_list_release(list);
  if (tdm_train_step(session, &(tdm_feed){"x", x, false}, 1, NULL, 0, NULL) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  list = tdm_store_save(tdm_session_store(session), false);
  read_into(tdm_tensor_list_find(list, "p"), values, 3 * sizeof *values);
  tdm_tensor_list_release(list);
  tdm_tensor_release(start);
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

/* Without weight decay there is none, of infinite parameters either. */
static void infinite_parameters_stay(void **state) {
  const tdm_sgd_options momentum =
      OPTIONS(tdm_sgd_options, o.learning_rate = 0.1, o.momentum = 0.9);
  const tdm_optimizer optimizers[] = {tdm_sgd(0.1),      tdm_sgd_with(&momentum), tdm_adam(0.1),
                                      tdm_nadam(0.1),    tdm_radam(0.1),          tdm_adamax(0.1),
                                      tdm_adadelta(0.1), tdm_adagrad(0.1),        tdm_rmsprop(0.1)};
  for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++) {
    float values[] = {-INFINITY, 1, INFINITY};
    step_infinite(*state, &optimizers[i], values);
    if (values[0] != -INFINITY || values[2] != INFINITY || !(values[1] < 1))
      fail_msg("optimizer %zu made %g, %g and %g of it", i, (double)values[0], (double)values[1],
               (double)values[2]);
  }
}

static int set_up(void **state) {
  *state = tdm_context_create(NULL);
  return *state ? 0 : -1;
}

static int tear_down(void **state) {
  tdm_context_release(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dropout_scales_what_it_keeps_and_trains_through_it),
      cmocka_unit_test(dropout_depends_on_seed_and_step),
      cmocka_unit_test(dropout_depends_on_no_device_and_no_replica),
      cmocka_unit_test(dropout_depends_on_no_micro_batch),
      cmocka_unit_test(batch_norm_keeps_the_statistics_of_the_first_replica),
      cmocka_unit_test(batch_norm_keeps_the_statistics_of_every_micro_batch),
      cmocka_unit_test(batch_norm_keeps_micro_batches_in_their_order),
      cmocka_unit_test(batch_norm_keeps_its_calls_in_their_order),
      cmocka_unit_test(infinite_parameters_stay),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
