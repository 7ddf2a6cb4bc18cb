/* The public functions for sharded tables: they select the tables and each device's rows.
 * Invariant: the shards of a table have consecutive rows, and together all of them; each shard has
 * at least one row. */
#include "graph/describe/shard.h"

#include <string.h>

#include "core/options.h"
#include "devices/tensors/chunks.h"
#include "graph/ir/records.h"

/* Which tables are sharded, and over which devices. */
typedef struct shard_request {
  const tdm_shard_options *options;
  tdm_device *devices[TDM_MAX_PARTS];
  size_t device_count;
  bool *tables; /* for each persistent value of the graph: true if it is selected */
} shard_request;

/* ---- Options --------------------------------------------------------------------------------- */

static tdm_status check_weights(const shard_request *request) {
  const double *weights = request->options->weights;
  double sum = 0;
  if (!weights) return TDM_OK;
  for (size_t i = 0; i < request->device_count; i++) {
    if (!(weights[i] >= 0 && weights[i] < 1e300))
      return tdm_fail(TDM_INVALID_ARGUMENT, "weight %g of %s is not possible", weights[i],
                      request->devices[i]->name);
    sum += weights[i];
  }
  return sum > 0 ? TDM_OK : tdm_fail(TDM_INVALID_ARGUMENT, "all weights are 0");
}

static tdm_status read_devices(const tdm_graph *graph, shard_request *request) {
  TDM_TRY(tdm_context_find_devices(graph->context, request->options->devices, TDM_MAX_PARTS,
                                   request->devices, &request->device_count));
  for (size_t i = 0; i < request->device_count; i++)
    for (size_t k = 0; k < i; k++)
      if (request->devices[i] == request->devices[k])
        return tdm_fail(TDM_INVALID_ARGUMENT, "%s is named twice", request->devices[i]->name);
  return check_weights(request);
}

/* ---- Which tables ---------------------------------------------------------------------------- */

static bool is_below(const char *path, const char *scope, size_t length) {
  return length == 0 ||
         (strncmp(path, scope, length) == 0 && (path[length] == '/' || path[length] == 0));
}

/* Marks the tables that look-ups below a scope read. Returns false if there are none. */
static bool mark_below(const tdm_graph *graph, const char *scope, size_t length, bool *tables) {
  bool any = false;
  TDM_EACH_NODE(graph, node) {
    if (!TDM_OPERATION_HAS(node->operation, look_up) || !node->operation->look_up) continue;
    if (!is_below(node->name, scope, length)) continue;
    const tdm_ir_value *table = tdm_ir_value_at(graph, node->inputs[0]);
    if (table->kind != TDM_VALUE_PERSISTENT) continue;
    tables[table->binding] = true;
    any = true;
  }
  return any;
}

static tdm_status find_tables(const tdm_graph *graph, const char *scopes, bool *tables) {
  for (const char *at = scopes;;) {
    const size_t length = strcspn(at, ",");
    if (!mark_below(graph, at, length, tables) || (length == 0 && *scopes))
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "nothing that looks up a table has been built below \"%.*s\"", (int)length,
                      at);
    if (at[length] == 0) break;
    at += length + 1;
  }
  for (size_t i = 0; i < graph->shardings.count; i++) {
    const tdm_ir_value *table = tdm_ir_value_at(graph, graph->shardings.items[i].table);
    if (tables[table->binding])
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s is sharded already", table->name);
  }
  return TDM_OK;
}

/* ---- Sharding one ---------------------------------------------------------------------------- */

/* Declares the parameter for rows first <= row < first + rows of the table. Returns 0 if memory is
 * exhausted. */
static uint32_t add_shard(tdm_graph *graph, uint32_t table, const char *name, tdm_table_shard shard,
                          int64_t rows) {
  tdm_ir_value value = *tdm_ir_value_at(graph, table);
  tdm_graph_persistent persistent = graph->persistents.items[value.binding];
  if (TDM_ARRAY_RESERVE(graph, &graph->persistents, 1) != TDM_OK) return 0;
  tdm_spec spec = *value.spec;
  spec.shape.dims[0] = rows;
  value.spec = tdm_ir_share_spec(graph, &spec);
  value.name = name;
  value.binding = (uint32_t)graph->persistents.count;
  const uint32_t index = tdm_ir_add_value(graph, &value);
  if (!index) return 0;
  persistent.name = name;
  persistent.value = index;
  persistent.shard = shard;
  graph->persistents.items[graph->persistents.count++] = persistent;
  return index;
}

