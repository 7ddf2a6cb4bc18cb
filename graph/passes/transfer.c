/* Transfers: each value that is read on another device gets one copy there.
 * - A separate queue carries the copy directly after the value exists, while the producer's device
 *   continues. Or the reader's compute queue fetches it directly before the read, so that nothing
 *   else waits; for updates, before the first of them.
 * - Between cpu devices, the producer's queue brings a value that only the caller reads to cpu:0. A
 *   value that stays on a device is delivered there.
 * - A route of several hops leaves a copy on each device along the way.
 * - Parameters get derived persistent copies, which are refreshed only when they are outdated.
 * - A term of a sum goes into a bucket of the reader's device, after the sum has emptied it.
 * Between cpu devices it is read in place. Invariant: one copy per (value, device). */
#include "devices/context/route.h"
#include "devices/links/links.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/device_sums.h"
#include "graph/passes/parts.h"
#include "graph/passes/passes.h"

typedef struct copy_entry {
  uint32_t value; /* the copy */
  uint32_t next;  /* next in this list, 0: last */
  int16_t device;
} copy_entry;

typedef struct transfer_state {
  tdm_graph *graph;
  size_t value_count;   /* number of values before the pass */
  uint64_t *wanted;     /* per value, set_words: devices that read a copy */
  uint64_t *passing;    /* the same: devices that read it once, to add it to a sum */
  size_t set_words;     /* words of a set of devices, one bit each */
  bool *read_elsewhere; /* per value: a node on another device reads it */
  uint32_t *copies;     /* per value: first of its list in entries */
  uint32_t *buckets;    /* per device, TDM_BUCKETS: value whose memory a bucket is; 0: none */
  bool *delivered;      /* per value: the caller reads it on cpu:0 */
  bool *pushed;         /* per value: its producer's compute queue carries its copy to cpu:0 */
  TDM_ARRAY(copy_entry) entries;
  bool chains;         /* copies of parameters may be made from other copies */
  tdm_ir_node *before; /* copies are inserted before it; NULL: at the end */
} transfer_state;

static uint64_t *set_of(const transfer_state *state, uint64_t *sets, uint32_t value,
                        int16_t device) {
  return &sets[value * state->set_words + (size_t)device / 64];
}

static bool has_device(const transfer_state *state, uint64_t *sets, uint32_t value,
                       int16_t device) {
  return *set_of(state, sets, value, device) >> (device % 64) & 1;
}

static uint32_t find_copy(const transfer_state *state, uint32_t value, int16_t device) {
  for (uint32_t at = state->copies[value]; at; at = state->entries.items[at].next)
    if (state->entries.items[at].device == device) return state->entries.items[at].value;
  return 0;
}

static tdm_node_role role_of(const tdm_graph *graph, const tdm_ir_value *value, bool for_node) {
  if (value->kind == TDM_VALUE_PERSISTENT || value->kind == TDM_VALUE_DERIVED)
    return for_node ? TDM_ROLE_REFRESH : TDM_ROLE_BOUNDARY;
  if (value->producer && tdm_ir_node_at(graph, value->producer)->role == TDM_ROLE_REFRESH)
    return TDM_ROLE_REFRESH;
  const bool fed = tdm_ir_value_at(graph, value->root)->kind == TDM_VALUE_INPUT;
  return fed || !for_node ? TDM_ROLE_BOUNDARY : TDM_ROLE_TRANSFER;
}

/* Makes the output of a refresh a derived persistent value. */
static tdm_status make_derived(transfer_state *state, uint32_t copy, uint32_t source) {
  tdm_graph *graph = state->graph;
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->planned->deriveds, 1));
  tdm_ir_value *value = tdm_ir_value_at(graph, copy);
  value->kind = TDM_VALUE_DERIVED;
  value->binding = (uint32_t)graph->planned->deriveds.count;
  graph->planned->deriveds.items[graph->planned->deriveds.count++] =
      (tdm_graph_derived){copy, source};
  return TDM_OK;
}

/* Returns true if the reader's compute queue carries the copy. */
static bool is_fetched(const tdm_graph *graph, uint32_t value, int16_t device) {
  const tdm_device *to = tdm_context_device(graph->context, (size_t)device);
  const int16_t from = tdm_ir_value_at(graph, value)->device;
  return tdm_direct_queue(tdm_context_device(graph->context, (size_t)from), to) ==
         to->queues[TDM_QUEUE_COMPUTE];
}

