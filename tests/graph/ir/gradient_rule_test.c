/* Tests the node that a gradient rule receives, and the checks of the adjoints that the rule sets.
 * An adjoint must be for a required input, of this graph, and of the right dtype and shape. */
#include "graph/ir/gradient_rule.h"
#include "tests/graph/group.h"
#include "tests/support/faulty_allocator.h"

enum { TABLE = 1, OTHER, Y, Z, ROWS, MORE, NARROW, WHOLE, FLAT, IDS, FEW, COUNT, HALF, VALUES };

static const tdm_spec specs[VALUES] = {
    [TABLE] = {.dtype = TDM_FLOAT32, .shape = {2, {10, 3}}},
    [OTHER] = {.dtype = TDM_FLOAT32, .shape = {1, {4}}},
    [Y] = {.dtype = TDM_FLOAT32, .shape = {2, {4, 3}}},
    [Z] = {.dtype = TDM_FLOAT32, .shape = {2, {10, 3}}},
    [ROWS] = {.dtype = TDM_FLOAT32, .shape = {2, {4, 3}}},
    [MORE] = {.dtype = TDM_FLOAT32, .shape = {2, {0, 3}}}, /* symbolic number of rows */
    [NARROW] = {.dtype = TDM_FLOAT32, .shape = {2, {4, 1}}},
    [WHOLE] = {.dtype = TDM_INT64, .shape = {2, {4, 3}}},
    [FLAT] = {.dtype = TDM_FLOAT32, .shape = {1, {4}}},
    [IDS] = {.dtype = TDM_INT64, .shape = {1, {4}}},
    [FEW] = {.dtype = TDM_INT64, .shape = {1, {3}}},
    [COUNT] = {.dtype = TDM_INT64},
    [HALF] = {.dtype = TDM_FLOAT32},
};

enum { FOREIGN = 100 }; /* added to a value: belongs to another graph */

/* The graph of the running test: a node of (table, other, nothing) with two outputs. The first
 * output has an adjoint, and the table's is required. */
static tdm_graph graph;
static tdm_gradient gradient;
static tdm_ir_node node;
static uint32_t heads[VALUES];
static uint8_t wanted[VALUES];

static int begin(void **unused) {
  static const tdm_operation mine = {.name = "mine"};
  static const uint32_t inputs[] = {TABLE, OTHER, 0};
  static const int attributes = 1;
  (void)unused;
  assert_ok(tdm_graph_init(&graph, context));
  for (uint32_t v = 1; v < VALUES; v++) {
    tdm_spec spec = specs[v];
    if (v == MORE) spec.shape.dims[0] = TDM_DIM("n");
    const tdm_ir_value value = {.spec = tdm_ir_share_spec(&graph, &spec), .kind = TDM_VALUE_INPUT};
    assert_int_equal(tdm_ir_add_value(&graph, &value), v);
  }
  memset(heads, 0, sizeof heads);
  memset(wanted, 0, sizeof wanted);
  wanted[TABLE] = 1;
  node = (tdm_ir_node){.operation = &mine,
                       .name = "layer",
                       .attributes = &attributes,
                       .inputs = inputs,
                       .input_count = TDM_COUNT_OF(inputs),
                       .first_output = Y,
                       .output_count = 2,
                       .device = 3,
                       .part = {.replica = 2, .micro = 5}};
  memset(&gradient, 0, sizeof gradient);
  gradient.graph = &graph;
  gradient.node = &node;
  gradient.heads = heads;
  gradient.wanted = wanted;
  gradient.d_outputs[0] = ROWS;
  gradient.d_outputs[TDM_KERNEL_MAX_OUTPUTS - 1] = NARROW;
  gradient.adjoints.items = NULL;
  assert_ok(TDM_ARRAY_RESERVE(&graph, &gradient.adjoints, 1));
  gradient.adjoints.count = 1; /* the first is none */
  return 0;
}

static int end(void **unused) {
  (void)unused;
  TDM_ARRAY_DEINIT(&graph, &gradient.adjoints);
  tdm_graph_deinit(&graph);
  return 0;
}

static tdm_value handle(uint32_t value) {
  if (value == 0) return (tdm_value){0, 0};
  return value > FOREIGN ? (tdm_value){graph.tag + 1, value - FOREIGN}
                         : (tdm_value){graph.tag, value};
}

static void assert_value(tdm_value found, uint32_t value) {
  assert_int_equal(found.index, value);
  assert_int_equal(found.graph, value ? graph.tag : 0);
}

/* ---- Queries of a rule ----------------------------------------------------------------------- */

