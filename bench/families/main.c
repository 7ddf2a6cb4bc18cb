/* Measures each family of kernels on one device, forward only. Prints the device's time of the
 * layer under test, and the necessary bytes and operations. Also measures a run that computes
 * almost nothing. Rows are one JSON object: {"relu": {"us", "bytes", "flops"}}. Inputs are fed, and
 * their upload is not counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/help.h"
#include "bench/timing.h"
#include "graph/report/explain.h"
#include "graph/run/session.h"

enum { ROUNDS = 12, TEXT = 32 };
#define TIMED "timed" /* the layer under test */

typedef struct sizes {
  int64_t a, b, c, d;
} sizes;

typedef struct row {
  const char *family;
  const char *name;
  tdm_value (*build)(tdm_graph *graph, sizes n);
  sizes full;
  sizes small; /* sizes for a rehearsal */
  double (*bytes)(sizes n);
  double (*flops)(sizes n);
} row;

static tdm_value fed(tdm_graph *graph, const char *name, tdm_shape shape) {
  return tdm_input(graph, name, TDM_FLOAT32, shape);
}

static tdm_value matrix(tdm_graph *graph, const char *name, sizes n) {
  return fed(graph, name, tdm_shape_of(2, n.a, n.b));
}

static tdm_value images(tdm_graph *graph, sizes n) {
  return fed(graph, "x", tdm_shape_of(4, n.a, n.b, n.c, n.d));
}

/* ---- Families -------------------------------------------------------------------------------- */

static tdm_value relu(tdm_graph *graph, sizes n) {
  return tdm_relu(graph, TIMED, matrix(graph, "x", n));
}

static tdm_value gelu(tdm_graph *graph, sizes n) {
  return tdm_gelu(graph, TIMED, matrix(graph, "x", n));
}

static tdm_value add(tdm_graph *graph, sizes n) {
  return tdm_add(graph, TIMED, matrix(graph, "x", n), matrix(graph, "y", n));
}

static tdm_value linear(tdm_graph *graph, sizes n) {
  return tdm_linear_without_bias(graph, TIMED, matrix(graph, "x", n), n.c);
}

static tdm_value batched(tdm_graph *graph, sizes n) {
  return tdm_matmul(graph, TIMED, fed(graph, "x", tdm_shape_of(3, n.a, n.b, n.c)),
                    fed(graph, "y", tdm_shape_of(3, n.a, n.c, n.d)));
}

static tdm_value convolution(tdm_graph *graph, sizes n) {
  tdm_conv_options options = tdm_conv_options_default();
  options.padding[0] = options.padding[1] = 1;
  return tdm_conv2d(graph, TIMED, images(graph, n), n.b, 3, 3, &options);
}

static tdm_value attention(tdm_graph *graph, sizes n) {
  const tdm_shape shape = tdm_shape_of(3, n.a * n.b, n.c, n.d); /* batch and heads are one */
  return tdm_attention(graph, TIMED, fed(graph, "q", shape), fed(graph, "k", shape),
                       fed(graph, "v", shape), NULL);
}

static tdm_value layer_norm(tdm_graph *graph, sizes n) {
  return tdm_layer_norm(graph, TIMED, matrix(graph, "x", n), 1);
}

static tdm_value batch_norm(tdm_graph *graph, sizes n) {
  return tdm_batch_norm(graph, TIMED, images(graph, n));
}

static tdm_value softmax(tdm_graph *graph, sizes n) {
  return tdm_softmax(graph, TIMED, matrix(graph, "x", n), 1);
}

static tdm_value sum(tdm_graph *graph, sizes n) {
  const int last = 1;
  return tdm_sum(graph, TIMED, matrix(graph, "x", n), &last, 1, false);
}

/* Bytes to read and write, each counted once. */
static double bytes_of_two(sizes n) {
  return 8.0 * (double)(n.a * n.b);
}
static double bytes_of_three(sizes n) {
  return 12.0 * (double)(n.a * n.b);
}
static double bytes_of_sum(sizes n) {
  return 4.0 * (double)(n.a * n.b + n.a);
}
static double bytes_of_linear(sizes n) {
  return 4.0 * (double)(n.a * n.b + n.b * n.c + n.a * n.c);
}
static double bytes_of_batched(sizes n) {
  return 4.0 * (double)(n.a * (n.b * n.c + n.c * n.d + n.b * n.d));
}
static double bytes_of_images(sizes n) {
  return 8.0 * (double)(n.a * n.b * n.c * n.d);
}
static double bytes_of_attention(sizes n) {
  return 16.0 * (double)(n.a * n.b * n.c * n.d);
}

