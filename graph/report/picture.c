/* Creates pictures from plans, and from plans written as JSON. */
#include "graph/report/picture.h"

#include <string.h>

#include "core/utf8.h"
#include "graph/report/explain.h"

static const char what[] = "a picture of a plan";
enum { MOST_VALUES = 1 << 24 };

void tdm_picture_deinit(tdm_picture *picture) {
  tdm_region_deinit(&picture->region);
}

static tdm_status begin(tdm_picture *picture, const tdm_allocator *allocator, size_t nodes,
                        size_t sources) {
  memset(picture, 0, sizeof *picture);
  tdm_region_init(&picture->region, allocator);
  picture->nodes = tdm_region_take(&picture->region, (nodes + 1) * sizeof *picture->nodes, what);
  picture->sources =
      tdm_region_take(&picture->region, (sources + 1) * sizeof *picture->sources, what);
  return picture->nodes && picture->sources ? TDM_OK : TDM_OUT_OF_MEMORY;
}

/* ---- From a plan ----------------------------------------------------------------------------- */

static tdm_status describe_node(tdm_picture *picture, const tdm_plan *plan,
                                const tdm_ir_node *node) {
  tdm_region *region = &picture->region;
  tdm_picture_node *out = &picture->nodes[picture->node_count++];
  const tdm_ir_value *value = tdm_ir_value_at(&plan->graph, node->first_output);
  char shape[TDM_SHAPE_TEXT], members[TDM_EXPLAIN_TEXT];
  const char *of = *tdm_explain_members(node, members) ? " of " : "";
  uint32_t *makes = tdm_region_take(region, (node->output_count + 1) * sizeof *makes, what);
  if (!makes) return TDM_OUT_OF_MEMORY;
  for (uint32_t k = 0; k < node->output_count; k++)
    makes[k] = node->first_output + k;
  *out = (tdm_picture_node){
      .name = node->name,
      .action = tdm_region_format(region, "%s%s%s", tdm_explain_action(node), of, members),
      .device = tdm_explain_device(plan, node->device),
      .result = tdm_region_format(region, "%s %s", tdm_dtype_name(value->spec->dtype),
                                  tdm_shape_text(&value->spec->shape, shape, sizeof shape)),
      .bytes = value->bytes,
      .predicted_ns = -1,
      .measured_ns = -1,
      .update = node->role == TDM_ROLE_UPDATE,
      .unusual = plan->refreshes && !tdm_plan_is_usual(plan, node),
      .read_count = node->input_count,
      .reads = node->inputs,
      .make_count = node->output_count,
      .makes = makes};
  if (!node->operation) {
    out->route = tdm_explain_route(plan, node);
    out->cause = tdm_explain_cause_in(region, plan, node);
    out->predicted_ns = tdm_plan_predict_ns(plan, node);
  }
  return region->failed ? TDM_OUT_OF_MEMORY : TDM_OK;
}

static tdm_status note_times(tdm_picture *picture, const tdm_plan *plan, const uint32_t *place) {
  for (size_t i = 0; i < plan->lowered.schedule.step_count; i++) {
    const double measured_ns = tdm_explain_measured_ns(plan, i);
    const uint32_t at = place[plan->lowered.sources[i].node];
    if (at && measured_ns >= 0) picture->nodes[at - 1].measured_ns = measured_ns;
  }
  return TDM_OK;
}

tdm_status tdm_picture_of_plan(const tdm_plan *plan, tdm_picture *out_picture) {
  const tdm_graph *graph = &plan->graph;
  TDM_TRY(begin(out_picture, graph->allocator, graph->order.count, graph->values.count));
  out_picture->training = plan->training;
  out_picture->value_count = (uint32_t)graph->values.count;
  uint32_t *place = /* per node of the graph: 1 + its index */
      tdm_region_take(&out_picture->region, (graph->nodes.count + 1) * sizeof *place, what);
  if (!place) return TDM_OUT_OF_MEMORY;
  TDM_EACH_NODE(graph, node) {
    TDM_TRY(describe_node(out_picture, plan, node));
    place[node->index] = out_picture->node_count;
  }
  for (uint32_t v = 1; v < graph->values.count; v++) {
    const tdm_ir_value *value = tdm_ir_value_at(graph, v);
    if (value->producer || !value->name) continue;
    out_picture->sources[out_picture->source_count++] = (tdm_picture_source){v, value->name};
  }
  return note_times(out_picture, plan, place);
}

/* ---- From JSON ------------------------------------------------------------------------------- */

typedef struct reader {
  tdm_picture *picture;
  const char *source;
  bool failed; /* the input is malformed */
} reader;

/* Returns printable text, because terminals and pictures show it. */
static const char *read_text(reader *self, const json_t *object, const char *key, bool needed) {
  const json_t *text = json_object_get(object, key);
  if (!json_is_string(text)) {
    self->failed = self->failed || needed;
    return needed ? "" : NULL;
  }
  char *copy = tdm_region_string(&self->picture->region, json_string_value(text));
  if (copy) tdm_utf8_make_printable(copy);
  return copy;
}