tdm_status tdm_add_sharding(tdm_graph *graph, uint32_t table, size_t count, const int64_t *sizes,
                            tdm_device *const *devices, bool is_gathered) {
  const char *table_name = tdm_ir_value_at(graph, table)->name;
  const int64_t table_rows = tdm_ir_value_at(graph, table)->spec->shape.dims[0];
  uint32_t *shards = tdm_region_take(&graph->region, count * sizeof *shards, "sharded table");
  const int64_t *rows = tdm_ir_copy_bytes(graph, sizes, count * sizeof *sizes);
  const char *first_name = NULL;
  if (!shards || !rows) return TDM_OUT_OF_MEMORY;
  int64_t first = 0;
  for (size_t k = 0; k < count; k++) {
    const tdm_table_shard shard = {table_name, first, table_rows, (uint16_t)k, (uint16_t)count};
    const char *name = tdm_region_format(&graph->region, "%s[%lld:%lld]", table_name,
                                         (long long)first, (long long)(first + rows[k]));
    if (!name) return TDM_OUT_OF_MEMORY;
    if (k == 0) first_name = name;
    shards[k] = k == 0 ? table : add_shard(graph, table, name, shard, rows[k]);
    if (!shards[k]) return TDM_OUT_OF_MEMORY;
    tdm_ir_value_at(graph, shards[k])->device = (int16_t)devices[k]->context_index;
    first += rows[k];
  }
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->shardings, 1));
  graph->shardings.items[graph->shardings.count++] =
      (tdm_sharding){table, (uint16_t)count, shards, rows, first_name, is_gathered};
  return TDM_OK;
}

/* ---- Sharing out ----------------------------------------------------------------------------- */

static tdm_status shard_rows(tdm_graph *graph, const shard_request *request, uint32_t table) {
  const int64_t rows = tdm_ir_value_at(graph, table)->spec->shape.dims[0];
  int64_t sizes[TDM_MAX_PARTS] = {0};
  tdm_device *devices[TDM_MAX_PARTS] = {request->devices[0]};
  size_t count = 0;
  tdm_chunk_sizes(rows, request->device_count, request->options->weights, sizes);
  for (size_t i = 0; i < request->device_count; i++) {
    if (sizes[i] == 0) continue;
    devices[count] = request->devices[i];
    sizes[count++] = sizes[i];
  }
  return tdm_add_sharding(graph, table, count > 0 ? count : 1, sizes, devices, false);
}

static tdm_status shard_all_rows(tdm_graph *graph, const shard_request *request, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (request->tables[i]) TDM_TRY(shard_rows(graph, request, graph->persistents.items[i].value));
  return TDM_OK;
}

/* Returns the device with the least load for its weight after it receives the table. */
static size_t least_loaded(const shard_request *request, const double *loads, double bytes) {
  const double *weights = request->options->weights;
  size_t found = 0;
  double least = -1;
  for (size_t i = 0; i < request->device_count; i++) {
    const double weight = weights ? weights[i] : 1;
    if (weight == 0) continue;
    const double load = (loads[i] + bytes) / weight;
    if (least >= 0 && load >= least) continue;
    least = load;
    found = i;
  }
  return found;
}

/* Assigns whole tables, the largest first, each to the least loaded device. */
static tdm_status shard_tables(tdm_graph *graph, const shard_request *request, size_t count) {
  double loads[TDM_MAX_PARTS] = {0};
  for (;;) {
    const tdm_ir_value *largest = NULL;
    uint32_t table = 0;
    for (size_t i = 0; i < count; i++) {
      const tdm_ir_value *value = tdm_ir_value_at(graph, graph->persistents.items[i].value);
      if (!request->tables[i] || (largest && value->bytes <= largest->bytes)) continue;
      largest = value;
      table = graph->persistents.items[i].value;
    }
    if (!largest) return TDM_OK;
    request->tables[largest->binding] = false;
    const size_t device = least_loaded(request, loads, (double)largest->bytes);
    loads[device] += (double)largest->bytes;
    TDM_TRY(tdm_add_sharding(graph, table, 1, &largest->spec->shape.dims[0],
                             &request->devices[device], false));
  }
}

static tdm_status shard_marked(tdm_graph *graph, const char *scopes, shard_request *request,
                               size_t count) {
  TDM_TRY(read_devices(graph, request));
  TDM_TRY(find_tables(graph, scopes, request->tables));
  switch (request->options->by) {
  case TDM_SHARD_ROWS:
    return shard_all_rows(graph, request, count);
  case TDM_SHARD_TABLES:
    return shard_tables(graph, request, count);
  }
  return tdm_fail(TDM_INVALID_ARGUMENT, "there is no way %d of sharding",
                  (int)request->options->by);
}

static tdm_status shard(tdm_graph *graph, const char *scopes, const tdm_shard_options *options) {
  if (!scopes || !options) return tdm_fail(TDM_INVALID_ARGUMENT, "no scopes or no options");
  tdm_shard_options read;
  TDM_TRY(TDM_OPTIONS_READ("tdm_shard", shard, options, &read));
  const size_t count = graph->persistents.count;
  shard_request request = {.options = &read};
  request.tables = tdm_allocate(graph->allocator, count + 1, "sharded tables");
  if (!request.tables) return TDM_OUT_OF_MEMORY;
  const tdm_status status = shard_marked(graph, scopes, &request, count);
  tdm_release(graph->allocator, request.tables, count + 1);
  return status;
}

void tdm_shard(tdm_graph *graph, const char *scopes, const tdm_shard_options *options) {
  if (!tdm_graph_describes(graph, "tdm_shard")) return;
  const tdm_status status = shard(graph, scopes, options);
  if (status == TDM_OK) return;
  tdm_fail_within(status, "sharding %s", !scopes ? "nothing" : *scopes ? scopes : "all tables");
  tdm_graph_fail_message(graph, status);
}
