/* Measures the time of planning for each node of the final graph: all passes of a training plan
 * with verify, and the preparation of kernels separately. Before that it measures the time of
 * describing a layer with the initial values of its parameters, for 100 times as many layers too.
 * It is the only benchmark that uses internals of graph/. */
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
    (void)snprintf(name, sizeof name, "l%lld", (long long)i);
    tdm_place(graph, tdm_device_name_at(context, (size_t)(i / STRETCH) % device_count));
    x = tdm_linear(graph, name, x, WIDTH);
  }
  const tdm_optimizer sgd = tdm_sgd(0.01);
  tdm_session_options options = tdm_session_options_default();
  options.loss = tdm_mse(graph, "loss", x, y);
  options.optimizer = &sgd;
  options.plan_limit = 1;
  return tdm_session_create(graph, &options);
}

typedef struct planned {
  size_t nodes;     /* number of nodes of the final graph */
  double passes_ns; /* time of the passes per node, in ns */
  double whole_ns;  /* time of tdm_session_prepare per node, in ns, including the preparation of
                     * kernels */
} planned;

/* Plans for `rows` rows. */
static tdm_status plan_once(tdm_session *session, int64_t rows, planned *out_planned) {
  tdm_context *context = tdm_graph_context(session->graph);
  const tdm_shape shape = tdm_shape_of(2, rows, WIDTH);
  tdm_tensor *zeros = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, shape);
  if (!zeros) return TDM_OUT_OF_MEMORY;
  const tdm_feed feeds[] = {{"x", zeros, false}, {"y", zeros, false}};
  const uint64_t began_ns = bench_now_ns();
  const tdm_status status = tdm_session_prepare(session, feeds, 2, NULL, 0, true);
  const double took_ns = (double)(bench_now_ns() - began_ns);
  tdm_tensor_release(zeros);
  if (status != TDM_OK) return status;
  const size_t nodes = session->last_asked->graph.order.count;
  *out_planned = (planned){nodes, (double)session->last_asked->made_ns / (double)nodes,
                           took_ns / (double)nodes};
  return TDM_OK;
}

/* The first plan does not count. */
static tdm_status plan_often(tdm_session *session, size_t device_count,
                             const overhead_listener *to) {
  double passes[PLANS];
  double whole[PLANS];
  planned last;
  TDM_TRY(plan_once(session, 1, &last));
  for (int i = 0; i < PLANS; i++) {
    TDM_TRY(plan_once(session, i + 2, &last));
    passes[i] = last.passes_ns;
    whole[i] = last.whole_ns;
  }
  char row[96];
  (void)snprintf(row, sizeof row, "planning a node, %zu devices, %zu nodes", device_count,
                 last.nodes);
  to->row(to->user, row, bench_median(passes, PLANS));
  (void)snprintf(row, sizeof row, "with kernels, %zu devices, %zu nodes", device_count, last.nodes);
  to->row(to->user, row, bench_median(whole, PLANS));
  return TDM_OK;
}

static tdm_status row_of(int cpu_devices, int sim_devices, int64_t layer_count,
                         const overhead_listener *to) {
  tdm_context_options wanted = tdm_context_options_default();
  wanted.cpu_devices = cpu_devices;
  wanted.sim_devices = sim_devices;
  tdm_context *context = tdm_context_create(&wanted);
  if (!context) return TDM_UNAVAILABLE;
  const size_t device_count = (size_t)cpu_devices + (size_t)sim_devices;
  char what[96];
  (void)snprintf(what, sizeof what, "planning %lld layers, %zu devices", (long long)layer_count,
                 device_count);
  to->begins(to->user, what);
  const uint64_t began_ns = bench_now_ns();
  tdm_graph *graph = tdm_graph_create(context);
  tdm_session *session = make_deep(graph, layer_count, device_count);
  const double made_ns = (double)(bench_now_ns() - began_ns);
  (void)snprintf(what, sizeof what, "creating a layer, %zu devices, %lld layers", device_count,
                 (long long)layer_count);
  if (session) to->row(to->user, what, made_ns / (double)layer_count);
  const tdm_status status = session ? plan_often(session, device_count, to) : TDM_INVALID_ARGUMENT;
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return status;
}

tdm_status rows_of_planning(const overhead_listener *to, int64_t layers) {
  const int64_t layer_counts[] = {layers / 100, layers};
  for (size_t i = 0; i < sizeof layer_counts / sizeof *layer_counts; i++) {
    TDM_TRY(row_of(1, 1, layer_counts[i], to));
    TDM_TRY(row_of(2, 2, layer_counts[i], to));
  }
  return TDM_OK;
}
