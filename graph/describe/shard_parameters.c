/* Shards the parameters of a parallel region. Every device updates some of them itself; large ones
 * of the others are divided by rows into one piece per device. Invariant: the result depends only
 * on the description, so all sessions of a graph, and all ranks, compute the same. */
#include "devices/tensors/chunks.h"
#include "graph/describe/shard.h"
#include "graph/ir/records.h"
#include "graph/ir/rewriter.h"

/* A parameter is divided if it is larger than 1 / SMALL_PART of a device's share. Smaller ones
 * would cost too many messages. */
enum { SMALL_PART = 32 };

typedef struct sharder {
  tdm_graph *graph;
  const tdm_parallel_region *region;
  tdm_device *devices[TDM_MAX_PARTS]; /* distinct devices */
  size_t device_count;
  uint32_t *parameters; /* (count) values, in the order in which nodes first read them */
  size_t count;
  bool *is_listed; /* per persistent value of the graph */
  double bytes;    /* size of all parameters */
} sharder;

static tdm_graph_persistent *persistent_of(const sharder *self, size_t parameter) {
  const tdm_ir_value *value = tdm_ir_value_at(self->graph, self->parameters[parameter]);
  return &self->graph->persistents.items[value->binding];
}

static double bytes_of(const sharder *self, size_t parameter) {
  const tdm_spec *spec = tdm_ir_value_at(self->graph, self->parameters[parameter])->spec;
  return (double)tdm_shape_bytes(&spec->shape, spec->dtype);
}

static void list_devices(sharder *self) {
  for (uint16_t i = 0; i < self->region->device_count; i++) {
    tdm_device *device = tdm_context_device(self->graph->context, (size_t)self->region->devices[i]);
    bool is_there = false;
    for (size_t k = 0; k < self->device_count; k++)
      is_there |= self->devices[k] == device;
    if (!is_there) self->devices[self->device_count++] = device;
  }
}

/* Returns true if the parameter is trained and has no device of its own. */
static bool is_free(const sharder *self, uint32_t index) {
  const tdm_ir_value *value = tdm_ir_value_at(self->graph, index);
  if (!index || value->kind != TDM_VALUE_PERSISTENT || !value->trainable) return false;
  const tdm_graph_persistent *persistent = &self->graph->persistents.items[value->binding];
  return value->device == TDM_NO_DEVICE && !persistent->is_state && !persistent->shard.table;
}

static void list_parameters(sharder *self, uint16_t region) {
  TDM_EACH_NODE(self->graph, node) {
    if (!tdm_is_in_region(self->graph, node->part.parallel_region, region)) continue;
    for (uint32_t k = 0; k < node->input_count; k++) {
      const tdm_ir_value *value = tdm_ir_value_at(self->graph, node->inputs[k]);
      if (!is_free(self, node->inputs[k]) || self->is_listed[value->binding]) continue;
      self->is_listed[value->binding] = true;
      self->parameters[self->count++] = node->inputs[k];
      self->bytes += bytes_of(self, self->count - 1);
    }
  }
}

/* Returns the share of the bytes that every device updates itself. The forward pass computes a
 * third of a step. With a share of one third, a third of the bytes is sent during it; with more,
 * fewer. These parameters have states on every device: with this share, k devices store at most a
 * third more of them than 1 / k each. */
static double overlap_share(const sharder *self) {
  return 1.0 / 3 / (double)(self->device_count - 1);
}

/* Marks parameters evenly over the order of reading: one whenever the share of the bytes so far
 * covers most of it. So transfers are spread over the whole forward and backward pass. */
static void mark_everywhere(const sharder *self) {
  const double share = overlap_share(self);
  double due = 0;
  for (size_t i = 0; i < self->count; i++) {
    const double bytes = bytes_of(self, i);
    due += share * bytes;
    if (due < bytes / 2) continue;
    persistent_of(self, i)->is_updated_everywhere = true;
    due -= bytes;
  }
}

/* Returns true if a node of the graph reads rows of the parameter by ids. */
static bool is_looked_up(const tdm_graph *graph, uint32_t parameter) {
  TDM_EACH_NODE(graph, node) {
    if (TDM_OPERATION_HAS(node->operation, look_up) && node->operation->look_up &&
        node->inputs[0] == parameter)
      return true;
  }
  return false;
}

static bool is_cut(const sharder *self, size_t parameter) {
  const tdm_ir_value *value = tdm_ir_value_at(self->graph, self->parameters[parameter]);
  const tdm_shape *shape = &value->spec->shape;
  const double least = self->bytes / (double)self->device_count / SMALL_PART;
  return !persistent_of(self, parameter)->is_updated_everywhere && shape->rank > 0 &&
         shape->dims[0] >= (int64_t)self->device_count && bytes_of(self, parameter) > least &&
         !is_looked_up(self->graph, self->parameters[parameter]);
}

static tdm_status cut(const sharder *self, size_t parameter) {
  const tdm_ir_value *value = tdm_ir_value_at(self->graph, self->parameters[parameter]);
  int64_t sizes[TDM_MAX_PARTS] = {0};
  size_t count = 0;
  tdm_chunk_sizes(value->spec->shape.dims[0], self->device_count, NULL, sizes);
  while (count < self->device_count && sizes[count] > 0)
    count++;
  return tdm_add_sharding(self->graph, self->parameters[parameter], count, sizes, self->devices,
                          true);
}

static tdm_status shard(sharder *self, uint16_t region) {
  list_parameters(self, region);
  mark_everywhere(self);
  for (size_t i = 0; i < self->count; i++)
    if (is_cut(self, i)) TDM_TRY(cut(self, i));
  return TDM_OK;
}

tdm_status tdm_shard_parameters(tdm_graph *graph, uint16_t region) {
  sharder self = {.graph = graph, .region = &graph->parallel_regions.items[region]};
  list_devices(&self);
  if (self.region->sharding != TDM_SHARDING_PARAMETERS || self.device_count < 2) return TDM_OK;
  const size_t count = graph->persistents.count + 1;
  self.parameters = tdm_allocate(graph->allocator, count * sizeof *self.parameters, "homes");
  self.is_listed = tdm_allocate(graph->allocator, count, "homes");
  tdm_status status = TDM_OUT_OF_MEMORY;
  if (self.parameters && self.is_listed) status = shard(&self, region);
  tdm_release(graph->allocator, self.parameters, count * sizeof *self.parameters);
  tdm_release(graph->allocator, self.is_listed, count);
  return status;
}