static void a_rule_sees_its_node(void **unused) {
  (void)unused;
  assert_ptr_equal(tdm_gradient_graph(&gradient), &graph);
  assert_string_equal(tdm_gradient_name(&gradient), "layer");
  assert_ptr_equal(tdm_gradient_attributes(&gradient), node.attributes);
  assert_int_equal(tdm_gradient_micro_batch(&gradient), 5);
  static const uint32_t inputs[] = {TABLE, OTHER, 0, 0}, outputs[] = {Y, Z, 0, 0},
                        adjoints[] = {ROWS, 0, 0, 0};
  for (size_t i = 0; i < 4; i++) {
    assert_value(tdm_gradient_input(&gradient, i), inputs[i]);
    assert_value(tdm_gradient_output(&gradient, i), outputs[i]);
    assert_value(tdm_gradient_of_output(&gradient, i), adjoints[i]);
    assert_int_equal(tdm_gradient_wanted(&gradient, i), i == 0);
  }
  assert_value(tdm_gradient_of_output(&gradient, TDM_KERNEL_MAX_OUTPUTS - 1), NARROW);
  assert_value(tdm_gradient_of_output(&gradient, TDM_KERNEL_MAX_OUTPUTS), 0);
  wanted[0] = 1; /* an absent input requires no adjoint, whatever this is */
  assert_false(tdm_gradient_wanted(&gradient, 2));
  assert_false(tdm_gradient_wanted(&gradient, 9));
}

static void without_a_rule_there_is_nothing(void **unused) {
  (void)unused;
  assert_null(tdm_gradient_graph(NULL));
  assert_string_equal(tdm_gradient_name(NULL), "");
  assert_null(tdm_gradient_attributes(NULL));
  assert_int_equal(tdm_gradient_micro_batch(NULL), 0);
  assert_false(tdm_gradient_wanted(NULL, 0));
  assert_value(tdm_gradient_input(NULL, 0), 0);
  assert_value(tdm_gradient_output(NULL, 0), 0);
  assert_value(tdm_gradient_of_output(NULL, 0), 0);
  tdm_gradient_set(NULL, 0, handle(Z));
  tdm_gradient_set_sparse(NULL, 0, handle(ROWS), handle(IDS), handle(COUNT));
  tdm_gradient_add_rows(NULL, 0, handle(ROWS), handle(IDS), handle(COUNT));
}

/* ---- Adjoints that it sets ------------------------------------------------------------------- */

static void assert_adjoint(uint32_t number, tdm_adjoint adjoint) {
  const tdm_adjoint *found = &gradient.adjoints.items[number];
  assert_int_equal(found->dense, adjoint.dense);
  assert_int_equal(found->rows, adjoint.rows);
  assert_int_equal(found->indices, adjoint.indices);
  assert_int_equal(found->count, adjoint.count);
  assert_int_equal(found->added, adjoint.added);
  assert_int_equal(found->next, number - 1);
  assert_int_equal(found->device, 3);
  assert_int_equal(found->replica, 2);
  assert_int_equal(found->micro, 5);
}

static void what_is_told_stands_before_what_was(void **unused) {
  (void)unused;
  tdm_gradient_set(&gradient, 0, handle(Z));
  tdm_gradient_set_sparse(&gradient, 0, handle(ROWS), handle(IDS), handle(COUNT));
  tdm_gradient_add_rows(&gradient, 0, handle(MORE), handle(FEW), handle(COUNT));
  assert_ok(gradient.status);
  assert_int_equal(gradient.adjoints.count, 4);
  assert_int_equal(heads[TABLE], 3);
  assert_adjoint(1, (tdm_adjoint){.dense = Z});
  assert_adjoint(2, (tdm_adjoint){.rows = ROWS, .indices = IDS, .count = COUNT});
  assert_adjoint(3, (tdm_adjoint){.rows = MORE, .indices = FEW, .count = COUNT, .added = true});
}

static void assert_silent(void) {
  for (uint32_t v = 0; v < VALUES; v++)
    assert_int_equal(heads[v], 0);
  assert_int_equal(gradient.adjoints.count, 1);
}

