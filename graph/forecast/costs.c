/* The table of measured kernel times, which learns from a session's profile. */
#include "graph/forecast/costs.h"

#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "devices/kernels/elementwise/fused.h"
#include "graph/passes/device_sums.h"
#include "graph/run/session.h"

/* ---- Names ----------------------------------------------------------------------------------- */

const char *tdm_cost_class(const tdm_device *device, char *text) {
  const tdm_machine *machine = tdm_context_machine(device->context);
  if (device->described)
    (void)snprintf(text, TDM_COST_CLASS, "%s", machine->device.model);
  else if (machine && machine->host.memory_bytes_per_ns > 0 && device->context_index == 0)
    (void)snprintf(text, TDM_COST_CLASS, "%s", machine->host.model);
  else
    (void)snprintf(text, TDM_COST_CLASS, "%s/%zu", device->ops->kind, device->team_size);
  return text;
}

/* Appends "float32[4, 8]" and returns the new end of the text. */
static size_t put_spec(char *text, size_t capacity, size_t at, const tdm_ir_value *value,
                       bool first) {
  char shape[TDM_SHAPE_TEXT];
  if (at >= capacity) return at;
  const int length = snprintf(text + at, capacity - at, "%s%s%s", first ? "" : ", ",
                              tdm_dtype_name(value->spec->dtype),
                              tdm_shape_text(&value->spec->shape, shape, sizeof shape));
  return length < 0 ? at : at + (size_t)length;
}

static size_t put_text(char *text, size_t capacity, size_t at, const char *more) {
  if (at >= capacity) return at;
  const int length = snprintf(text + at, capacity - at, "%s", more);
  return length < 0 ? at : at + (size_t)length;
}

/* Hashes a fused node's members and their operands. */
static uint64_t members_hash(const tdm_fused_attributes *program) {
  uint64_t hash = 0;
  for (int64_t m = 0; m < program->member_count; m++) {
    const tdm_fused_member *member = &program->members[m];
    hash = tdm_hash_string(member->kernel->operation, hash);
    hash = tdm_hash_bytes(member->attributes, member->attribute_bytes, hash);
    hash = tdm_hash_bytes(member->inputs, member->input_count, hash);
    hash = tdm_hash_mix(hash, member->output);
  }
  return hash;
}

static uint64_t attributes_hash(const tdm_ir_node *node) {
  if (node->operation == &tdm_operation_fused) return members_hash(node->attributes);
  const size_t bytes = node->operation->attribute_bytes;
  return bytes ? tdm_hash_bytes(node->attributes, bytes, 0) : 0;
}

const char *tdm_cost_kernel(const tdm_graph *graph, const tdm_ir_node *node, char *text,
                            size_t capacity) {
  if (!node->operation) {
    (void)snprintf(text, capacity, "copy(%llu bytes)",
                   (unsigned long long)tdm_ir_value_at(graph, node->first_output)->bytes);
    return text;
  }
  const uint64_t hash = attributes_hash(node);
  char head[160];
  (void)snprintf(head, sizeof head, "%s#%llx(", node->operation->name, (unsigned long long)hash);
  size_t at = put_text(text, capacity, 0, head);
  const uint32_t *inputs = node->inputs;
  for (uint32_t k = 0; k < node->input_count; k++)
    at = inputs[k] ? put_spec(text, capacity, at, tdm_ir_value_at(graph, inputs[k]), k == 0)
                   : put_text(text, capacity, at, k == 0 ? "-" : ", -");
  at = put_text(text, capacity, at, ") -> (");
  for (uint32_t k = 0; k < node->output_count; k++)
    at = put_spec(text, capacity, at, tdm_ir_value_at(graph, node->first_output + k), k == 0);
  (void)put_text(text, capacity, at, ")");
  return text;
}

static void put_key(char *key, const char *class_name, const char *kernel) {
  (void)snprintf(key, TDM_COST_KEY, "%s\n%s", class_name, kernel);
}

/* ---- The table ------------------------------------------------------------------------------- */

