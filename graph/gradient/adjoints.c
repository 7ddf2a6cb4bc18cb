/* Sums adjoints. The contributions to a value are summed per device and replica (`deterministic`:
 * per replica): micro-batch after micro-batch, and within each in consumer order. These sums are
 * then added in the order of their first consumer (so replicas in theirs) on the value's own
 * device, each as soon as it exists. Invariant: memory that is overwritten has no other reader. */
#include <assert.h>
#include <string.h>

#include "devices/kernels.h"
#include "graph/gradient/walk.h"
#include "graph/passes/device_sums.h"

enum {
  SUM_OPERANDS =
      16, /* per node: longer sums use several, so that not all terms are in memory together */
  MAX_SUMS = 128
};

uint32_t tdm_insert_constant(tdm_graph *graph, const tdm_insertion *at, double number,
                             uint32_t like) {
  tdm_fill_attributes fill;
  memset(&fill, 0, sizeof fill);
  fill.value = number;
  const uint32_t value = tdm_insert(graph, at, &tdm_operation_fill, &fill, &like, 1);
  /* The constant requires only the shape of the value, not the value itself: the backward pass of a
   * micro-batch may begin before another has its loss. */
  if (value) tdm_set_input(graph, tdm_producer(graph, value), 0, 0);
  return value;
}

static uint32_t sum_dense(tdm_graph *graph, const tdm_insertion *at, const uint32_t *values,
                          size_t count) {
  assert(count > 0);
  uint32_t total = values[0];
  for (size_t done = 1; done < count;) {
    uint32_t inputs[SUM_OPERANDS] = {total};
    size_t used = 1;
    while (used < SUM_OPERANDS && done < count)
      inputs[used++] = values[done++];
    total = tdm_insert(graph, at, &tdm_operation_accumulate, NULL, inputs, used);
  }
  return total;
}

static tdm_adjoint sum_sparse(tdm_graph *graph, const tdm_insertion *at, tdm_adjoint a,
                              tdm_adjoint b) {
  const uint32_t inputs[6] = {a.rows, a.indices, a.count, b.rows, b.indices, b.count};
  const uint32_t rows = tdm_insert(graph, at, &tdm_operation_sparse_add, NULL, inputs, 6);
  return (tdm_adjoint){.rows = rows, .indices = rows + 1, .count = rows + 2, .device = at->device};
}

static bool is_dense(const tdm_adjoint *adjoint) {
  return adjoint->dense != 0 || adjoint->added;
}

/* Returns true if both contribute to the same term of the sum: that of one device and replica. */
static bool same_term(const tdm_walk *walk, const tdm_adjoint *a, const tdm_adjoint *b) {
  return a->replica == b->replica && (walk->any_device || a->device == b->device);
}

/* Returns total with the rows added in place. */
static uint32_t add_rows(tdm_graph *graph, const tdm_insertion *at, uint32_t total,
                         const tdm_adjoint *of) {
  const uint32_t inputs[] = {total, of->rows, of->indices};
  return tdm_insert(graph, at, &tdm_operation_add_rows, NULL, inputs, 3);
}

/* Returns the rows of an adjoint of `value` in a tensor of zeros. */
static uint32_t spread_rows(tdm_graph *graph, const tdm_insertion *at, uint32_t value,
                            const tdm_adjoint *of) {
  return add_rows(graph, at, tdm_insert_constant(graph, at, 0, value), of);
}

uint32_t tdm_spread_adjoint(tdm_walk *walk, uint32_t value, const char *name,
                            const tdm_adjoint *adjoint) {
  const int16_t home = tdm_ir_value_at(walk->rule.graph, value)->device;
  const tdm_insertion at = tdm_adjoint_insertion(walk->before, name, home, 0);
  return spread_rows(walk->rule.graph, &at, value, adjoint);
}

/* Sums the contributions of one micro-batch to a term of `value`, in consumer order, in nodes of
 * limited size. A single contribution that consists of rows is returned unchanged. */
