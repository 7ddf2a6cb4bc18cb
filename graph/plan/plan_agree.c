/* Checks that all ranks of a job have made the same plan. Each rank sends a digest of its plan. If
 * digests differ, all ranks search for the first line that differs, and report the same difference.
 * A line is the head of the plan or a node; its hash also covers what its text does not show.
 * Invariant: all ranks exchange the same number of bytes, whatever they find. */
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "devices/groups/groups.h"
#include "devices/kernels/elementwise/fused.h"
#include "devices/network/network.h"
#include "graph/ir/rewriter.h"
#include "graph/plan/plan.h"

enum { LINE_TEXT = 256, LINES_AT_ONCE = 64 };

typedef struct rank_digest {
  uint64_t digest;
  uint64_t line_count;
} rank_digest;

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Hashes the attributes of a node. Those of a fused node contain pointers to kernels, which differ
 * between processes, so its members are hashed instead. */
static uint64_t hash_attributes(const tdm_ir_node *node, uint64_t hash) {
  const tdm_operation *operation = node->operation;
  if (!operation || !node->attributes) return hash;
  if (operation != &tdm_operation_fused)
    return tdm_hash_bytes(node->attributes, operation->attribute_bytes, hash);
  const tdm_fused_attributes *program = node->attributes;
  for (int64_t m = 0; m < program->member_count; m++) {
    const tdm_fused_member *member = &program->members[m];
    hash = tdm_hash_string(member->kernel->operation, hash);
    hash = tdm_hash_bytes(member->attributes, member->attribute_bytes, hash);
    hash = tdm_hash_bytes(member->inputs, member->input_count, tdm_hash_mix(hash, member->output));
  }
  return hash;
}

/* Hashes the initial contents of a parameter, because a rank creates those of its own parameters
 * itself. */
static uint64_t hash_beginning(const tdm_graph *graph, const tdm_ir_value *value, uint64_t hash) {
  if (value->kind != TDM_VALUE_PERSISTENT) return hash;
  const tdm_graph_persistent *persistent = &graph->persistents.items[value->binding];
  const tdm_initializer *of = &persistent->initializer;
  if (persistent->data) return tdm_hash_string(persistent->name, hash); /* includes its contents */
  const double numbers[] = {of->a, of->b};
  hash = tdm_hash_mix(hash, (uint64_t)of->kind);
  hash = tdm_hash_mix(hash, (uint64_t)of->zero_row);
  return tdm_hash_bytes(numbers, sizeof numbers, hash);
}

/* Hashes a node. Values are hashed by the names of their producers, because indices would differ in
 * all nodes after a first difference. */
static uint64_t hash_node(const tdm_graph *graph, const tdm_ir_node *node, const char *text) {
  uint64_t hash = hash_attributes(node, tdm_hash_string(text, 0));
  hash = tdm_hash_mix(hash, (uint64_t)node->condition << 32 | (uint64_t)node->update_group << 8 |
                                node->role);
  for (uint32_t k = 0; k < node->input_count; k++) {
    const tdm_ir_value *input = tdm_ir_value_at(graph, node->inputs[k]);
    const char *name = node->inputs[k] ? tdm_value_name(graph, node->inputs[k]) : "";
    hash = tdm_hash_mix(tdm_hash_string(name, hash), (uint64_t)input->device);
    if (node->inputs[k]) hash = hash_beginning(graph, input, hash);
  }
  for (uint32_t k = 0; k < node->output_count; k++) {
    const tdm_ir_value *output = tdm_ir_value_at(graph, node->first_output + k);
    hash = tdm_hash_mix(hash, output->bytes);
    hash = tdm_hash_mix(hash, output->offset);
    hash = tdm_hash_mix(hash, (uint64_t)output->spec->dtype << 8 | (uint64_t)output->spec->format);
  }
  return hash;
}

/* Hashes the indices of all nodes and values, which identify messages. They form a line of their
 * own, the last one. */
