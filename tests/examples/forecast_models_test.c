/* Forecasts of whole models on a described machine without measured kernels: a convolutional
 * network, a block of a transformer and the recommender. The machine computes one flop a nanosecond
 * and moves bytes in no time. So the busy time of its devices is a sum of products by closed
 * formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/fashion_cnn/network.h"
#include "examples/recommender/model.h"
#include "tandem/tandem.h"
#include "tests/options.h"

enum { BATCH = 6, MOST_FEEDS = 3 };

#define PROCESSOR                                                                                  \
  "{\"model\": \"counter\", \"flops_per_second\": {\"float32\": 1e9}, "                            \
  "\"memory_bytes_per_second\": 1e18}"
#define PORT "{\"latency_us\": 0, \"bytes_per_second\": 1e18}"
static const char machine_text[] =
    "{\"title\": \"counters\", \"sources\": [\"this test\"], "
    "\"device\": " PROCESSOR ", \"host\": " PROCESSOR ", \"host_link\": " PORT "}";

static tdm_context *described_context(void) {
  char path[] = "/tmp/forecast_models_test_XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  FILE *out = fdopen(file, "w");
  assert_non_null(out);
  fputs(machine_text, out);
  (void)fclose(out);
  const tdm_context_options options = OPTIONS(tdm_context_options, o.machine = path);
  tdm_context *context = tdm_context_create(&options);
  (void)remove(path);
  if (!context) fail_msg("%s", tdm_last_message());
  return context;
}

/* ---- A model --------------------------------------------------------------------------------- */

typedef struct model_input {
  const char *name;
  tdm_dtype dtype;
  tdm_shape shape; /* shape of the input */
} model_input;

typedef struct model {
  tdm_value (*describe)(tdm_graph *graph, const tdm_value *inputs); /* returns the loss */
  model_input inputs[MOST_FEEDS];
  size_t input_count;
  double forward_flops;
  double step_flops; /* forward and backward */
} model;

/* Nanoseconds that processors are busy. */
static double busy_ns(const tdm_forecast *made) {
  double sum = 0;
  for (size_t i = 0; i < made->queue_count; i++)
    if (strstr(made->queues[i].name, "compute")) sum += made->queues[i].busy_ns;
  return sum;
}