tdm_costs *tdm_costs_create(tdm_context *context) {
  if (!context) {
    (void)tdm_fail_null("tdm_costs_create: the context");
    return NULL;
  }
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_costs *costs = tdm_allocate(allocator, sizeof *costs, "costs");
  if (!costs) return NULL;
  costs->context = tdm_context_retain(context);
  costs->allocator = allocator;
  tdm_map_init(&costs->entries, allocator);
  return costs;
}

void tdm_costs_release(tdm_costs *costs) {
  if (!costs || tdm_context_is_inherited(costs->context)) return;
  for (tdm_cost_entry *entry = costs->first, *next; entry; entry = next) {
    next = entry->next;
    tdm_string_release(costs->allocator, entry->key);
    tdm_release(costs->allocator, entry, sizeof *entry);
  }
  tdm_map_deinit(&costs->entries);
  tdm_context *context = costs->context;
  tdm_release(costs->allocator, costs, sizeof *costs);
  tdm_context_release(context);
}

tdm_cost tdm_costs_find(const tdm_costs *costs, const char *class_name, const char *kernel) {
  if (!costs) return (tdm_cost){0};
  char key[TDM_COST_KEY];
  put_key(key, class_name, kernel);
  const tdm_cost_entry *entry = tdm_map_get(&costs->entries, key);
  return entry ? entry->cost : (tdm_cost){0};
}

static tdm_status add_entry(tdm_costs *costs, const char *key, tdm_cost_entry **out_entry) {
  tdm_cost_entry *entry = tdm_allocate(costs->allocator, sizeof *entry, "costs");
  if (!entry) return TDM_OUT_OF_MEMORY;
  entry->key = tdm_string_copy(costs->allocator, key);
  if (!entry->key || tdm_map_put(&costs->entries, entry->key, entry) != TDM_OK) {
    tdm_string_release(costs->allocator, entry->key);
    tdm_release(costs->allocator, entry, sizeof *entry);
    return TDM_OUT_OF_MEMORY;
  }
  *(costs->last ? &costs->last->next : &costs->first) = entry;
  costs->last = entry;
  *out_entry = entry;
  return TDM_OK;
}

tdm_status tdm_costs_put(tdm_costs *costs, const char *class_name, const char *kernel,
                         tdm_cost cost) {
  char key[TDM_COST_KEY];
  put_key(key, class_name, kernel);
  tdm_cost_entry *entry = tdm_map_get(&costs->entries, key);
  if (!entry) TDM_TRY(add_entry(costs, key, &entry));
  entry->class_bytes = strlen(class_name);
  if (cost.alone_ns > 0) entry->cost.alone_ns = cost.alone_ns;
  if (cost.crowded_ns > 0) entry->cost.crowded_ns = cost.crowded_ns;
  return TDM_OK;
}

/* ---- Learning -------------------------------------------------------------------------------- */

typedef struct learned {
  double sum_ns;  /* sum of the medians of equal steps */
  uint32_t count; /* number of those that have a median */
  size_t first;   /* the first of the equal steps */
} learned;

/* Returns true if the node has a kernel. An operation of several ranks includes the time that they
 * wait for each other, so it has no cost of its own. */
static bool is_kernel(const tdm_plan *plan, const tdm_ir_node *node) {
  if (node->operation) return !tdm_ir_is_all_reduce(node);
  const uint32_t source = node->inputs[0];
  return tdm_ir_value_at(&plan->graph, source)->device == node->device;
}

static const tdm_device *device_of(const tdm_plan *plan, size_t step) {
  const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[step].node);
  return tdm_context_device(plan->graph.context, (size_t)node->device);
}

/* Finds each step's kernel key; "": it has no kernel. */
static void find_keys(const tdm_plan *plan, char (*keys)[TDM_COST_KEY]) {
  char class_name[TDM_COST_CLASS], kernel[TDM_COST_KEY];
  for (size_t i = 0; i < plan->lowered.schedule.step_count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[i].node);
    if (!is_kernel(plan, node)) continue;
    tdm_cost_class(device_of(plan, i), class_name);
    put_key(keys[i], class_name, tdm_cost_kernel(&plan->graph, node, kernel, sizeof kernel));
  }
}

