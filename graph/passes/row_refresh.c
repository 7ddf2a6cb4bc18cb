/* Refreshing copies of tables row by row: before anything else, the rows that each of the latest
 * updates has touched are taken from the table at its home, cross, and are put into the copy, under
 * the condition that the copy lacks them. Only their home's compute queue reads the logs, which it
 * also writes: it keeps the order of runs. Rows move as they are now, so moving one that was not
 * touched, or twice, is harmless. Invariant: a copy that is older than the logs reach, or whose
 * rows are many, is copied as a whole by the transfer pass. */
#include <string.h>

#include "graph/passes/passes.h"

#define HOST 0 /* cpu:0 is the context's first device */

typedef struct row_state {
  tdm_graph *graph;
  const uint64_t *windows; /* per persistent */
  size_t device_count;
  bool *readers; /* (persistents, devices): the device reads a copy of it */
} row_state;

/* The devices that a copy of the table has to be on for device to have one. */
static void add_reader(const row_state *state, uint32_t persistent, int16_t home, int16_t device) {
  tdm_context *context = state->graph->context;
  bool *readers = state->readers + persistent * state->device_count;
  readers[device] = true;
  if (tdm_route(tdm_context_device(context, (size_t)home),
                tdm_context_device(context, (size_t)device)) == NULL)
    readers[HOST] = true;
}

static bool find_readers(const row_state *state) {
  const tdm_graph *graph = state->graph;
  bool any = false;
  for (size_t i = 0; i < graph->order.count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(graph, graph->order.items[i]);
    const uint32_t *inputs = tdm_ir_inputs(graph, node);
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
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->row_conditions, 1));
  graph->row_conditions.items[graph->row_conditions.count++] = condition;
  *out_condition = (uint32_t)graph->row_conditions.count;
  return TDM_OK;
}

/* Appends one node on device; its output's index by out_value. */
static tdm_status append(tdm_graph *graph, const tdm_operation *operation, int16_t device,
                         const uint32_t *inputs, size_t count, uint32_t condition,
                         uint32_t *out_value) {
  tdm_value operands[3];
  for (size_t i = 0; i < count; i++)
    operands[i] = tdm_ir_handle(graph, inputs[i]);
  graph->append_device = device;
  const tdm_value made =
      tdm_append(graph, operation, graph->append_name, NULL, operands, count, NULL);
  TDM_TRY(tdm_graph_status(graph));
  tdm_ir_node_at(graph, tdm_ir_value_at(graph, made.index)->producer)->condition = condition;
  *out_value = made.index;
  return TDM_OK;
}

/* The rows of one update, taken once and put into every copy. */
static tdm_status refresh_rows(const row_state *state, uint32_t persistent, int32_t age) {
  tdm_graph *graph = state->graph;
  const uint32_t table = graph->persistents.items[persistent].value;
  const int16_t home = tdm_ir_value_at(graph, table)->device;
  const uint32_t log = tdm_ir_add_log(graph, persistent, age, (int64_t)state->windows[persistent]);
  if (!log) return TDM_OUT_OF_MEMORY;
  uint32_t condition;
  uint32_t rows;
  uint32_t ignored;
  TDM_TRY(add_condition(graph, (tdm_row_condition){persistent, TDM_NO_DEVICE, age}, &condition));
  TDM_TRY(
      append(graph, &tdm_operation_take_rows, home, (uint32_t[]){table, log}, 2, condition, &rows));
  for (size_t d = 0; d < state->device_count; d++) {
    if (!state->readers[persistent * state->device_count + d]) continue;
    const int16_t device = (int16_t)d;
    TDM_TRY(add_condition(graph, (tdm_row_condition){persistent, device, age}, &condition));
    TDM_TRY(append(graph, &tdm_operation_put_rows, device, (uint32_t[]){table, rows, rows + 1}, 3,
                   condition, &ignored));
  }
  return TDM_OK;
}

/* As many updates as together touch at most half of the table. */
static int32_t ages_of(const row_state *state, uint32_t persistent) {
  const tdm_graph *graph = state->graph;
  const uint32_t table = graph->persistents.items[persistent].value;
  const uint64_t rows = (uint64_t)graph->values.items[table].spec.shape.dims[0];
  const uint64_t ages = rows / (2 * state->windows[persistent]);
  return ages < TDM_LOGGED_VERSIONS ? (int32_t)ages : TDM_LOGGED_VERSIONS;
}

static tdm_status append_refreshes(const row_state *state) {
  tdm_graph *graph = state->graph;
  const size_t persistent_count = graph->persistents.count;
  graph->append_role = TDM_ROLE_REFRESH;
  for (uint32_t p = 0; p < persistent_count; p++) {
    if (memchr(state->readers + p * state->device_count, true, state->device_count) == NULL)
      continue;
    graph->append_name = graph->persistents.items[p].name;
    const int32_t ages = ages_of(state, p);
    for (int32_t age = 0; age < ages; age++)
      TDM_TRY(refresh_rows(state, p, age));
  }
  return TDM_OK;
}

/* Brings the nodes from position `first` on before all others. */
static tdm_status move_to_front(tdm_graph *graph, size_t first) {
  const size_t added = graph->order.count - first;
  const size_t bytes = (added + 1) * sizeof(uint32_t);
  uint32_t *nodes = tdm_allocate(graph->allocator, bytes, "refreshes");
  if (!nodes) return TDM_OUT_OF_MEMORY;
  memcpy(nodes, graph->order.items + first, added * sizeof(uint32_t));
  memmove(graph->order.items + added, graph->order.items, first * sizeof(uint32_t));
  memcpy(graph->order.items, nodes, added * sizeof(uint32_t));
  tdm_release(graph->allocator, nodes, bytes);
  return TDM_OK;
}

tdm_status tdm_pass_row_refresh(tdm_graph *graph, const uint64_t *windows) {
  row_state state = {
      .graph = graph, .windows = windows, .device_count = tdm_device_count(graph->context)};
  const size_t bytes = (graph->persistents.count + 1) * state.device_count;
  state.readers = tdm_allocate(graph->allocator, bytes, "refreshes");
  if (!state.readers) return TDM_OUT_OF_MEMORY;
  tdm_status status = TDM_OK;
  const size_t first = graph->order.count;
  if (find_readers(&state)) {
    status = append_refreshes(&state);
    if (status == TDM_OK) status = move_to_front(graph, first);
  }
  tdm_release(graph->allocator, state.readers, bytes);
  graph->append_device = TDM_NO_DEVICE;
  graph->append_role = TDM_ROLE_FORWARD;
  return status;
}