static double read_number(const json_t *object, const char *key, double normal) {
  const json_t *number = json_object_get(object, key);
  return json_is_number(number) ? json_number_value(number) : normal;
}

/* Reads a list of values. */
static const uint32_t *read_values(reader *self, const json_t *list, uint32_t *out_count) {
  const size_t count = json_array_size(list);
  uint32_t *values = tdm_region_take(&self->picture->region, (count + 1) * sizeof *values, what);
  for (size_t i = 0; values && i < count; i++) {
    const json_int_t value = json_integer_value(json_array_get(list, i));
    if (value < 1 || value >= MOST_VALUES) {
      self->failed = true;
      return values;
    }
    values[i] = (uint32_t)value;
    if (values[i] >= self->picture->value_count) self->picture->value_count = values[i] + 1;
  }
  *out_count = (uint32_t)count;
  return values;
}

static const char *read_result(reader *self, const json_t *command) {
  tdm_shape shape = {.rank = 0};
  const json_t *dims = json_object_get(command, "shape");
  if (!json_is_array(dims) || json_array_size(dims) > TDM_MAX_RANK) self->failed = true;
  for (size_t i = 0; !self->failed && i < json_array_size(dims); i++)
    shape.dims[shape.rank++] = (tdm_dim)json_integer_value(json_array_get(dims, i));
  char text[TDM_SHAPE_TEXT];
  return tdm_region_format(&self->picture->region, "%s %s", read_text(self, command, "dtype", true),
                           tdm_shape_text(&shape, text, sizeof text));
}

static void read_command(reader *self, const json_t *command) {
  tdm_picture_node *out = &self->picture->nodes[self->picture->node_count++];
  const char *members = read_text(self, command, "members", false);
  *out = (tdm_picture_node){
      .name = read_text(self, command, "name", true),
      .action = tdm_region_format(&self->picture->region, "%s%s%s",
                                  read_text(self, command, "action", true), members ? " of " : "",
                                  members ? members : ""),
      .device = read_text(self, command, "device", true),
      .result = read_result(self, command),
      .route = read_text(self, command, "route", false),
      .cause = read_text(self, command, "cause", false),
      .bytes = (uint64_t)json_integer_value(json_object_get(command, "output_bytes")),
      .predicted_ns = read_number(command, "predicted_ns", -1),
      .measured_ns = read_number(command, "measured_ns", -1),
      .update = json_is_true(json_object_get(command, "update")),
      .unusual = json_is_false(json_object_get(command, "usual"))};
  out->reads = read_values(self, json_object_get(command, "reads"), &out->read_count);
  out->makes = read_values(self, json_object_get(command, "makes"), &out->make_count);
}

static void read_source(reader *self, const json_t *source) {
  const json_int_t value = json_integer_value(json_object_get(source, "value"));
  if (value < 1 || value >= MOST_VALUES) {
    self->failed = true;
    return;
  }
  if (value >= self->picture->value_count) self->picture->value_count = (uint32_t)value + 1;
  self->picture->sources[self->picture->source_count++] =
      (tdm_picture_source){(uint32_t)value, read_text(self, source, "name", true)};
}

tdm_status tdm_picture_read(const json_t *root, const char *source, const tdm_allocator *allocator,
                            tdm_picture *out_picture) {
  const json_t *commands = json_object_get(root, "commands");
  const json_t *sources = json_object_get(root, "sources");
  TDM_TRY(begin(out_picture, allocator, json_array_size(commands), json_array_size(sources)));
  if (!json_is_array(commands) || !json_is_array(sources))
    return tdm_fail(TDM_CORRUPT_DATA,
                    "%s: is no plan: \"commands\" and \"sources\" are wanted, which "
                    "TDM_PLAN_JSON writes",
                    source);
  reader self = {out_picture, source, false};
  out_picture->training = json_is_true(json_object_get(root, "training"));
  for (size_t i = 0; !self.failed && i < json_array_size(sources); i++)
    read_source(&self, json_array_get(sources, i));
  for (size_t i = 0; !self.failed && i < json_array_size(commands); i++)
    read_command(&self, json_array_get(commands, i));
  if (out_picture->region.failed) return TDM_OUT_OF_MEMORY;
  if (!self.failed) return TDM_OK;
  return tdm_fail(TDM_CORRUPT_DATA, "%s: is no plan: command %u is not one", source,
                  out_picture->node_count);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

const char *tdm_bytes_text(uint64_t bytes, char text[TDM_BYTES_TEXT]) {
  if (bytes < 10240)
    (void)snprintf(text, TDM_BYTES_TEXT, "%llu B", (unsigned long long)bytes);
  else if (bytes < 10u << 20)
    (void)snprintf(text, TDM_BYTES_TEXT, "%.1f KiB", (double)bytes / 1024);
  else
    (void)snprintf(text, TDM_BYTES_TEXT, "%.1f MiB", (double)bytes / (1 << 20));
  return text;
}
