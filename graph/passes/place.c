/* Placement: selects the device of each node. The strongest comes first: the environment's map, the
 * session's map, the device of the node or its scope (resolved while building), the node's first
 * placed input, cpu:0. Invariant: afterwards each node and value has a device. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "graph/describe/gradient_of.h"
#include "graph/ir/names.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

static bool pattern_fits(const char *pattern, const char *path) {
  const size_t length = strlen(pattern);
  if (strncmp(path, pattern, length) == 0 && (path[length] == 0 || path[length] == '/'))
    return true;
  return fnmatch(pattern, path, 0) == 0;
}

/* Returns the rule whose pattern is the first `length` bytes of path, or NULL. */
static tdm_map_rule *find_plain(const tdm_device_map *map, const char *path, size_t length) {
  size_t begin = 0;
  size_t end = map->plain_count;
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    const char *pattern = map->plain[middle]->pattern;
    const int order = strncmp(pattern, path, length);
    if (order == 0 && pattern[length] == 0) return map->plain[middle];
    if (order < 0)
      begin = middle + 1;
    else
      end = middle;
  }
  return NULL;
}

static void match(tdm_map_rule *rule, tdm_map_rule **strongest) {
  rule->matched = true;
  if (!*strongest || rule < *strongest) *strongest = rule;
}

static tdm_device *mapped_device(tdm_device_map *map, const char *path) {
  if (!map || map->count == 0) return NULL;
  tdm_map_rule *strongest = NULL;
  for (size_t length = 0; length == 0 || path[length - 1]; length++) {
    length += strcspn(path + length, "/");
    tdm_map_rule *rule = find_plain(map, path, length);
    if (rule) match(rule, &strongest);
  }
  for (size_t i = 0; i < map->wild_count; i++)
    if (pattern_fits(map->wild[i]->pattern, path)) match(map->wild[i], &strongest);
  return strongest ? strongest->device : NULL;
}

/* Adds the rules of text to map, which has capacity for them. */
static tdm_status parse_rules(tdm_context *context, tdm_region *region, const char *text,
                              tdm_device_map *map) {
  char *copy = tdm_region_string(region, text);
  if (!copy) return TDM_OUT_OF_MEMORY;
  char *rest = copy;
  for (char *rule = strtok_r(copy, ",", &rest); rule; rule = strtok_r(NULL, ",", &rest)) {
    char *equals = strchr(rule, '=');
    if (!equals || equals == rule || !equals[1])
      return tdm_fail(TDM_INVALID_ARGUMENT, "device map: '%s' is not NAME=DEVICE", rule);
    *equals = 0;
    tdm_device *device = tdm_context_find_placement(context, equals + 1);
    if (!device) return tdm_fail_within(TDM_UNAVAILABLE, "device map: %s", rule);
    map->rules[map->count++] = (tdm_map_rule){.pattern = rule, .device = device};
  }
  return TDM_OK;
}

static int compare_rules(const void *a, const void *b) {
  const tdm_map_rule *first = *(const tdm_map_rule *const *)a;
  const tdm_map_rule *second = *(const tdm_map_rule *const *)b;
  const int order = strcmp(first->pattern, second->pattern);
  return order ? order : (first > second) - (first < second);
}

/* Fills plain and wild, which have capacity for all rules. A weaker rule with the same pattern
 * never decides; it is matched together with the stronger one. */
static void sort_rules(tdm_device_map *map) {
  for (size_t i = 0; i < map->count; i++) {
    tdm_map_rule *rule = &map->rules[i];
    if (strpbrk(rule->pattern, "*?[\\"))
      map->wild[map->wild_count++] = rule;
    else
      map->plain[map->plain_count++] = rule;
  }
  qsort((void *)map->plain, map->plain_count, sizeof *map->plain, compare_rules);
  size_t kept = 0;
  for (size_t i = 0; i < map->plain_count; i++) {
    tdm_map_rule *rule = map->plain[i];
    if (kept > 0 && strcmp(map->plain[kept - 1]->pattern, rule->pattern) == 0)
      rule->stronger = map->plain[kept - 1];
    else
      map->plain[kept++] = rule;
  }
  map->plain_count = kept;
}

static size_t count_rules(const char *text) {
  size_t count = text && *text;
  for (; text && *text; text++)
    count += *text == ',';
  return count;
}

tdm_status tdm_device_map_parse(tdm_context *context, tdm_region *region, const char *environment,
                                const char *map, tdm_device_map *out_map) {
  *out_map = (tdm_device_map){0};
  const size_t capacity = count_rules(environment) + count_rules(map);
  if (capacity == 0) return TDM_OK;
  out_map->rules = tdm_region_take(region, capacity * sizeof *out_map->rules, "device map");
  out_map->plain = tdm_region_take(region, capacity * sizeof *out_map->plain, "device map");
  out_map->wild = tdm_region_take(region, capacity * sizeof *out_map->wild, "device map");
  if (!out_map->rules || !out_map->plain || !out_map->wild) return TDM_OUT_OF_MEMORY;
  if (environment && *environment) TDM_TRY(parse_rules(context, region, environment, out_map));
  if (map) TDM_TRY(parse_rules(context, region, map, out_map));
  sort_rules(out_map);
  return TDM_OK;
}