/* Returns the route of a value to a device. */
static tdm_route route_of(const tdm_graph *graph, uint32_t value, int16_t device) {
  const int16_t from = tdm_ir_value_at(graph, value)->device;
  return tdm_route_between(tdm_context_device(graph->context, (size_t)from),
                           tdm_context_device(graph->context, (size_t)device));
}

/* Appends one copy of `from` to device: a hop on the route of origin, the value that is copied. */
static tdm_status append_copy(transfer_state *state, uint32_t origin, uint32_t from, int16_t device,
                              tdm_node_role role, uint32_t hop, uint32_t *out_copy) {
  tdm_graph *graph = state->graph;
  const tdm_ir_value *source = tdm_ir_value_at(graph, from);
  const bool pushed = device == TDM_HOST_DEVICE && from < state->value_count && state->pushed[from];
  const tdm_ir_node like = {.name = tdm_value_name(graph, origin),
                            .transfer = {.hop = (uint8_t)hop, .pushed = pushed},
                            .input_count = 1,
                            .output_count = 1,
                            .device = device,
                            .role = (uint8_t)role};
  const tdm_ir_node *node = tdm_insert_as(graph, state->before, &like, &from, source->spec);
  if (!node) return TDM_OUT_OF_MEMORY;
  *out_copy = node->first_output;
  tdm_ir_value_at(graph, *out_copy)->bytes = source->bytes;
  return tdm_ir_value_at(graph, origin)->kind == TDM_VALUE_PERSISTENT && role == TDM_ROLE_REFRESH
             ? make_derived(state, *out_copy, origin)
             : TDM_OK;
}

static tdm_status note_copy(transfer_state *state, uint32_t value, int16_t device, uint32_t copy) {
  TDM_TRY(TDM_ARRAY_RESERVE(state->graph, &state->entries, 2));
  if (state->entries.count == 0) state->entries.count = 1;
  state->entries.items[state->entries.count] = (copy_entry){copy, state->copies[value], device};
  state->copies[value] = (uint32_t)state->entries.count++;
  return TDM_OK;
}

static double predict_ns(const tdm_graph *graph, int16_t from, int16_t to, double bytes,
                         tdm_link_predictor predict) {
  return tdm_context_route_ns(graph->context, tdm_context_device(graph->context, (size_t)from),
                              tdm_context_device(graph->context, (size_t)to), bytes, predict);
}

double tdm_predict_copy_ns(const tdm_graph *graph, int16_t from, int16_t to, double bytes) {
  return predict_ns(graph, from, to, bytes, tdm_link_predict_ns);
}

double tdm_predict_exchange_ns(const tdm_graph *graph, int16_t from, int16_t to, double bytes) {
  return predict_ns(graph, from, to, bytes, tdm_link_predict_both_ns);
}

/* Returns the source from which a derived copy is refreshed: the home, or, after the home has
 * served one copy, the copy that was made last. The latter requires that a copy from there takes no
 * longer and that most of its time is for its bytes. Then parameters go from device to device, and
 * the home sends each once. Rows of tables come from the home, and so do copies of tables. */
static uint32_t refreshed_from(const transfer_state *state, uint32_t value, int16_t device) {
  const tdm_graph *graph = state->graph;
  const tdm_ir_value *home = tdm_ir_value_at(graph, value);
  if (home->kind != TDM_VALUE_PERSISTENT || !state->copies[value] || !state->chains) return value;
  const copy_entry *latest = &state->entries.items[state->copies[value]];
  if (!tdm_direct_queue(tdm_context_device(graph->context, (size_t)latest->device),
                        tdm_context_device(graph->context, (size_t)device)))
    return value;
  for (size_t i = 0; i < graph->planned->row_conditions.count; i++)
    if (graph->planned->row_conditions.items[i].persistent == home->binding) return value;
  const double bytes = (double)home->bytes;
  const double peer_ns = tdm_predict_copy_ns(graph, latest->device, device, bytes);
  const bool pays = peer_ns >= 2 * tdm_predict_copy_ns(graph, latest->device, device, 0) &&
                    peer_ns > 0 &&
                    peer_ns <= tdm_predict_copy_ns(graph, home->device, device, bytes);
  return pays ? latest->value : value;
}

