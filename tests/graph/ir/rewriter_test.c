/* The functions that change a graph, one by one and at random. Invariant: after each of them nodes
 * are linked both ways as in a plain list of them, and every value has the right number of
 * readers. */
#include "graph/ir/rewriter.h"
#include "tests/graph/support.h"

enum { MOST_NODES = 256, WALKS = 200, VERBS = 120 };

static tdm_context *context; /* context of the test group */
static tdm_graph graph;      /* graph of the running test */
static uint32_t x;           /* input of the graph, (4) */

/* The nodes' indices, in order, as they have to be. */
static uint32_t order[MOST_NODES];
static size_t order_count;

static int begin_group(void **unused) {
  (void)unused;
  context = graph_context();
  return 0;
}

static int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

static int begin_graph(void **unused) {
  (void)unused;
  assert_ok(tdm_graph_init(&graph, context));
  static const tdm_spec four = {.dtype = TDM_FLOAT32, .shape = {1, {4}}};
  const tdm_ir_value fed = {.spec = &four, .bytes = 16, .kind = TDM_VALUE_INPUT, .name = "x"};
  x = tdm_ir_add_value(&graph, &fed);
  assert_int_not_equal(x, 0);
  order_count = 0;
  return 0;
}

static int end_graph(void **unused) {
  (void)unused;
  tdm_graph_deinit(&graph);
  return 0;
}

/* ---- The list, and what must hold ------------------------------------------------------------ */

static void list_put(size_t at, uint32_t node) {
  assert_true(order_count < MOST_NODES);
  memmove(&order[at + 1], &order[at], (order_count - at) * sizeof *order);
  order[at] = node;
  order_count++;
}

static uint32_t list_take(size_t at) {
  const uint32_t node = order[at];
  order_count--;
  memmove(&order[at], &order[at + 1], (order_count - at) * sizeof *order);
  return node;
}

static tdm_ir_node *nth(size_t at) {
  return at < order_count ? tdm_ir_node_at(&graph, order[at]) : NULL;
}

static void expect_whole(void) {
  uint32_t readers[4 * MOST_NODES] = {0};
  size_t count = 0;
  const tdm_ir_node *before = NULL;
  TDM_EACH_NODE(&graph, node) {
    assert_true(count < order_count);
    assert_int_equal(node->index, order[count++]);
    assert_ptr_equal(node->previous, before);
    before = node;
    for (uint32_t k = 0; k < node->input_count; k++)
      readers[node->inputs[k]]++;
    for (uint32_t k = 0; k < node->output_count; k++)
      assert_int_equal(tdm_ir_value_at(&graph, node->first_output + k)->producer, node->index);
  }
  assert_int_equal(count, order_count);
  assert_int_equal(graph.order.count, order_count);
  assert_ptr_equal(graph.order.last, before);
  TDM_EACH_NODE_BACKWARD(&graph, node)
    assert_int_equal(node->index, order[--count]);
  assert_int_equal(count, 0);
  for (uint32_t v = 1; v < graph.values.count; v++)
    assert_int_equal(tdm_ir_value_at(&graph, v)->readers, readers[v]);
}

/* Inserts the sum of two values before the node at that place in the list. Returns the sum. */
static uint32_t insert_at(size_t at, uint32_t a, uint32_t b) {
  const tdm_insertion there = {.before = nth(at), .name = "sum", .device = 0};
  const uint32_t inputs[] = {a, b};
  const uint32_t made = tdm_insert(&graph, &there, &tdm_operation_accumulate, NULL, inputs, 2);
  if (!made) fail_msg("%s", tdm_last_message());
  list_put(at, tdm_producer(&graph, made)->index);
  return made;
}

/* Inserts `count` sums in sequence, each with x as both operands. */
static void insert_some(size_t count) {
  for (size_t i = 0; i < count; i++)
    (void)insert_at(order_count, x, x);
}

/* ---- One by one ------------------------------------------------------------------------------ */

static void a_node_stands_where_it_is_inserted_and_as_what(void **unused) {
  (void)unused;
  const uint32_t last = insert_at(0, x, x);
  const tdm_insertion at = {.before = tdm_producer(&graph, last),
                            .name = "layer",
                            .device = 1,
                            .part = {.replica = 2, .micro = 3},
                            .role = TDM_ROLE_GRADIENT};
  const uint32_t made = tdm_insert(&graph, &at, &tdm_operation_accumulate, NULL, &last, 1);
  const tdm_ir_node *node = tdm_producer(&graph, made);
  list_put(0, node->index);
  expect_whole();
  assert_string_equal(tdm_value_name(&graph, made), "layer");
  assert_string_equal(tdm_value_name(&graph, x), "x");
  assert_int_equal(node->device, 1);
  assert_int_equal(node->part.replica, 2);
  assert_int_equal(node->part.micro, 3);
  assert_ptr_equal(tdm_first_of_role(&graph, TDM_ROLE_GRADIENT), node);
  assert_null(tdm_first_of_role(&graph, TDM_ROLE_UPDATE));
  const tdm_shape shape = tdm_ir_value_at(&graph, made)->spec->shape;
  assert_true(shape.rank == 1 && shape.dims[0] == 4);
}