static void expect_flops(tdm_session *session, const tdm_feed *feeds, size_t count, bool training,
                         double flops) {
  const tdm_fetch fetch = {"loss", NULL};
  if (tdm_session_prepare(session, feeds, count, &fetch, 1, training) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  tdm_forecast *made;
  if (tdm_session_forecast(session, NULL, &made) != TDM_OK) fail_msg("%s", tdm_last_message());
  assert_int_equal(made->measured_kernels, 0);
  if (fabs(busy_ns(made) - flops) > 1e-3 * flops)
    fail_msg("%s: %.17g flops, not %.17g", training ? "a step" : "forward", busy_ns(made), flops);
  tdm_forecast_release(made);
}

static void expect_forecasts(const model *under_test) {
  tdm_context *context = described_context();
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value inputs[MOST_FEEDS];
  tdm_feed feeds[MOST_FEEDS];
  for (size_t i = 0; i < under_test->input_count; i++) {
    const model_input *input = &under_test->inputs[i];
    inputs[i] = tdm_input(graph, input->name, input->dtype, input->shape);
    tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", input->dtype, input->shape);
    assert_non_null(fed);
    feeds[i] = (tdm_feed){input->name, fed, false};
  }
  const tdm_value loss = under_test->describe(graph, inputs);
  tdm_output(graph, "loss", loss);
  const tdm_optimizer adagrad = tdm_adagrad(0.1);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &adagrad);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  if (!session) fail_msg("%s", tdm_last_message());
  expect_flops(session, feeds, under_test->input_count, false, under_test->forward_flops);
  expect_flops(session, feeds, under_test->input_count, true, under_test->step_flops);
  for (size_t i = 0; i < under_test->input_count; i++)
    tdm_tensor_release(feeds[i].tensor);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Returns rows times the size of a linear layer's weight, and for a convolution also times
 * windows. */
static double products(double rows, double in, double out) {
  return 2 * rows * in * out;
}

/* ---- A convolutional network ----------------------------------------------------------------- */

enum { IMAGE = 16, FIRST = 8, SECOND = 12, HIDDEN = 40, CLASSES = 10, TAPS = 9 };

static tdm_value describe_network(tdm_graph *graph, const tdm_value *inputs) {
  const fashion_network_sizes sizes = {IMAGE, {FIRST, SECOND}, HIDDEN, CLASSES};
  tdm_value scores;
  return fashion_network_describe(graph, &sizes, inputs[0], inputs[1], "paper:0", NULL, &scores);
}

/* A step makes every product three times, except that of the images, which need no gradient. */
static void a_convolutional_network_is_forecast(void **state) {
  (void)state;
  const double quarter = SECOND * (IMAGE / 4) * (IMAGE / 4);
  const double first = products((double)BATCH * IMAGE * IMAGE, 1 * TAPS, FIRST);
  const double others =
      products((double)BATCH * (IMAGE / 2) * (IMAGE / 2), (double)FIRST * TAPS, SECOND) +
      products(BATCH, quarter, HIDDEN) + products(BATCH, HIDDEN, CLASSES);
  const model network = {
      .describe = describe_network,
      .inputs = {{"images", TDM_FLOAT32, tdm_shape_of(4, BATCH, 1, IMAGE, IMAGE)},
                 {"classes", TDM_INT64, tdm_shape_of(1, BATCH)}},
      .input_count = 2,
      .forward_flops = first + others,
      .step_flops = 2 * first + 3 * others,
  };
  expect_forecasts(&network);
}

/* ---- A block of a transformer ---------------------------------------------------------------- */

enum { TOKENS = 10, WIDTH = 24, HEADS = 4 };

/* Describes a block as in GPT-2: x + proj(attention(qkv(norm(x)))), and that +
 * fc2(gelu(fc1(norm(it)))). */
static tdm_value describe_block(tdm_graph *graph, const tdm_value *inputs) {
  tdm_place(graph, "paper:0");
  const tdm_dim thirds[] = {WIDTH, WIDTH, WIDTH};
  const tdm_attention_options causal =
      OPTIONS(tdm_attention_options, o.heads = HEADS, o.causal = true);
  tdm_value x = inputs[0], qkv[3];
  tdm_value y = tdm_linear(graph, "qkv", tdm_layer_norm(graph, "norm1", x, 1), 3 * WIDTH);
  tdm_split(graph, "heads", y, 2, thirds, 3, qkv);
  y = tdm_attention(graph, "attention", qkv[0], qkv[1], qkv[2], &causal);
  x = tdm_add(graph, "sum1", x, tdm_linear(graph, "proj", y, WIDTH));
  y = tdm_linear(graph, "fc1", tdm_layer_norm(graph, "norm2", x, 1), 4 * WIDTH);
  y = tdm_linear(graph, "fc2", tdm_gelu_tanh(graph, "gelu", y), WIDTH);
  return tdm_mse(graph, "loss", tdm_add(graph, "sum2", x, y), inputs[1]);
}

/* A query sees the keys up to its own. The gradient of attention has five products where attention
 * has two. */
static void a_block_of_a_transformer_is_forecast(void **state) {
  (void)state;
  const double linear = products((double)BATCH * TOKENS, WIDTH, (3 + 1 + 4 + 4) * WIDTH);
  const double seen = (double)BATCH * TOKENS * (TOKENS + 1) / 2;
  const double attention = 2 * products(seen, WIDTH, 1);
  const model block = {
      .describe = describe_block,
      .inputs = {{"x", TDM_FLOAT32, tdm_shape_of(3, BATCH, TOKENS, WIDTH)},
                 {"y", TDM_FLOAT32, tdm_shape_of(3, BATCH, TOKENS, WIDTH)}},
      .input_count = 2,
      .forward_flops = linear + attention,
      .step_flops = 3 * linear + 3.5 * attention,
  };
  expect_forecasts(&block);
}

/* ---- The recommender ------------------------------------------------------------------------- */

enum { TABLES = 5, ROWS = 100, LOOKUPS = 4, DIM = 16, DENSE = 13, PERCEPTRON = 32 };

static tdm_value describe_recommender(tdm_graph *graph, const tdm_value *inputs) {
  const recommender_sizes sizes = {
      .tables = TABLES, .rows = ROWS, .lookups = LOOKUPS, .dim = DIM, .hidden = PERCEPTRON};
  tdm_value logits;
  return recommender_describe(graph, &sizes, inputs[0], inputs[1], inputs[2], "paper:0", NULL,
                              &logits);
}

/* Each pair of vectors has one product, and the gradient one for each vector. */
static void the_recommender_is_forecast(void **state) {
  (void)state;
  const double pairs = (TABLES + 1) * TABLES / 2.0;
  const double first = products(BATCH, DENSE, PERCEPTRON);
  const double linear = products(BATCH, PERCEPTRON, DIM) +
                        products(BATCH, DIM + pairs, PERCEPTRON) + products(BATCH, PERCEPTRON, 1);
  const double interaction = products(BATCH, pairs, DIM);
  const model recommender = {
      .describe = describe_recommender,
      .inputs = {{"dense", TDM_FLOAT32, tdm_shape_of(2, BATCH, DENSE)},
                 {"ids", TDM_INT64, tdm_shape_of(2, BATCH, TABLES * LOOKUPS)},
                 {"clicks", TDM_FLOAT32, tdm_shape_of(2, BATCH, 1)}},
      .input_count = 3,
      .forward_flops = first + linear + interaction,
      .step_flops = 2 * first + 3 * linear + 3 * interaction,
  };
  expect_forecasts(&recommender);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_convolutional_network_is_forecast),
      cmocka_unit_test(a_block_of_a_transformer_is_forecast),
      cmocka_unit_test(the_recommender_is_forecast),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