static double no_flops(sizes n) {
  (void)n;
  return 0;
}
static double flops_of_linear(sizes n) {
  return 2.0 * (double)n.a * (double)n.b * (double)n.c;
}
static double flops_of_batched(sizes n) {
  return 2.0 * (double)n.a * (double)n.b * (double)n.c * (double)n.d;
}
static double flops_of_convolution(sizes n) {
  return 18.0 * (double)(n.a * n.b * n.c * n.d) * (double)n.b;
}
static double flops_of_attention(sizes n) {
  return 4.0 * (double)(n.a * n.b * n.c * n.d) * (double)n.c;
}

static const row rows[] = {
    {"elementwise", "relu", relu, {8192, 4096, 1, 1}, {16, 33, 1, 1}, bytes_of_two, no_flops},
    {"elementwise", "gelu", gelu, {8192, 4096, 1, 1}, {16, 33, 1, 1}, bytes_of_two, no_flops},
    {"elementwise", "add", add, {8192, 4096, 1, 1}, {16, 33, 1, 1}, bytes_of_three, no_flops},
    {"matmul",
     "linear",
     linear,
     {4096, 4096, 4096, 1},
     {16, 8, 8, 1},
     bytes_of_linear,
     flops_of_linear},
    {"batched",
     "matmul",
     batched,
     {64, 512, 512, 512},
     {2, 8, 8, 8},
     bytes_of_batched,
     flops_of_batched},
    {"convolution",
     "conv2d",
     convolution,
     {32, 64, 56, 56},
     {2, 4, 8, 8},
     bytes_of_images,
     flops_of_convolution},
    {"attention",
     "attention",
     attention,
     {8, 12, 512, 64},
     {1, 2, 16, 8},
     bytes_of_attention,
     flops_of_attention},
    {"norms", "layer_norm", layer_norm, {8192, 1024, 1, 1}, {16, 33, 1, 1}, bytes_of_two, no_flops},
    {"norms", "batch_norm", batch_norm, {64, 64, 56, 56}, {2, 4, 8, 8}, bytes_of_images, no_flops},
    {"softmax", "softmax", softmax, {8192, 4096, 1, 1}, {16, 33, 1, 1}, bytes_of_two, no_flops},
    {"reductions", "sum", sum, {8192, 4096, 1, 1}, {16, 33, 1, 1}, bytes_of_sum, no_flops},
};

/* ---- Measuring ------------------------------------------------------------------------------- */

typedef struct subject {
  tdm_session *session;
  tdm_feed feeds[4];
  size_t feed_count;
} subject;

static void feed_all(subject *made, tdm_context *context, const tdm_graph *graph) {
  for (size_t i = 0; i < graph->inputs.count; i++) {
    const tdm_ir_value *value = tdm_ir_value_at(graph, graph->inputs.items[i]);
    const size_t count = (size_t)tdm_shape_count(&value->spec->shape);
    float *values = malloc(count * sizeof *values);
    if (!values) bench_fail("inputs");
    for (size_t k = 0; k < count; k++)
      values[k] = (float)(k * 2654435761u % 1000) / 500 - 1;
    static const char *const names[] = {"x", "y", "q", "k", "v"};
    const char *name = graph->inputs.count == 3 ? names[2 + i] : names[i];
    tdm_tensor *tensor = tdm_tensor_from(context, TDM_FLOAT32, value->spec->shape, values);
    free(values);
    if (!tensor) bench_fail(name);
    made->feeds[made->feed_count++] = (tdm_feed){name, tensor, false};
  }
}

/* Returns the time of the plan's steps of the layer under test. */
static double timed_ns(const tdm_plan *plan) {
  double sum = 0;
  for (size_t i = 0; i < plan->lowered.schedule.step_count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[i].node);
    if (!node->operation || strncmp(node->name, TIMED, strlen(TIMED)) != 0) continue;
    const double ns = tdm_explain_measured_ns(plan, i);
    if (ns > 0) sum += ns;
  }
  return sum;
}