/* Copies value to device, and to each device on the route, unless there is a copy already. */
static tdm_status copy_to(transfer_state *state, uint32_t value, int16_t device, bool for_node,
                          uint32_t *out_copy) {
  tdm_graph *graph = state->graph;
  *out_copy = find_copy(state, value, device);
  if (*out_copy) return TDM_OK;
  const tdm_route route = route_of(graph, value, device);
  const tdm_node_role role = role_of(graph, tdm_ir_value_at(graph, value), for_node);
  uint32_t from = for_node && route.count == 1 ? refreshed_from(state, value, device) : value;
  for (uint32_t i = 0; i < route.count; i++) {
    const int16_t there = (int16_t)route.hops[i].to->context_index;
    *out_copy = find_copy(state, value, there);
    if (!*out_copy) {
      TDM_TRY(append_copy(state, value, from, there, role, i, out_copy));
      TDM_TRY(note_copy(state, value, there, *out_copy));
    }
    from = *out_copy;
  }
  return TDM_OK;
}

/* Writes the value of a device's bucket, with at least that many bytes. */
static tdm_status reserve_bucket(transfer_state *state, int16_t device, uint8_t number,
                                 uint64_t bytes, uint32_t *out_bucket) {
  tdm_graph *graph = state->graph;
  uint32_t *bucket = &state->buckets[device * TDM_BUCKETS + number];
  if (!*bucket) {
    static const tdm_spec spec = {.dtype = TDM_UINT8};
    const tdm_ir_value value = {.spec = &spec, .device = device};
    *bucket = tdm_ir_add_value(graph, &value);
    if (!*bucket) return TDM_OUT_OF_MEMORY;
  }
  tdm_ir_value *value = tdm_ir_value_at(graph, *bucket);
  if (value->bytes < bytes) value->bytes = bytes;
  *out_bucket = *bucket;
  return TDM_OK;
}

/* Copies value into a bucket of device, and of each device on the route. Such a copy has no other
 * reader, because the next one overwrites it. */
static tdm_status pass_to(transfer_state *state, uint32_t value, int16_t device, uint8_t number,
                          uint32_t *out_copy) {
  tdm_graph *graph = state->graph;
  const tdm_route route = route_of(graph, value, device);
  const uint64_t bytes = tdm_ir_value_at(graph, value)->bytes;
  uint32_t from = value;
  for (uint32_t i = 0; i < route.count; i++) {
    const int16_t there = (int16_t)route.hops[i].to->context_index;
    uint32_t bucket;
    TDM_TRY(append_copy(state, value, from, there, TDM_ROLE_TRANSFER, i, out_copy));
    TDM_TRY(reserve_bucket(state, there, number, bytes, &bucket));
    tdm_ir_value_at(graph, *out_copy)->root = bucket;
    from = *out_copy;
  }
  return TDM_OK;
}

bool tdm_shares_memory(const tdm_graph *graph, int16_t from, int16_t reader) {
  const tdm_device *source = tdm_context_device(graph->context, (size_t)from);
  const tdm_device *target = tdm_context_device(graph->context, (size_t)reader);
  return source != target && source->host_addressable && tdm_device_same_kind(source, target);
}

bool tdm_reads_in_place(const tdm_graph *graph, const tdm_ir_node *node, uint32_t k) {
  if (node->sum_role != TDM_SUM_ADD || k != 1) return false;
  const uint32_t term = node->inputs[k];
  return tdm_shares_memory(graph, tdm_ir_value_at(graph, term)->device, node->device);
}

static tdm_status copies_of(transfer_state *state, uint32_t value) {
  const int device_count = (int)tdm_device_count(state->graph->context);
  const bool made = tdm_ir_value_at(state->graph, value)->producer != 0;
  uint32_t pushed;
  if (state->pushed[value])
    TDM_TRY(copy_to(state, value, TDM_HOST_DEVICE, !state->delivered[value], &pushed));
  for (int16_t d = 0; state->read_elsewhere[value] && d < device_count; d++) {
    if (!has_device(state, state->wanted, value, d)) continue;
    uint32_t copy;
    if (has_device(state, state->passing, value, d)) continue;
    if (!made || !is_fetched(state->graph, value, d))
      TDM_TRY(copy_to(state, value, d, true, &copy));
  }
  return TDM_OK;
}