static tdm_adjoint sum_group(tdm_walk *walk, const tdm_insertion *at, uint32_t value,
                             const tdm_adjoint *term, uint32_t head) {
  tdm_graph *graph = walk->rule.graph;
  tdm_adjoint latest = {0};
  size_t count = 0;
  for (uint32_t i = head; i; i = walk->rule.adjoints.items[i].next) {
    const tdm_adjoint *adjoint = &walk->rule.adjoints.items[i];
    if (!same_term(walk, adjoint, term) || adjoint->micro != at->part.micro) continue;
    latest = *adjoint;
    count++;
  }
  if (count == 1 && latest.added) return latest;
  uint32_t batch[64];
  size_t used = 0;
  for (uint32_t i = head; i; i = walk->rule.adjoints.items[i].next) {
    const tdm_adjoint adjoint = walk->rule.adjoints.items[i];
    if (!same_term(walk, &adjoint, term) || adjoint.micro != at->part.micro) continue;
    if (used == TDM_COUNT_OF(batch)) {
      batch[0] = sum_dense(graph, at, batch, used);
      used = 1;
    }
    batch[used++] = adjoint.added ? spread_rows(graph, at, value, &adjoint) : adjoint.dense;
  }
  assert(used > 0); /* the term has at least one */
  return (tdm_adjoint){.dense = sum_dense(graph, at, batch, used)};
}

/* Returns the first micro-batch after `after` that contributes, or -1. term NULL: to any term. */
static int next_micro(const tdm_walk *walk, const tdm_adjoint *term, uint32_t head, int after) {
  int found = -1;
  for (uint32_t at = head; at; at = walk->rule.adjoints.items[at].next) {
    const tdm_adjoint *adjoint = &walk->rule.adjoints.items[at];
    if (adjoint->micro <= after || (found >= 0 && adjoint->micro >= found)) continue;
    if (!term || same_term(walk, adjoint, term)) found = adjoint->micro;
  }
  return found;
}

/* Returns true if only this sum reads the value, so that it may be overwritten. Other readers, and
 * other adjoints that the value is a contribution to, come after its producer. */
static bool is_own(const tdm_walk *walk, uint32_t value) {
  const tdm_graph *graph = walk->rule.graph;
  const tdm_ir_value *is = tdm_ir_value_at(graph, value);
  const tdm_ir_node *producer = tdm_producer(graph, value);
  if (is->root != value || is->readers > 0 || !producer || producer->role != TDM_ROLE_GRADIENT)
    return false;
  size_t contributions = 0;
  for (size_t i = 1; i < walk->rule.adjoints.count; i++)
    contributions += walk->rule.adjoints.items[i].dense == value;
  return contributions <= 1;
}

/* Adds sums of other devices and replicas on the value's own device; the pass collectives
 * determines how. If there are more terms than a node supports, the sum so far is the first term of
 * the next node. */
static uint32_t sum_devices(tdm_graph *graph, const tdm_insertion *at, const uint32_t *sums,
                            size_t count, bool late) {
  tdm_device_sum_attributes attributes = {.late = late && count <= TDM_KERNEL_MAX_INPUTS};
  uint32_t total = sums[0];
  for (size_t done = 1; done < count;) {
    uint32_t terms[TDM_KERNEL_MAX_INPUTS] = {total};
    size_t used = 1;
    while (used < TDM_KERNEL_MAX_INPUTS && done < count)
      terms[used++] = sums[done++];
    total = tdm_insert(graph, at, &tdm_operation_device_sum, &attributes, terms, used);
    attributes.owned = true;
  }
  return total;
}

/* Adds a micro-batch's part to the total of a term, in place if the total may be overwritten. */
static uint32_t add_part(tdm_walk *walk, const tdm_insertion *at, uint32_t total,
                         const tdm_adjoint *part, bool owned) {
  tdm_graph *graph = walk->rule.graph;
  if (graph->status != TDM_OK) return 0;
  owned = owned || is_own(walk, total);
  if (part->added) {
    if (!owned) total = tdm_insert(graph, at, &tdm_operation_accumulate, NULL, &total, 1);
    return add_rows(graph, at, total, part);
  }
  const uint32_t terms[2] = {total, part->dense};
  if (!owned) return sum_dense(graph, at, terms, 2);
  return tdm_insert(graph, at, &tdm_operation_add_incoming, NULL, terms, 2);
}