/* The walk skips nodes that are inserted directly after the present one, which may be removed. */
static void a_walk_goes_on_while_the_graph_changes(void **unused) {
  (void)unused;
  insert_some(6);
  size_t visited = 0;
  TDM_EACH_NODE(&graph, node) {
    const size_t at = visited++;
    if (at % 2) continue;
    const tdm_insertion behind = {.before = node->next, .name = "sum", .device = 0};
    (void)tdm_insert(&graph, &behind, &tdm_operation_accumulate, NULL, &x, 1);
    tdm_remove_node(&graph, node);
  }
  assert_int_equal(visited, 6);
  for (size_t i = 0; i < 3; i++) /* 7 to 9 were added, each in place of a removed one */
    order[2 * i] = order[order_count - 1] + 1 + (uint32_t)i;
  expect_whole();
}

static void what_begins_at_a_node_passes_over_the_others(void **unused) {
  (void)unused;
  insert_some(5);
  size_t at = 2;
  TDM_EACH_NODE_FROM(nth(2), node)
    assert_ptr_equal(node, nth(at++));
  assert_int_equal(at, 5);
  at = 3;
  TDM_EACH_NODE_BACKWARD_FROM(nth(2), node)
  assert_ptr_equal(node, nth(--at));
  assert_int_equal(at, 0);
  TDM_EACH_NODE_BACKWARD_FROM(NULL, node)
  fail_msg("node %u", node->index);
}

static void sorting_keeps_the_order_of_a_rank_and_what_is_behind_the_end(void **unused) {
  (void)unused;
  insert_some(6);
  uint32_t ranks[MOST_NODES] = {0};
  static const uint32_t given[] = {2, 0, 2, 1, 0, 0}, sorted[] = {1, 3, 0, 2, 4, 5};
  uint32_t wanted[6];
  for (size_t i = 0; i < 6; i++) {
    ranks[order[i]] = given[i];
    wanted[i] = order[sorted[i]];
  }
  assert_ok(tdm_sort_nodes(&graph, nth(4), ranks, 3));
  memcpy(order, wanted, sizeof wanted);
  expect_whole();
  assert_ok(tdm_sort_nodes(&graph, NULL, ranks, 3)); /* sorts all nodes: 1 4 5, 3, 0 2 */
  static const size_t of_all[] = {0, 4, 5, 1, 2, 3};
  for (size_t i = 0; i < 6; i++)
    wanted[i] = order[of_all[i]];
  memcpy(order, wanted, sizeof wanted);
  expect_whole();
}

static void values_are_replaced_wherever_they_are_meant(void **unused) {
  (void)unused;
  const uint32_t old = insert_at(0, x, x), better = insert_at(1, x, x), kept = insert_at(2, x, x);
  const uint32_t reader = insert_at(3, old, kept);
  tdm_ir_value_at(&graph, kept)->root = old;
  uint32_t by[MOST_NODES] = {0};
  by[old] = better;
  const uint32_t delivered[] = {kept, old, reader};
  assert_ok(TDM_ARRAY_RESERVE(&graph, &graph.planned->deliveries, 3));
  for (int i = 0; i < 3; i++)
    graph.planned->deliveries.items[graph.planned->deliveries.count++] =
        (tdm_graph_delivery){.value = delivered[i]};
  tdm_replace_values(&graph, by, old + 1);
  expect_whole();
  assert_int_equal(tdm_producer(&graph, reader)->inputs[0], better);
  assert_int_equal(tdm_producer(&graph, reader)->inputs[1], kept);
  assert_int_equal(tdm_ir_value_at(&graph, kept)->root, better);
  assert_int_equal(graph.planned->deliveries.items[0].value, kept);
  assert_int_equal(graph.planned->deliveries.items[1].value, better);
  assert_int_equal(graph.planned->deliveries.items[2].value, reader);
}

static void exchanged_outputs_have_each_others_producer(void **unused) {
  (void)unused;
  const uint32_t a = insert_at(0, x, x), b = insert_at(1, a, x);
  tdm_ir_node *first = tdm_producer(&graph, a), *second = tdm_producer(&graph, b);
  tdm_exchange_outputs(&graph, first, second);
  assert_ptr_equal(tdm_producer(&graph, a), second);
  assert_ptr_equal(tdm_producer(&graph, b), first);
  expect_whole();
}