/* Adjoints after a failure, or with a missing part, are not stored either. */
static void what_nobody_wants_is_not_kept(void **unused) {
  (void)unused;
  for (size_t input = 1; input < 5; input++) {
    tdm_gradient_set(&gradient, input, handle(FLAT));
    tdm_gradient_set_sparse(&gradient, input, handle(FLAT), handle(IDS), handle(COUNT));
  }
  tdm_gradient_set(&gradient, 0, handle(0));
  tdm_gradient_set_sparse(&gradient, 0, handle(0), handle(IDS), handle(COUNT));
  tdm_gradient_set_sparse(&gradient, 0, handle(ROWS), handle(0), handle(COUNT));
  tdm_gradient_add_rows(&gradient, 0, handle(ROWS), handle(IDS), handle(0));
  assert_ok(gradient.status);
  assert_silent();
  gradient.status = TDM_IO;
  tdm_gradient_set(&gradient, 0, handle(Z));
  tdm_gradient_add_rows(&gradient, 0, handle(ROWS), handle(IDS), handle(COUNT));
  assert_status(gradient.status, TDM_IO);
  assert_silent();
}

/* indices 0: a dense adjoint. */
static void what_cannot_be_an_adjoint_is_refused(void **unused) {
  (void)unused;
  static const struct {
    uint32_t told, indices, count;
    const char *message; /* the part after the prefix of input 0 */
  } cases[] = {
      {ROWS, 0, 0, " is float32 [4, 3], and must be float32 [10, 3]"},
      {FLAT, 0, 0, " is float32 [4], and must be float32 [10, 3]"},
      {WHOLE, 0, 0, " is int64 [4, 3], and must be float32 [10, 3]"},
      {FOREIGN + Z, 0, 0, " is a value of another graph"},
      {WHOLE, IDS, COUNT, " is int64 [4, 3], and must be float32 [?, 3]"},
      {NARROW, IDS, COUNT, " is float32 [4, 1], and must be float32 [?, 3]"},
      {FLAT, IDS, COUNT, " is float32 [4], and must be float32 [?, 3]"},
      {FOREIGN + ROWS, IDS, COUNT, " is a value of another graph"},
      {ROWS, FEW, COUNT, ", the indices of rows, is int64 [3], and must be int64 [4]"},
      {ROWS, FLAT, COUNT, ", the indices of rows, is float32 [4], and must be int64 [4]"},
      {ROWS, WHOLE, COUNT, ", the indices of rows, is int64 [4, 3], and must be int64 [4]"},
      {ROWS, FOREIGN + IDS, COUNT, ", the indices of rows, is a value of another graph"},
      {ROWS, IDS, IDS, ", the count of rows, is int64 [4], and must be int64 []"},
      {ROWS, IDS, HALF, ", the count of rows, is float32 [], and must be int64 []"},
      {ROWS, IDS, FOREIGN + COUNT, ", the count of rows, is a value of another graph"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++)
    for (int added = 0; added < 2; added++) {
      const tdm_value told = handle(cases[i].told), indices = handle(cases[i].indices),
                      count = handle(cases[i].count);
      char message[200];
      gradient.status = TDM_OK;
      if (cases[i].indices == 0)
        tdm_gradient_set(&gradient, 0, told);
      else
        (added ? tdm_gradient_add_rows : tdm_gradient_set_sparse)(&gradient, 0, told, indices,
                                                                  count);
      (void)snprintf(message, sizeof message,
                     "gradient of mine layer: what the rule returns for input 0%s",
                     cases[i].message);
      assert_status(gradient.status, TDM_INVALID_ARGUMENT);
      assert_string_equal(tdm_last_message(), message);
      assert_silent();
    }
}

static void short_memory_is_told(void **unused) {
  (void)unused;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  assert_non_null(faulty);
  const tdm_allocator scarce = tdm_faulty_allocator_view(faulty);
  const tdm_allocator *plain = graph.allocator;
  uint32_t told = 0;
  while (gradient.adjoints.count < gradient.adjoints.capacity) {
    tdm_gradient_set(&gradient, 0, handle(Z));
    told++;
  }
  assert_ok(gradient.status);
  graph.allocator = &scarce;
  tdm_faulty_allocator_arm(faulty, 1, false);
  tdm_gradient_set(&gradient, 0, handle(Z));
  graph.allocator = plain;
  assert_status(gradient.status, TDM_OUT_OF_MEMORY);
  assert_int_equal(gradient.adjoints.count, 1 + told);
  assert_int_equal(heads[TABLE], told);
  tdm_faulty_allocator_destroy(faulty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_rule_sees_its_node, begin, end),
      cmocka_unit_test_setup_teardown(without_a_rule_there_is_nothing, begin, end),
      cmocka_unit_test_setup_teardown(what_is_told_stands_before_what_was, begin, end),
      cmocka_unit_test_setup_teardown(what_nobody_wants_is_not_kept, begin, end),
      cmocka_unit_test_setup_teardown(what_cannot_be_an_adjoint_is_refused, begin, end),
      cmocka_unit_test_setup_teardown(short_memory_is_told, begin, end),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