static uint64_t hash_numbers(const tdm_graph *graph) {
  uint64_t hash = 0;
  TDM_EACH_NODE(graph, node) {
    hash = tdm_hash_mix(hash, (uint64_t)node->index << 32 | node->first_output);
    for (uint32_t k = 0; k < node->input_count; k++)
      hash = tdm_hash_mix(hash, node->inputs[k]);
    for (uint32_t k = 0; k < node->output_count; k++)
      hash = tdm_hash_mix(hash, tdm_ir_value_at(graph, node->first_output + k)->root);
  }
  return hash;
}

static void write_node(const tdm_graph *graph, const tdm_ir_node *node, char *text) {
  char shape[TDM_SHAPE_TEXT];
  const tdm_spec *spec = tdm_ir_value_at(graph, node->first_output)->spec;
  (void)snprintf(text, LINE_TEXT, "%.80s: %s, %s %s, on %s", node->name,
                 node->operation ? node->operation->name : "transfer", tdm_dtype_name(spec->dtype),
                 tdm_shape_text(&spec->shape, shape, sizeof shape),
                 tdm_context_device(graph->context, (size_t)node->device)->name);
}

/* Writes the first line: the properties of the plan as a whole. */
static void write_head(const tdm_plan *plan, const tdm_plan_request *request, char *text) {
  (void)snprintf(text, LINE_TEXT,
                 "version %d.%d.%d, kernels for %s, %s, seed %llu, depth %u, %s, %zu parts, "
                 "%zu deliveries",
                 TDM_VERSION_MAJOR, TDM_VERSION_MINOR, TDM_VERSION_PATCH,
                 tdm_context_instructions(plan->graph.context),
                 plan->training ? "training" : "evaluation", (unsigned long long)request->seed,
                 request->depth, request->deterministic ? "deterministic" : "not deterministic",
                 plan->micro_count, plan->delivery_count);
}

static uint64_t hash_lines(const tdm_plan *plan, uint64_t *hashes) {
  const tdm_graph *graph = &plan->graph;
  char text[LINE_TEXT];
  size_t line = 0;
  hashes[line++] = tdm_hash_string(plan->head, 0);
  TDM_EACH_NODE(graph, node) {
    write_node(graph, node, text);
    hashes[line++] = hash_node(graph, node, text);
  }
  hashes[line++] = hash_numbers(graph);
  return tdm_hash_bytes(hashes, line * sizeof *hashes, 0);
}

static size_t line_count(const tdm_plan *plan) {
  return 2 + plan->graph.order.count;
}

static uint64_t *take_hashes(const tdm_plan *plan) {
  return tdm_allocate(plan->graph.allocator, line_count(plan) * sizeof(uint64_t), "a digest");
}

static void release_hashes(const tdm_plan *plan, uint64_t *hashes) {
  tdm_release(plan->graph.allocator, hashes, line_count(plan) * sizeof(uint64_t));
}

