/* Look-ups of sharded tables, and parameters in pieces. Invariants: each row comes from the shard
 * that contains it and is selected by its place among all rows gathered, so no number changes. The
 * looking-up node itself reads the gathered rows, in the order of its ids. A reader of a parameter
 * in pieces reads all of it. */
#include <string.h>

#include "graph/ir/records.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/parts.h"
#include "graph/sharding/sharding.h"

/* One look-up in one table. */
typedef struct look_up {
  tdm_graph *graph;
  const tdm_sharding *sharding;
  tdm_ir_node *node;
  const tdm_look_up *rules;
  tdm_embedding_attributes table; /* the common first fields of the node's attributes */
  int64_t count;                  /* number of ids; negative: unknown */
} look_up;

static tdm_insertion insertion_on(const look_up *self, int16_t device) {
  const tdm_ir_node *node = self->node;
  return (tdm_insertion){.before = self->node,
                         .name = node->name,
                         .device = device,
                         .part = node->part,
                         .role = node->role};
}

static int16_t home_of(const look_up *self, size_t shard) {
  return tdm_ir_value_at(self->graph, self->sharding->shards[shard])->device;
}

/* Returns the rows that a shard contributes, on its device; 0 on failure. */
static uint32_t answer(const look_up *self, size_t shard, int64_t first) {
  const int64_t rows = self->sharding->rows[shard];
  const tdm_insertion at = insertion_on(self, home_of(self, shard));
  const tdm_shard_ids_attributes ids = {.table_rows = self->table.rows,
                                        .first = first,
                                        .rows = rows,
                                        .padding_index = self->table.padding_index};
  const tdm_embedding_attributes with_padding = {.rows = rows + 1, .padding_index = rows};
  const uint32_t taken =
      tdm_insert(self->graph, &at, &tdm_operation_shard_ids, &ids, &self->node->inputs[1], 1);
  if (!taken) return 0;
  const uint32_t operands[] = {self->sharding->shards[shard], taken, taken + 1};
  return tdm_insert(self->graph, &at, self->rules->at_owner, &with_padding, operands, 3);
}

/* Returns the rows of all shards, one shard after another, on the node's device; 0 on failure. */
static uint32_t gather(const look_up *self) {
  tdm_parts_attributes attributes;
  uint32_t answers[TDM_MAX_PARTS];
  int64_t first = 0;
  memset(&attributes, 0, sizeof attributes);
  attributes.count = self->sharding->count;
  for (size_t k = 0; k < self->sharding->count; k++) {
    answers[k] = answer(self, k, first);
    if (!answers[k]) return 0;
    first += self->sharding->rows[k];
  }
  const tdm_insertion at = insertion_on(self, self->node->device);
  return tdm_insert(self->graph, &at, &tdm_operation_concat, &attributes, answers,
                    self->sharding->count);
}

/* Returns the place of each id's row among these; 0 on failure. */
static uint32_t find_places(const look_up *self) {
  tdm_shard_places_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.padding_index = self->rules->skips_padding ? self->table.padding_index : -1;
  attributes.count = self->sharding->count;
  int64_t end = 0;
  for (size_t k = 0; k < self->sharding->count; k++)
    attributes.ends[k] = end += self->sharding->rows[k];
  const tdm_insertion at = insertion_on(self, self->node->device);
  return tdm_insert(self->graph, &at, &tdm_operation_shard_places, &attributes,
                    &self->node->inputs[1], 1);
}

/* Makes the node read the gathered rows: a table of that many rows, followed by one for the
 * padding. */
static tdm_status read_gathered(const look_up *self, uint32_t gathered, uint32_t places) {
  tdm_ir_node *node = self->node;
  const size_t bytes = node->operation->attribute_bytes;
  char *attributes = (char *)tdm_ir_copy_bytes(self->graph, node->attributes, bytes);
  if (!attributes) return TDM_OUT_OF_MEMORY;
  const bool pads = self->rules->skips_padding && self->table.padding_index >= 0;
  const bool known = self->count >= 0;
  const int64_t rows = known ? self->count * self->sharding->count : 0;
  const tdm_embedding_attributes table = {.rows = known ? rows + pads : TDM_DIM_UNKNOWN,
                                          .padding_index = pads ? rows : -1};
  memcpy(attributes, &table, sizeof table);
  node->attributes = attributes;
  node->operation = self->rules->at_reader;
  tdm_set_input(self->graph, node, 0, gathered);
  tdm_set_input(self->graph, node, 1, places);
  return TDM_OK;
}