tdm_status tdm_device_map_check(const tdm_device_map *map, const tdm_graph *graph) {
  tdm_choices layers;
  for (size_t i = 0; i < map->count; i++) {
    const char *pattern = map->rules[i].pattern;
    const tdm_map_rule *stronger = map->rules[i].stronger;
    if (!map->rules[i].matched && !(stronger && stronger->matched))
      return tdm_fail(TDM_INVALID_ARGUMENT, "device map: nothing is named '%.64s'; %s", pattern,
                      tdm_layers_text(graph, pattern, &layers));
  }
  return TDM_OK;
}

/* Returns the device of the first input that a placed node produces or that is placed itself. A
 * gradient follows the value of which it is the gradient. */
static int16_t inherited_device(const tdm_graph *graph, const tdm_ir_node *node) {
  const uint32_t *inputs = node->inputs;
  if (tdm_asks_gradient(node)) {
    const int16_t device = tdm_ir_value_at(graph, inputs[TDM_GRADIENT_VALUE])->device;
    return device == TDM_NO_DEVICE ? TDM_HOST_DEVICE : device;
  }
  for (uint32_t k = 0; k < node->input_count; k++) {
    const tdm_ir_value *value = tdm_ir_value_at(graph, inputs[k]);
    if (inputs[k] && value->kind == TDM_VALUE_NODE && value->device != TDM_NO_DEVICE)
      return value->device;
  }
  return TDM_HOST_DEVICE;
}

/* Places kept values on their previous device, or else by the map or their scope. */
static void place_kept(tdm_graph *graph, tdm_device_map *map) {
  for (size_t i = 0; i < graph->kepts.count; i++) {
    const tdm_graph_kept *kept = &graph->kepts.items[i];
    tdm_ir_value *value = tdm_ir_value_at(graph, kept->value);
    const tdm_device *device = mapped_device(map, value->name);
    if (!device) device = kept->wanted_device;
    if (device && value->device == TDM_NO_DEVICE) value->device = (int16_t)device->context_index;
  }
}

/* Returns the device of the kept value that the node writes, or TDM_NO_DEVICE if it writes none or
 * the device is not known yet. */
static int16_t kept_device(const tdm_graph *graph, const tdm_ir_node *node) {
  const tdm_graph_kept *kept = graph->kepts.count > 0 ? tdm_ir_kept_by(graph, node) : NULL;
  return kept ? tdm_ir_value_at(graph, kept->value)->device : TDM_NO_DEVICE;
}

static void choose_device(tdm_graph *graph, tdm_ir_node *node, tdm_device_map *map) {
  node->device = kept_device(graph, node);
  if (node->device != TDM_NO_DEVICE) return;
  const tdm_device *device = mapped_device(map, node->name);
  if (device)
    node->device = (int16_t)device->context_index;
  else
    node->device = node->wanted ? (int16_t)(node->wanted - 1) : inherited_device(graph, node);
}

tdm_status tdm_pass_place(tdm_graph *graph, tdm_device_map *map) {
  place_kept(graph, map);
  TDM_EACH_NODE(graph, node) {
    if (node->device == TDM_NO_DEVICE) choose_device(graph, node, map);
    if (node->part.replica && mapped_device(map, node->name))
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "device map: %s is in a parallel region, which has its devices", node->name);
    for (uint32_t k = 0; k < node->output_count; k++)
      tdm_ir_value_at(graph, node->first_output + k)->device = node->device;
    const uint32_t *inputs = node->inputs;
    for (uint32_t k = 0; k < node->input_count; k++) {
      tdm_ir_value *value = tdm_ir_value_at(graph, inputs[k]);
      if (inputs[k] && value->device == TDM_NO_DEVICE) value->device = node->device;
    }
  }
  for (size_t i = 1; i < graph->values.count; i++)
    if (tdm_ir_value_at(graph, i)->device == TDM_NO_DEVICE) tdm_ir_value_at(graph, i)->device = 0;
  return TDM_OK;
}

void tdm_drop_persist_inputs(tdm_graph *graph) {
  TDM_EACH_NODE(graph, node) {
    for (uint32_t k = 0; k < node->input_count; k++)
      if (tdm_ir_is_persisted(node, k)) tdm_set_input(graph, node, k, 0);
  }
}

tdm_status tdm_find_kernel(const tdm_graph *graph, const tdm_ir_node *node,
                           const tdm_kernel **out_kernel) {
  const tdm_device *device = tdm_context_device(graph->context, (size_t)node->device);
  const tdm_dtype dtype = tdm_ir_value_at(graph, node->first_output)->spec->dtype;
  *out_kernel =
      tdm_context_find_kernel(graph->context, node->operation->name, device->ops->executes, dtype);
  if (*out_kernel) return TDM_OK;
  return tdm_fail(TDM_UNSUPPORTED, "%s: %s has no kernel for %s in %s", node->name, device->name,
                  node->operation->name, tdm_dtype_name(dtype));
}

tdm_status tdm_check_kernels(const tdm_graph *graph) {
  const tdm_kernel *kernel;
  TDM_EACH_NODE(graph, node)
    if (tdm_ir_has_kernel(node)) TDM_TRY(tdm_find_kernel(graph, node, &kernel));
  return TDM_OK;
}