/* Sums one term. The part of a micro-batch is added as soon as it exists. */
static uint32_t sum_term(tdm_walk *walk, const char *name, uint32_t value, uint32_t head,
                         const tdm_adjoint *term) {
  uint32_t total = 0;
  bool owned = false;
  for (int micro = next_micro(walk, term, head, -1); micro >= 0;
       micro = next_micro(walk, term, head, micro)) {
    const tdm_insertion at = tdm_adjoint_insertion(walk->before, name, term->device, micro);
    const tdm_adjoint part = sum_group(walk, &at, value, term, head);
    if (total) {
      total = add_part(walk, &at, total, &part, owned);
      owned = true;
    } else {
      owned = part.added; /* the zeros are its own */
      total = part.added ? spread_rows(walk->rule.graph, &at, value, &part) : part.dense;
    }
  }
  return total;
}

static tdm_adjoint sum_all_sparse(tdm_walk *walk, const char *name, uint32_t head) {
  tdm_graph *graph = walk->rule.graph;
  tdm_adjoint total = {0};
  for (int micro = next_micro(walk, NULL, head, -1); micro >= 0;
       micro = next_micro(walk, NULL, head, micro)) {
    tdm_adjoint part = {0};
    for (uint32_t i = head; i; i = walk->rule.adjoints.items[i].next) {
      const tdm_adjoint adjoint = walk->rule.adjoints.items[i];
      if (adjoint.micro != micro) continue;
      const tdm_insertion at = tdm_adjoint_insertion(walk->before, name, part.device, micro);
      part = part.rows ? sum_sparse(graph, &at, part, adjoint) : adjoint;
    }
    const tdm_insertion at = tdm_adjoint_insertion(walk->before, name, total.device, micro);
    total = total.rows ? sum_sparse(graph, &at, total, part) : part;
  }
  return total;
}

static tdm_status sum_all_dense(tdm_walk *walk, uint32_t value, const char *name, uint32_t head,
                                uint32_t *out_sum) {
  tdm_adjoint firsts[MAX_SUMS];
  uint32_t sums[MAX_SUMS];
  size_t sum_count = 0;
  walk->any_device = walk->deterministic;
  for (uint32_t at = head; at; at = walk->rule.adjoints.items[at].next)
    walk->any_device &= !walk->rule.adjoints.items[at].added; /* rows need the total */
  for (uint32_t at = head; at; at = walk->rule.adjoints.items[at].next) {
    const tdm_adjoint adjoint = walk->rule.adjoints.items[at];
    size_t k = 0;
    while (k < sum_count && !same_term(walk, &firsts[k], &adjoint))
      k++;
    if (k < sum_count) continue;
    if (sum_count == MAX_SUMS)
      return tdm_fail(TDM_UNSUPPORTED, "%s: used by more than %d devices and replicas", name,
                      MAX_SUMS);
    firsts[sum_count] = adjoint;
    sums[sum_count++] = sum_term(walk, name, value, head, &adjoint);
  }
  const int16_t home = tdm_ir_value_at(walk->rule.graph, value)->device;
  const tdm_insertion at = tdm_adjoint_insertion(walk->before, name, home, 0);
  const bool late = tdm_ir_value_at(walk->rule.graph, value)->kind == TDM_VALUE_PERSISTENT &&
                    !(walk->before && walk->asked[value]);
  *out_sum = sum_devices(walk->rule.graph, &at, sums, sum_count, late);
  return TDM_OK;
}

/* Makes the adjoint dense if there are dense contributions; rows are then added to these. */
static bool settle_kind(tdm_walk *walk, uint32_t head) {
  tdm_adjoint *adjoints = walk->rule.adjoints.items;
  bool dense = false;
  for (uint32_t at = head; at; at = adjoints[at].next)
    dense |= is_dense(&adjoints[at]);
  for (uint32_t at = head; at && dense; at = adjoints[at].next)
    adjoints[at].added |= !is_dense(&adjoints[at]);
  return dense;
}

tdm_status tdm_sum_adjoints(tdm_walk *walk, uint32_t value, const char *name, tdm_adjoint *out) {
  memset(out, 0, sizeof *out);
  const uint32_t head = walk->rule.heads[value];
  if (!head) return TDM_OK;
  if (settle_kind(walk, head))
    TDM_TRY(sum_all_dense(walk, value, name, head, &out->dense));
  else
    *out = sum_all_sparse(walk, name, head);
  return tdm_graph_status(walk->rule.graph);
}