static void what_overwrites_lies_where_its_input_does(void **unused) {
  (void)unused;
  const uint32_t total = insert_at(0, x, x);
  tdm_ir_value_at(&graph, total)->offset = 64;
  const uint32_t inputs[] = {total, x};
  const tdm_insertion behind = {.name = "sum", .device = 0};
  const uint32_t sum = tdm_insert(&graph, &behind, &tdm_operation_add_incoming, NULL, inputs, 2);
  const uint32_t seen = tdm_insert(&graph, &behind, &tdm_operation_observe, NULL, &sum, 1);
  assert_int_equal(tdm_ir_value_at(&graph, sum)->root, total);
  assert_int_equal(tdm_ir_value_at(&graph, sum)->offset, 64);
  assert_int_equal(tdm_ir_value_at(&graph, seen)->root, total);
  assert_int_equal(tdm_ir_value_at(&graph, seen)->offset, 64);
}

static void a_rule_appends_where_it_is_lent(void **unused) {
  (void)unused;
  insert_some(2);
  const tdm_insertion at = {.before = nth(1), .name = "lent", .role = TDM_ROLE_GRADIENT};
  const tdm_value input = tdm_ir_handle(&graph, x);
  tdm_lend_insertion(&graph, &at);
  const tdm_value made =
      tdm_append(&graph, &tdm_operation_accumulate, "rule", NULL, &input, 1, NULL);
  tdm_take_insertion_back(&graph);
  assert_ok(graph.status);
  list_put(1, tdm_producer(&graph, made.index)->index);
  expect_whole();
  assert_int_equal(nth(1)->role, TDM_ROLE_GRADIENT);
}

/* ---- At random ------------------------------------------------------------------------------- */

typedef struct numbers {
  tdm_random random;
  uint64_t next;
} numbers;

static uint32_t below(numbers *drawn, size_t limit) {
  return tdm_random_uint32(&drawn->random, drawn->next++) % (uint32_t)limit;
}

/* Returns the result of a node, or x. */
static uint32_t some_value(numbers *drawn) {
  const size_t at = below(drawn, order_count + 1);
  return at < order_count ? nth(at)->first_output : x;
}

static void one_verb(numbers *drawn) {
  const size_t at = below(drawn, order_count + 1);
  switch (order_count == 0 ? 0 : below(drawn, 4)) {
  case 0:
    (void)insert_at(at, some_value(drawn), some_value(drawn));
    break;
  case 1: {
    tdm_ir_node *node = nth(below(drawn, order_count));
    tdm_set_input(&graph, node, below(drawn, node->input_count), some_value(drawn));
    break;
  }
  case 2: {
    const size_t from = below(drawn, order_count);
    tdm_ir_node *node = nth(from), *before = nth(at);
    tdm_move_node(&graph, node, before);
    if (node == before) break;
    const uint32_t moved = list_take(from);
    list_put(at - (at > from), moved);
    break;
  }
  default: {
    const size_t from = below(drawn, order_count);
    const tdm_ir_node *node = nth(from);
    if (tdm_ir_value_at(&graph, node->first_output)->readers > 0) break;
    tdm_remove_node(&graph, tdm_ir_node_at(&graph, list_take(from)));
  }
  }
}

static void any_verbs_keep_the_order_and_the_readers(void **unused) {
  for (uint64_t seed = 1; seed <= WALKS; seed++) {
    numbers drawn = {.random = {.seed = seed, .stream = tdm_random_stream("verbs")}};
    for (int i = 0; i < VERBS; i++) {
      one_verb(&drawn);
      expect_whole();
    }
    end_graph(unused);
    begin_graph(unused);
  }
}

#define ON_A_GRAPH(test) cmocka_unit_test_setup_teardown(test, begin_graph, end_graph)

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_A_GRAPH(a_node_stands_where_it_is_inserted_and_as_what),
      ON_A_GRAPH(a_walk_goes_on_while_the_graph_changes),
      ON_A_GRAPH(what_begins_at_a_node_passes_over_the_others),
      ON_A_GRAPH(sorting_keeps_the_order_of_a_rank_and_what_is_behind_the_end),
      ON_A_GRAPH(values_are_replaced_wherever_they_are_meant),
      ON_A_GRAPH(exchanged_outputs_have_each_others_producer),
      ON_A_GRAPH(what_overwrites_lies_where_its_input_does),
      ON_A_GRAPH(a_rule_appends_where_it_is_lent),
      ON_A_GRAPH(any_verbs_keep_the_order_and_the_readers),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