tdm_status tdm_plan_digest(tdm_plan *plan, const tdm_plan_request *request) {
  char *head = tdm_region_take(&plan->region, LINE_TEXT, "plan");
  uint64_t *hashes = take_hashes(plan);
  if (!head || !hashes) {
    release_hashes(plan, hashes);
    return TDM_OUT_OF_MEMORY;
  }
  write_head(plan, request, head);
  plan->head = head;
  plan->digest = hash_lines(plan, hashes);
  release_hashes(plan, hashes);
  return TDM_OK;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

typedef struct comparison {
  const tdm_plan *plan;
  tdm_network *network;
  size_t rank_count;
  const uint64_t *hashes; /* (line_count), of this rank */
  rank_digest *digests;   /* (rank_count) */
  uint64_t *told;         /* (rank_count, LINES_AT_ONCE) */
  char *texts;            /* (rank_count, LINE_TEXT) */
} comparison;

/* Returns the lowest rank whose hash differs from that of rank 0, or 0. */
static size_t odd_one(const uint64_t *told, size_t stride, size_t rank_count) {
  for (size_t r = 1; r < rank_count; r++)
    if (told[r * stride] != told[0]) return r;
  return 0;
}

/* Finds the first line in which a rank differs from rank 0, and the lowest such rank. A line that a
 * rank lacks has hash 0. The last line of the shorter plan occurs nowhere in the longer one, so
 * lines after rank 0's last one need no comparison. */
static tdm_status find_difference(comparison *with, uint64_t *out_line, size_t *out_rank) {
  uint64_t own[LINES_AT_ONCE];
  for (uint64_t begin = 0; begin < with->digests[0].line_count; begin += LINES_AT_ONCE) {
    for (uint64_t i = 0; i < LINES_AT_ONCE; i++)
      own[i] = begin + i < line_count(with->plan) ? with->hashes[begin + i] : 0;
    TDM_TRY(tdm_network_gather(with->network, own, sizeof own, with->told));
    for (uint64_t i = 0; i < LINES_AT_ONCE; i++) {
      *out_rank = odd_one(with->told + i, LINES_AT_ONCE, with->rank_count);
      *out_line = begin + i;
      if (*out_rank != 0) return TDM_OK;
    }
  }
  return tdm_fail(TDM_INTERNAL, "the ranks' plans have different digests and the same lines");
}

static void write_line(const tdm_plan *plan, uint64_t line, char *text) {
  memset(text, 0, LINE_TEXT);
  if (line == 0) {
    (void)snprintf(text, LINE_TEXT, "%s", plan->head);
    return;
  }
  const bool last = line + 1 == line_count(plan);
  (void)snprintf(text, LINE_TEXT, "%s", last ? "an end of its plan" : "nothing");
  uint64_t at = 1;
  TDM_EACH_NODE(&plan->graph, node)
    if (at++ == line) write_node(&plan->graph, node, text);
}

static tdm_status tell_difference(comparison *with) {
  uint64_t line = 0;
  size_t odd = 0;
  char own[LINE_TEXT];
  TDM_TRY(find_difference(with, &line, &odd));
  write_line(with->plan, line, own);
  TDM_TRY(tdm_network_gather(with->network, own, sizeof own, with->texts));
  const char *first = with->texts;
  const char *second = with->texts + odd * LINE_TEXT;
  const bool same = strcmp(first, second) == 0;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "the ranks' plans differ: rank 0 has %.*s; rank %zu has %.*s%s", LINE_TEXT - 1,
                  first, odd, LINE_TEXT - 1, same ? "the same" : second,
                  same ? " with other attributes or inputs" : "");
}

static tdm_status compare(comparison *with) {
  const rank_digest own = {with->plan->digest, line_count(with->plan)};
  TDM_TRY(tdm_network_gather(with->network, &own, sizeof own, with->digests));
  const size_t stride = sizeof(rank_digest) / sizeof(uint64_t);
  if (odd_one(&with->digests[0].digest, stride, with->rank_count) == 0) return TDM_OK;
  return tell_difference(with);
}

tdm_status tdm_plan_agree(tdm_plan *plan) {
  tdm_region region;
  tdm_region_init(&region, plan->graph.allocator);
  comparison with = {.plan = plan, .network = tdm_context_network(plan->graph.context)};
  with.rank_count = (size_t)tdm_network_rank_count(with.network);
  uint64_t *hashes = tdm_region_take(&region, line_count(plan) * sizeof *hashes, "a digest");
  with.hashes = hashes;
  with.digests = tdm_region_take(&region, with.rank_count * sizeof *with.digests, "digests");
  with.told =
      tdm_region_take(&region, with.rank_count * LINES_AT_ONCE * sizeof(uint64_t), "digests");
  with.texts = tdm_region_take(&region, with.rank_count * LINE_TEXT, "digests");
  tdm_status status = TDM_OUT_OF_MEMORY;
  const char *before = tdm_network_intend(with.network, TDM_INTENT_COMPARE);
  if (!region.failed) {
    (void)hash_lines(plan, hashes);
    status = compare(&with);
  }
  tdm_region_deinit(&region);
  for (size_t i = 0; i < plan->group_count && status == TDM_OK; i++)
    status = tdm_group_join(plan->graph.context, plan->groups[i]);
  (void)tdm_network_intend(with.network, before);
  plan->agreed = status == TDM_OK;
  return status;
}