static void count_traffic(const look_up *self, tdm_shard_traffic *traffic) {
  if (self->count < 0) return;
  const tdm_ir_value *table = tdm_ir_value_at(self->graph, self->sharding->table);
  const tdm_ir_value *ids = tdm_ir_value_at(self->graph, self->node->inputs[1]);
  const uint64_t count = (uint64_t)self->count;
  const uint64_t rows =
      count * (uint64_t)table->spec->shape.dims[1] * tdm_dtype_bytes(table->spec->dtype);
  traffic->look_ups++;
  traffic->padded_bytes += ((uint64_t)self->sharding->count - 1) * rows;
  for (size_t k = 0; k < self->sharding->count; k++) {
    if (home_of(self, k) == self->node->device) continue;
    traffic->id_bytes += count * tdm_dtype_bytes(ids->spec->dtype);
    traffic->row_bytes += rows;
  }
}

static tdm_status look_up_rows(look_up *self, tdm_shard_traffic *traffic) {
  count_traffic(self, traffic);
  const uint32_t gathered = gather(self);
  const uint32_t places = gathered ? find_places(self) : 0;
  if (!places) return tdm_graph_status(self->graph);
  return read_gathered(self, gathered, places);
}

/* Moves the node to the device of its table. */
static void move_home(const tdm_graph *graph, const tdm_sharding *sharding, tdm_ir_node *node) {
  node->device = tdm_ir_value_at(graph, sharding->table)->device;
  for (uint32_t k = 0; k < node->output_count; k++)
    tdm_ir_value_at(graph, node->first_output + k)->device = node->device;
}

static const tdm_sharding *sharding_of(const tdm_graph *graph, uint32_t table) {
  for (size_t i = 0; table && i < graph->shardings.count; i++)
    if (graph->shardings.items[i].table == table) return &graph->shardings.items[i];
  return NULL;
}

/* Replaces the value of the whole table, which has no readers left, by its first shard. */
static tdm_status become_first_shard(tdm_graph *graph, const tdm_sharding *sharding) {
  tdm_ir_value *value = tdm_ir_value_at(graph, sharding->table);
  tdm_graph_persistent *persistent = &graph->persistents.items[value->binding];
  if (sharding->count == 1) return TDM_OK;
  persistent->shard = (tdm_table_shard){.table = persistent->name,
                                        .table_rows = value->spec->shape.dims[0],
                                        .count = sharding->count};
  persistent->name = value->name = sharding->first_name;
  tdm_spec spec = *value->spec;
  spec.shape.dims[0] = sharding->rows[0];
  value->spec = tdm_ir_share_spec(graph, &spec);
  if (!value->spec) return TDM_OUT_OF_MEMORY;
  value->bytes = (uint64_t)tdm_shape_bytes(&spec.shape, spec.dtype);
  return TDM_OK;
}

/* ---- Parameters in pieces -------------------------------------------------------------------- */

/* A parameter that a device has assembled, for one replica. */
typedef struct gathered_whole {
  uint32_t table;
  int16_t device;
  uint16_t replica;
  uint32_t value;
  struct gathered_whole *next;
} gathered_whole;

typedef struct gathering {
  tdm_graph *graph;
  bool any_device; /* one device serves all nodes of a replica */
  gathered_whole *wholes;
} gathering;

/* Concatenates the pieces of a parameter directly before the first node there that reads it.
 * Returns 0 on failure. */
static uint32_t put_together(tdm_graph *graph, const tdm_sharding *sharding, const char *name,
                             tdm_ir_node *reader) {
  tdm_parts_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.count = sharding->count;
  const tdm_insertion at = {
      .before = reader,
      .name = name,
      .device = reader->device,
      .part = {.parallel_region = reader->part.parallel_region, .replica = reader->part.replica},
      .role = reader->role};
  return tdm_insert(graph, &at, &tdm_operation_concat, &attributes, sharding->shards,
                    sharding->count);
}

/* Makes the node read the assembled parameter. Each replica has its own, so that adjoints are
 * summed over replicas as those of the parameter would be. */