/* Returns true if input k is sent into a bucket: a term of a sum, unless the reader's queue fetches
 * it. Values that it fetches share memory in any case. */
static bool is_passing(const tdm_graph *graph, const tdm_ir_node *node, uint32_t k) {
  const tdm_sum_role role = (tdm_sum_role)node->sum_role;
  const bool is_term =
      role == TDM_SUM_BEGIN || role == TDM_SUM_RECEIVE || (role == TDM_SUM_ADD && k == 1);
  return is_term && !is_fetched(graph, node->inputs[k], node->device);
}

static void note_reader(transfer_state *state, const tdm_ir_node *node, uint32_t k) {
  const uint32_t input = node->inputs[k];
  const uint64_t bit = UINT64_C(1) << (node->device % 64);
  uint64_t *wanted = set_of(state, state->wanted, input, node->device);
  uint64_t *passing = set_of(state, state->passing, input, node->device);
  if (*wanted & bit)
    *passing &= ~bit;
  else if (is_passing(state->graph, node, k))
    *passing |= bit;
  *wanted |= bit;
}

static void find_wanted(transfer_state *state) {
  const tdm_graph *graph = state->graph;
  TDM_EACH_NODE(graph, node) {
    const uint32_t *inputs = node->inputs;
    for (uint32_t k = 0; k < node->input_count; k++) {
      if (!inputs[k] || tdm_ir_value_at(graph, inputs[k])->device == node->device) continue;
      if (tdm_reads_in_place(graph, node, k)) continue;
      note_reader(state, node, k);
      state->read_elsewhere[inputs[k]] = true;
    }
  }
}

/* Returns true if the node concatenates on cpu:0 what the caller reads. */
static bool gathers_delivery(const transfer_state *state, const tdm_ir_node *node) {
  return node->device == TDM_HOST_DEVICE && node->operation == &tdm_operation_concat &&
         state->delivered[node->first_output];
}

/* Marks values between cpu devices that only the caller reads, directly or after concatenation. */
static void find_pushed(transfer_state *state, bool *read_by_host) {
  const tdm_graph *graph = state->graph;
  for (uint32_t v = 1; v < state->value_count; v++)
    state->pushed[v] = state->delivered[v];
  TDM_EACH_NODE(graph, node) {
    const uint32_t *inputs = node->inputs;
    const bool gathers = gathers_delivery(state, node);
    for (uint32_t k = 0; node->device == TDM_HOST_DEVICE && k < node->input_count; k++)
      (gathers ? state->pushed : read_by_host)[inputs[k]] = true;
  }
  for (uint32_t v = 1; v < state->value_count; v++) {
    const tdm_ir_value *value = tdm_ir_value_at(graph, v);
    state->pushed[v] = state->pushed[v] && !read_by_host[v] && value->producer &&
                       value->device != TDM_HOST_DEVICE && is_fetched(graph, v, TDM_HOST_DEVICE);
  }
}

/* Returns the condition that a copy of the table lacks the rows of that update. */
static uint32_t any_condition(const tdm_graph *graph, uint32_t persistent, int32_t age) {
  size_t i = 0;
  while (graph->planned->row_conditions.items[i].persistent != persistent ||
         graph->planned->row_conditions.items[i].age != age)
    i++;
  return (uint32_t)i + 1;
}

/* Sets the condition of a copy of single rows: that of the reader, which writes them. On a device
 * that routes use, or along the way there, it is the condition of any copy. */
static void inherit_condition(tdm_graph *graph, const tdm_ir_node *reader, uint32_t copy) {
  const tdm_ir_value *value = tdm_ir_value_at(graph, copy);
  if (!reader->condition || value->kind == TDM_VALUE_DERIVED) return;
  const tdm_row_condition *own = &graph->planned->row_conditions.items[reader->condition - 1];
  tdm_ir_node *copier = tdm_ir_node_at(graph, value->producer);
  const bool shared = tdm_is_waypoint(tdm_context_device(graph->context, (size_t)value->device));
  copier->condition = shared ? any_condition(graph, own->persistent, own->age) : reader->condition;
  while (copier->transfer.hop > 0) {
    value = tdm_ir_value_at(graph, copier->inputs[0]);
    copier = tdm_ir_node_at(graph, value->producer);
    copier->condition = any_condition(graph, own->persistent, own->age);
  }
}

