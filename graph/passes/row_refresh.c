/* Refreshes copies of tables row by row, before anything else in the run. The rows that each of the
 * latest updates changed are read from the table on its home, sent, and written into the copy, if
 * the copy lacks them. Only the home's compute queue reads and writes the logs, so the order of
 * runs is kept. Rows are sent with their present contents, so sending an unchanged row, or a row
 * twice, is harmless. Invariant: a copy that is older than the logs, or of which many rows changed,
 * is copied as a whole by the transfer pass. */
#include <string.h>

#include "devices/context/route.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

typedef struct row_state {
  tdm_graph *graph;
  const uint64_t *windows; /* per persistent value */
  size_t device_count;
  tdm_ir_node *first; /* first of the original nodes */
  bool *readers;      /* (persistents, devices): the device reads a copy of it */
} row_state;

/* Adds device and the devices through which a copy of the table reaches it. */
static void add_reader(const row_state *state, uint32_t persistent, int16_t home, int16_t device) {
  tdm_context *context = state->graph->context;
  bool *readers = state->readers + persistent * state->device_count;
  const tdm_route route = tdm_route_between(tdm_context_device(context, (size_t)home),
                                            tdm_context_device(context, (size_t)device));
  for (uint32_t i = 0; i < route.count; i++)
    readers[route.hops[i].to->context_index] = true;
}

static bool find_readers(const row_state *state) {
  const tdm_graph *graph = state->graph;
  bool any = false;
  TDM_EACH_NODE(graph, node) {
    const uint32_t *inputs = node->inputs;
    for (uint32_t k = 0; k < node->input_count; k++) {
      const tdm_ir_value *value = tdm_ir_value_at(graph, inputs[k]);
      if (value->kind != TDM_VALUE_PERSISTENT || value->device == node->device) continue;
      if (!state->windows[value->binding]) continue;
      add_reader(state, value->binding, value->device, node->device);
      any = true;
    }
  }
  return any;
}

static tdm_status add_condition(tdm_graph *graph, tdm_row_condition condition,
                                uint32_t *out_condition) {
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->planned->row_conditions, 1));
  graph->planned->row_conditions.items[graph->planned->row_conditions.count++] = condition;
  *out_condition = (uint32_t)graph->planned->row_conditions.count;
  return TDM_OK;
}

/* Inserts one node before all original ones. Returns its first output. */
static uint32_t insert(const row_state *state, const tdm_operation *operation, uint32_t persistent,
                       int16_t device, const uint32_t *inputs, size_t count, uint32_t condition) {
  tdm_graph *graph = state->graph;
  const tdm_insertion at = {.before = state->first,
                            .name = graph->persistents.items[persistent].name,
                            .device = device,
                            .role = TDM_ROLE_REFRESH};
  const uint32_t made = tdm_insert(graph, &at, operation, NULL, inputs, count);
  if (made) tdm_producer(graph, made)->condition = condition;
  return made;
}

/* Reads the rows of one update once and writes them into each copy. */
static tdm_status refresh_rows(const row_state *state, uint32_t persistent, int32_t age) {
  tdm_graph *graph = state->graph;
  const uint32_t table = graph->persistents.items[persistent].value;
  const int16_t home = tdm_ir_value_at(graph, table)->device;
  const uint32_t log = tdm_ir_add_log(graph, persistent, age, (int64_t)state->windows[persistent]);
  if (!log) return TDM_OUT_OF_MEMORY;
  uint32_t condition;
  TDM_TRY(add_condition(graph, (tdm_row_condition){persistent, TDM_NO_DEVICE, age}, &condition));
  const uint32_t rows = insert(state, &tdm_operation_take_rows, persistent, home,
                               (uint32_t[]){table, log}, 2, condition);
  for (size_t d = 0; d < state->device_count; d++) {
    if (!state->readers[persistent * state->device_count + d]) continue;
    const int16_t device = (int16_t)d;
    TDM_TRY(add_condition(graph, (tdm_row_condition){persistent, device, age}, &condition));
    (void)insert(state, &tdm_operation_put_rows, persistent, device,
                 (uint32_t[]){table, rows, rows + 1}, 3, condition);
  }
  return tdm_graph_status(graph);
}

/* Returns the number of updates that together change at most half of the table. */
static int32_t ages_of(const row_state *state, uint32_t persistent) {
  const tdm_graph *graph = state->graph;
  const uint32_t table = graph->persistents.items[persistent].value;
  const uint64_t rows = (uint64_t)tdm_ir_value_at(graph, table)->spec->shape.dims[0];
  const uint64_t ages = rows / (2 * state->windows[persistent]);
  return ages < TDM_LOGGED_VERSIONS ? (int32_t)ages : TDM_LOGGED_VERSIONS;
}

static tdm_status append_refreshes(const row_state *state) {
  tdm_graph *graph = state->graph;
  const size_t persistent_count = graph->persistents.count;
  for (uint32_t p = 0; p < persistent_count; p++) {
    if (!memchr(state->readers + p * state->device_count, true, state->device_count)) continue;
    const int32_t ages = ages_of(state, p);
    for (int32_t age = 0; age < ages; age++)
      TDM_TRY(refresh_rows(state, p, age));
  }
  return TDM_OK;
}

static bool has_window(const tdm_graph *graph, const uint64_t *windows) {
  for (size_t p = 0; p < graph->persistents.count; p++)
    if (windows[p]) return true;
  return false;
}

tdm_status tdm_pass_row_refresh(tdm_graph *graph, const uint64_t *windows) {
  if (!has_window(graph, windows)) return TDM_OK;
  row_state state = {.graph = graph,
                     .first = graph->order.first,
                     .windows = windows,
                     .device_count = tdm_device_count(graph->context)};
  const size_t bytes = (graph->persistents.count + 1) * state.device_count;
  state.readers = tdm_allocate(graph->allocator, bytes, "refreshes");
  if (!state.readers) return TDM_OUT_OF_MEMORY;
  tdm_status status = TDM_OK;
  if (find_readers(&state)) status = append_refreshes(&state);
  tdm_release(graph->allocator, state.readers, bytes);
  return status;
}
