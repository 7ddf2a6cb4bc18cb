/* What planning costs a node of the final graph: all passes of a training plan, verify included,
 * kernels' preparation apart. The one benchmark that looks inside graph/. */
#include <stdio.h>

#include "bench/overhead/rows.h"
#include "graph/run/session.h"

enum { WIDTH = 10, STRETCH = 10, PLANS = 9 };

/* Linear(10, 10) again and again; every ten layers the next device. */
static tdm_session *make_deep(tdm_graph *graph, int64_t layer_count, size_t device_count) {
  tdm_context *context = tdm_graph_context(graph);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), WIDTH);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, shape);
  for (int64_t i = 0; i < layer_count; i++) {
    char name[32];
    snprintf(name, sizeof name, "l%lld", (long long)i);
    tdm_place(graph, tdm_device_name_at(context, (size_t)(i / STRETCH) % device_count));
    x = tdm_linear(graph, name, x, WIDTH);
  }
  const tdm_optimizer sgd = tdm_sgd(0.01);
  const tdm_session_options options = {
      .struct_size = sizeof options,
      .loss = tdm_mse(graph, "loss", x, y),
      .optimizer = &sgd,
      .plan_limit = 1,
  };
  return tdm_session_create(graph, &options);
}

typedef struct planned {
  size_t nodes;     /* of the final graph */
  double passes_ns; /* a node */
  double whole_ns;  /* a node: tdm_session_prepare, kernels' preparation included */
} planned;

/* Plans for `rows` rows. */
static planned plan_once(tdm_session *session, int64_t rows) {
  tdm_context *context = tdm_graph_context(session->graph);
  const tdm_shape shape = tdm_shape_of(2, rows, WIDTH);
  tdm_tensor *zeros = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, shape);
  if (!zeros) bench_fail("planning");
  const tdm_feed feeds[] = {{"x", zeros, false}, {"y", zeros, false}};
  const uint64_t began_ns = bench_now_ns();
  bench_check(tdm_session_prepare(session, feeds, 2, NULL, 0, true), "planning");
  const double took_ns = (double)(bench_now_ns() - began_ns);
  tdm_tensor_release(zeros);
  const size_t nodes = session->last_asked->graph.order.count;
  return (planned){nodes, (double)session->last_asked->made_ns / (double)nodes,
                   took_ns / (double)nodes};
}

static void row_of(int cpu_devices, int sim_devices, int64_t layer_count) {
  const tdm_context_options wanted = {
      .struct_size = sizeof wanted, .cpu_devices = cpu_devices, .sim_devices = sim_devices};
  tdm_context *context = tdm_context_create(&wanted);
  if (!context) bench_fail("context");
  tdm_graph *graph = tdm_graph_create(context);
  const size_t device_count = (size_t)cpu_devices + (size_t)sim_devices;
  tdm_session *session = make_deep(graph, layer_count, device_count);
  if (!session) bench_fail("planning");
  double passes[PLANS];
  double whole[PLANS];
  planned last = plan_once(session, 1);
  for (int i = 0; i < PLANS; i++) {
    last = plan_once(session, i + 2);
    passes[i] = last.passes_ns;
    whole[i] = last.whole_ns;
  }
  char row[96];
  snprintf(row, sizeof row, "planning a node, %zu devices, %zu nodes", device_count, last.nodes);
  bench_print(row, bench_median(passes, PLANS));
  snprintf(row, sizeof row, "with kernels, %zu devices, %zu nodes", device_count, last.nodes);
  bench_print(row, bench_median(whole, PLANS));
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

void rows_of_planning(void) {
  static const int64_t layer_counts[] = {190, 19000}; /* about 1,000 and 100,000 nodes */
  for (size_t i = 0; i < sizeof layer_counts / sizeof *layer_counts; i++) {
    row_of(1, 1, layer_counts[i]);
    row_of(2, 2, layer_counts[i]);
  }
}