/* Sets the consumer of a copy, also of those along the way, to its first reader, or to the
 * caller. */
static void note_asker(tdm_graph *graph, const tdm_ir_node *reader, uint32_t copy) {
  tdm_ir_node *copier = tdm_producer(graph, copy);
  while (!copier->transfer.consumer) {
    copier->transfer.consumer = reader->index;
    if (copier->transfer.hop > 0) copier = tdm_producer(graph, copier->inputs[0]);
  }
}

/* Makes the node read the copies. Those that its queue fetches come directly before it. */
static tdm_status read_copies(transfer_state *state, tdm_ir_node *node) {
  tdm_graph *graph = state->graph;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t input = node->inputs[k];
    if (!input || tdm_ir_value_at(graph, input)->device == node->device) continue;
    if (tdm_reads_in_place(graph, node, k)) continue;
    uint32_t copy = 0;
    if (has_device(state, state->passing, input, node->device))
      TDM_TRY(pass_to(state, input, node->device, node->sum.bucket, &copy));
    else
      TDM_TRY(copy_to(state, input, node->device, true, &copy));
    tdm_set_input(graph, node, k, copy);
    note_asker(graph, node, copy);
    inherit_condition(graph, node, copy);
  }
  tdm_settle_outputs(graph, node);
  return TDM_OK;
}

/* Returns true if the run may deliver the value's own memory, on that device, and has not yet. */
static bool is_deliverable(const tdm_graph *graph, uint32_t value, int16_t device) {
  const tdm_ir_value *is = tdm_ir_value_at(graph, value);
  const tdm_ir_value *root = tdm_ir_value_at(graph, is->root);
  if (is->device != device || root->kind != TDM_VALUE_NODE) return false;
  return is->bytes == root->bytes && !root->handed_out; /* must not be a part of the root */
}

tdm_status tdm_delivery_device(const tdm_graph *graph, uint32_t value, int16_t wanted, int rank,
                               int16_t *out_device) {
  tdm_context *context = graph->context;
  const int16_t named = wanted == TDM_NO_DEVICE ? tdm_ir_value_at(graph, value)->device : wanted;
  const tdm_device *device = tdm_context_device(context, (size_t)named);
  const tdm_device *own = tdm_context_counterpart(context, device, rank);
  *out_device = own ? (int16_t)own->context_index : TDM_NO_DEVICE;
  if (device->rank != 0)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "output %s is made on %s, a device of rank %d, and is to stay there: say on "
                    "which device of rank 0 (tdm_output_on)",
                    tdm_value_name(graph, value), device->name, device->rank);
  if (own) return TDM_OK;
  return tdm_fail(TDM_UNAVAILABLE, "output %s is to be on %s, and rank %d has no such device",
                  tdm_value_name(graph, value), device->name, rank);
}

/* Creates the deliveries of one rank: replaces values by what it delivers. */
static tdm_status deliver_on(transfer_state *state, int rank, size_t count) {
  for (size_t i = (size_t)rank * count; i < ((size_t)rank + 1) * count; i++) {
    tdm_graph_delivery *delivery = &state->graph->planned->deliveries.items[i];
    const uint32_t value = delivery->value;
    int16_t device;
    TDM_TRY(tdm_delivery_device(state->graph, value, delivery->device, rank, &device));
    uint32_t copy = value;
    if (tdm_ir_value_at(state->graph, value)->device != device && value < state->value_count)
      TDM_TRY(copy_to(state, value, device, false, &copy));
    if (!is_deliverable(state->graph, copy, device)) {
      const bool pushed =
          device == TDM_HOST_DEVICE && value < state->value_count && state->pushed[value];
      const uint32_t from = pushed ? value : copy;
      TDM_TRY(append_copy(state, from, from, device, TDM_ROLE_BOUNDARY, 0, &copy));
    }
    delivery->value = copy;
    const uint32_t root = tdm_ir_value_at(state->graph, copy)->root;
    tdm_ir_value_at(state->graph, root)->handed_out = true;
  }
  return TDM_OK;
}