static tdm_status read_whole(gathering *self, const tdm_sharding *sharding, tdm_ir_node *node,
                             uint32_t input) {
  gathered_whole *at = self->wholes;
  while (at && (at->table != sharding->table || at->replica != node->part.replica ||
                (at->device != node->device && !self->any_device)))
    at = at->next;
  if (!at) {
    at = tdm_region_take(&self->graph->region, sizeof *at, "parameters in pieces");
    if (!at) return TDM_OUT_OF_MEMORY;
    *at = (gathered_whole){sharding->table, node->device, node->part.replica, 0, self->wholes};
    const tdm_ir_value *table = tdm_ir_value_at(self->graph, sharding->table);
    const char *name = self->graph->persistents.items[table->binding].shard.table;
    at->value = put_together(self->graph, sharding, name, node);
    if (!at->value) return tdm_graph_status(self->graph);
    self->wholes = at;
  }
  tdm_set_input(self->graph, node, input, at->value);
  return TDM_OK;
}

static tdm_status gather_wholes(tdm_graph *graph, bool deterministic, tdm_shard_traffic *traffic) {
  gathering self = {.graph = graph, .any_device = deterministic};
  for (size_t i = 0; i < graph->shardings.count; i++) {
    if (!graph->shardings.items[i].is_gathered) continue;
    TDM_TRY(become_first_shard(graph, &graph->shardings.items[i]));
    traffic->gathered++;
  }
  if (traffic->gathered == 0) return TDM_OK;
  TDM_EACH_NODE(graph, node) {
    for (uint32_t k = 0; k < node->input_count; k++) {
      const tdm_sharding *sharding = sharding_of(graph, node->inputs[k]);
      if (sharding && sharding->is_gathered) TDM_TRY(read_whole(&self, sharding, node, k));
    }
  }
  return TDM_OK;
}

/* ---- The pass -------------------------------------------------------------------------------- */

/* Fails if the node reads a sharded table in a way that is not supported. */
static tdm_status check_reader(const tdm_graph *graph, const tdm_ir_node *node) {
  const bool looks_up = TDM_OPERATION_HAS(node->operation, look_up) && node->operation->look_up;
  for (uint32_t k = looks_up; k < node->input_count; k++) {
    const tdm_sharding *sharding = sharding_of(graph, node->inputs[k]);
    if (sharding && sharding->count > 1 && !sharding->is_gathered)
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s, which is sharded by rows, is read by %s %s",
                      tdm_value_name(graph, sharding->table), node->operation->name, node->name);
  }
  return TDM_OK;
}

static tdm_status check_deliveries(const tdm_graph *graph) {
  for (size_t i = 0; i < graph->planned->deliveries.count; i++) {
    const tdm_sharding *sharding = sharding_of(graph, graph->planned->deliveries.items[i].value);
    if (sharding && sharding->count > 1)
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s, which is sharded by rows, is delivered",
                      tdm_value_name(graph, sharding->table));
  }
  return TDM_OK;
}

static tdm_status rewrite(tdm_graph *graph, tdm_ir_node *node, tdm_shard_traffic *traffic) {
  TDM_TRY(check_reader(graph, node));
  if (!TDM_OPERATION_HAS(node->operation, look_up) || !node->operation->look_up) return TDM_OK;
  const tdm_sharding *sharding = sharding_of(graph, node->inputs[0]);
  if (!sharding) return TDM_OK;
  if (sharding->count == 1) {
    move_home(graph, sharding, node);
    return TDM_OK;
  }
  look_up self = {.graph = graph,
                  .sharding = sharding,
                  .node = node,
                  .rules = node->operation->look_up,
                  .count = tdm_shape_count(&tdm_ir_value_at(graph, node->inputs[1])->spec->shape)};
  memcpy(&self.table, node->attributes, sizeof self.table);
  return look_up_rows(&self, traffic);
}

tdm_status tdm_pass_shard(tdm_graph *graph, bool deterministic, tdm_shard_traffic *out_traffic) {
  memset(out_traffic, 0, sizeof *out_traffic);
  if (graph->shardings.count == 0) return TDM_OK;
  TDM_TRY(check_deliveries(graph));
  TDM_TRY(gather_wholes(graph, deterministic, out_traffic));
  TDM_EACH_NODE(graph, node)
    TDM_TRY(rewrite(graph, node, out_traffic));
  for (size_t i = 0; i < graph->shardings.count; i++)
    if (!graph->shardings.items[i].is_gathered)
      TDM_TRY(become_first_shard(graph, &graph->shardings.items[i]));
  return TDM_OK;
}