static void measure(const row *measured, tdm_context *context, const char *device, bool is_small,
                    bool is_first) {
  const sizes n = is_small ? measured->small : measured->full;
  char map[TEXT];
  (void)snprintf(map, sizeof map, "*=%s", device);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value out = tdm_mean(graph, "mean", measured->build(graph, n), NULL, 0, false);
  tdm_output(graph, "mean", out);
  tdm_session_options options = tdm_session_options_default();
  options.device_map = map;
  options.profile = true;
  options.unfused = true;
  subject made = {.session = tdm_session_create(graph, &options)};
  if (!made.session) bench_fail(measured->name);
  feed_all(&made, context, graph);
  for (int i = 0; i < ROUNDS; i++) {
    tdm_fetch fetch = {.name = "mean"};
    bench_check(tdm_run(made.session, made.feeds, made.feed_count, &fetch, 1), measured->name);
    tdm_tensor_release(fetch.tensor);
  }
  const double ns = timed_ns(made.session->last_asked);
  if (ns <= 0) bench_fail("no step of the layer under test was timed");
  printf("%s\"%s\": {\"us\": %.3f, \"bytes\": %.0f, \"flops\": %.0f}", is_first ? "" : ", ",
         measured->name, ns / 1000, measured->bytes(n), measured->flops(n));
  for (size_t i = 0; i < made.feed_count; i++)
    tdm_tensor_release(made.feeds[i].tensor);
  tdm_session_release(made.session);
  tdm_graph_release(graph);
}

/* ---- What a run costs ------------------------------------------------------------------------ */

static void run_once(void *user) {
  const subject *made = user;
  tdm_fetch fetch = {.name = "y"};
  bench_check(tdm_run(made->session, made->feeds, 1, &fetch, 1), "a run");
  tdm_tensor_release(fetch.tensor);
}

static void step_once(void *user) {
  const subject *made = user;
  bench_check(tdm_train_step(made->session, made->feeds, 1, NULL, 0, NULL), "a step");
}

/* Measures a linear layer of one row of eight numbers: forward, backward, and trained. */
static void measure_overhead(tdm_context *context, const char *device) {
  char map[TEXT];
  (void)snprintf(map, sizeof map, "*=%s", device);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = fed(graph, "x", tdm_shape_of(2, 1, 8));
  const tdm_value y = tdm_linear(graph, "linear", x, 8);
  tdm_output(graph, "y", y);
  const tdm_optimizer sgd = tdm_sgd(0.01);
  tdm_session_options options = tdm_session_options_default();
  options.loss = tdm_mean(graph, "loss", y, NULL, 0, false);
  options.optimizer = &sgd;
  options.device_map = map;
  subject made = {.session = tdm_session_create(graph, &options)};
  if (!made.session) bench_fail("overhead");
  feed_all(&made, context, graph);
  const double run_ns = bench_hot_ns(run_once, &made);
  const double step_ns = bench_hot_ns(step_once, &made);
  printf("\"run\": {\"us\": %.3f, \"bytes\": 0, \"flops\": 0}, ", run_ns / 1000);
  printf("\"step\": {\"us\": %.3f, \"bytes\": 0, \"flops\": 0}", step_ns / 1000);
  tdm_tensor_release(made.feeds[0].tensor);
  tdm_session_release(made.session);
  tdm_graph_release(graph);
}

int main(int count, char **words) {
  bench_help(count, words,
             "usage: families FAMILY [DEVICE [--small]]\n"
             "Times the kernels of one family, each by itself, on a device (cuda:0), or, as the\n"
             "family \"overhead\", a run that has hardly anything to compute; prints JSON.\n");
  const char *family = count > 1 ? words[1] : "";
  const char *device = count > 2 ? words[2] : "cuda:0";
  const bool is_small = count > 3 && strcmp(words[3], "--small") == 0;
  const bool is_overhead = strcmp(family, "overhead") == 0;
  size_t found = 0;
  for (size_t i = 0; i < TDM_COUNT_OF(rows); i++)
    found += strcmp(rows[i].family, family) == 0;
  if (found == 0 && !is_overhead) {
    fprintf(stderr, "families: FAMILY [DEVICE [--small]]; there is no family \"%s\"\n", family);
    return 2;
  }
  tdm_context *context = tdm_context_create(NULL);
  if (!context) bench_fail("context");
  putchar('{');
  bool is_first = true;
  for (size_t i = 0; i < TDM_COUNT_OF(rows); i++) {
    if (strcmp(rows[i].family, family) != 0) continue;
    measure(&rows[i], context, device, is_small, is_first);
    is_first = false;
  }
  if (is_overhead) measure_overhead(context, device);
  puts("}");
  tdm_context_release(context);
  return 0;
}