/* Delivers all values on each rank. */
static tdm_status deliver(transfer_state *state) {
  tdm_graph *graph = state->graph;
  const size_t count = graph->planned->deliveries.count;
  const int rank_count = tdm_context_rank_count(graph->context);
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->planned->deliveries, (size_t)rank_count * count));
  for (size_t i = count; i < (size_t)rank_count * count; i++)
    graph->planned->deliveries.items[graph->planned->deliveries.count++] =
        graph->planned->deliveries.items[i - count];
  for (int rank = 0; rank < rank_count; rank++)
    TDM_TRY(deliver_on(state, rank, count));
  return TDM_OK;
}

/* Inserts the copies that updates read before the first update, also those that queues fetch, since
 * the update phase contains only updates. Deliveries come before it too: they have the contents
 * that the run read. */
static tdm_status enter_updates(transfer_state *state, tdm_ir_node *first) {
  state->before = first;
  TDM_TRY(deliver(state));
  TDM_EACH_NODE_FROM(first, node)
    TDM_TRY(read_copies(state, node));
  return TDM_OK;
}

/* Returns the node before which copies of an output are inserted. Copies of an all-reduce's total
 * come after all its nodes, so that all ranks use the other ranks' terms in the same order. */
static tdm_ir_node *behind(const tdm_ir_node *node) {
  tdm_ir_node *next = node->next;
  while (node->sum_role == TDM_SUM_ALL_REDUCE && next && next->sum_role == TDM_SUM_ALL_REDUCE)
    next = next->next;
  return next;
}

static tdm_status rewrite(transfer_state *state) {
  tdm_graph *graph = state->graph;
  bool delivered = false;
  state->before = graph->order.first;
  for (uint32_t v = 1; v < state->value_count; v++)
    if (tdm_ir_value_at(graph, v)->producer == 0) TDM_TRY(copies_of(state, v));
  TDM_EACH_NODE(graph, node) {
    if (!node->operation) continue; /* a copy of a value without a producer */
    if (node->role == TDM_ROLE_UPDATE && !delivered) {
      TDM_TRY(enter_updates(state, node));
      delivered = true;
    }
    state->before = node;
    TDM_TRY(read_copies(state, node));
    state->before = behind(node);
    for (uint32_t k = 0; k < node->output_count; k++)
      TDM_TRY(copies_of(state, node->first_output + k));
  }
  state->before = NULL;
  return delivered ? TDM_OK : deliver(state);
}

static tdm_status transfer(transfer_state *state, tdm_region *scratch) {
  const size_t n = state->value_count;
  const size_t device_count = tdm_device_count(state->graph->context);
  state->set_words = (device_count + 63) / 64;
  const size_t set_bytes = n * state->set_words * sizeof(uint64_t);
  state->wanted = tdm_region_take(scratch, set_bytes, "transfers");
  state->passing = tdm_region_take(scratch, set_bytes, "transfers");
  state->read_elsewhere = tdm_region_take(scratch, n * sizeof(bool), "transfers");
  state->copies = tdm_region_take(scratch, n * sizeof(uint32_t), "transfers");
  state->buckets =
      tdm_region_take(scratch, device_count * TDM_BUCKETS * sizeof(uint32_t), "transfers");
  state->delivered = tdm_region_take(scratch, n * sizeof(bool), "transfers");
  state->pushed = tdm_region_take(scratch, n * sizeof(bool), "transfers");
  bool *read_by_host = tdm_region_take(scratch, n * sizeof(bool), "transfers");
  if (!state->wanted || !state->passing || !state->read_elsewhere || !state->copies ||
      !state->buckets || !state->delivered || !state->pushed || !read_by_host)
    return TDM_OUT_OF_MEMORY;
  const tdm_graph *graph = state->graph;
  for (size_t i = 0; i < graph->planned->deliveries.count; i++)
    if (graph->planned->deliveries.items[i].device == TDM_HOST_DEVICE)
      state->delivered[graph->planned->deliveries.items[i].value] = true;
  find_wanted(state);
  find_pushed(state, read_by_host);
  return rewrite(state);
}

tdm_status tdm_pass_transfer(tdm_graph *graph, tdm_collective collective) {
  transfer_state state = {.graph = graph,
                          .value_count = graph->values.count,
                          .chains = collective != TDM_COLLECTIVE_HOME};
  tdm_region scratch;
  tdm_region_init(&scratch, graph->allocator);
  const tdm_status status = transfer(&state, &scratch);
  TDM_ARRAY_DEINIT(graph, &state.entries);
  tdm_region_deinit(&scratch);
  return status;
}