/* Adds up the medians of equal steps. kernels: room for one number per step. */
static tdm_status add_up(const tdm_plan *plan, char (*keys)[TDM_COST_KEY], tdm_map *by_key,
                         learned *kernels) {
  size_t count = 0;
  for (size_t i = plan->lowered.schedule.step_count; i-- > 0;) {
    if (!keys[i][0]) continue;
    learned *alike = tdm_map_get(by_key, keys[i]);
    if (!alike) {
      alike = &kernels[count++];
      TDM_TRY(tdm_map_put(by_key, keys[i], alike));
    }
    const double median_ns = tdm_profile_median_ns(&plan->profile, i);
    if (median_ns >= 0) alike->sum_ns += median_ns;
    alike->count += median_ns >= 0;
    alike->first = i;
  }
  return TDM_OK;
}

/* Steps with equal keys, on any devices of a class, are one kernel. Its cost is the mean of their
 * medians, because the place of a kernel's operands (in a cache, or not) differs within a plan. */
static tdm_status put_means(tdm_costs *costs, const tdm_plan *plan, char (*keys)[TDM_COST_KEY],
                            const tdm_map *by_key, bool crowded) {
  char class_name[TDM_COST_CLASS];
  for (size_t i = 0; i < plan->lowered.schedule.step_count; i++) {
    const learned *alike = keys[i][0] ? tdm_map_get(by_key, keys[i]) : NULL;
    if (!alike || alike->first != i || alike->count == 0) continue;
    const double ns = alike->sum_ns / alike->count;
    const tdm_cost cost = {.alone_ns = crowded ? 0 : ns, .crowded_ns = crowded ? ns : 0};
    tdm_cost_class(device_of(plan, i), class_name);
    TDM_TRY(tdm_costs_put(costs, class_name, keys[i] + strlen(class_name) + 1, cost));
  }
  return TDM_OK;
}

static tdm_status learn(tdm_costs *costs, const tdm_plan *plan, bool crowded) {
  const size_t steps = plan->lowered.schedule.step_count;
  tdm_map by_key; /* maps a key of steps to what is learned of them */
  char(*keys)[TDM_COST_KEY] = tdm_allocate(costs->allocator, (steps + 1) * sizeof *keys, "costs");
  if (!keys) return TDM_OUT_OF_MEMORY;
  tdm_status status = TDM_OUT_OF_MEMORY;
  tdm_map_init(&by_key, costs->allocator);
  learned *kernels = tdm_allocate(costs->allocator, (steps + 1) * sizeof *kernels, "costs");
  if (kernels) {
    find_keys(plan, keys);
    status = add_up(plan, keys, &by_key, kernels);
  }
  if (status == TDM_OK) status = put_means(costs, plan, keys, &by_key, crowded);
  tdm_map_deinit(&by_key);
  tdm_release(costs->allocator, kernels, (steps + 1) * sizeof *kernels);
  tdm_release(costs->allocator, keys, (steps + 1) * sizeof *keys);
  return status;
}

/* Returns true if a run of the plan has been measured. Steps that such runs skip have no times. */
static bool was_profiled(const tdm_plan *plan) {
  for (size_t i = 0; i < plan->lowered.schedule.step_count; i++)
    if (tdm_profile_median_ns(&plan->profile, i) >= 0) return true;
  return false;
}

tdm_status tdm_costs_learn(tdm_costs *costs, tdm_session *session, bool crowded) {
  if (!costs || !session) return tdm_fail(TDM_INVALID_ARGUMENT, "no costs or no session");
  TDM_TRY(tdm_context_check(session->context));
  (void)pthread_mutex_lock(&session->lock);
  const tdm_plan *plan = session->last_asked;
  tdm_status status;
  if (!plan || !was_profiled(plan))
    status = tdm_fail(TDM_INVALID_ARGUMENT, "the session's latest plan has no profiled run");
  else
    status = learn(costs, plan, crowded);
  (void)pthread_mutex_unlock(&session->lock);
  return status;
}
