/* Drawings of plans as Graphviz graphs: of a picture made by hand, the whole text. */
#define _GNU_SOURCE /* open_memstream */
#include "graph/report/picture.h"

#include <stdlib.h>

#include "tests/graph/support.h"

enum { IDS = 1, WEIGHT, STATE, X, MOVED_X, Y, NEW_WEIGHT, NEW_STATE, NEW_BIAS, BIAS, VALUES };

/* Values after those that a node reads are not read by it. */
static const uint32_t reads[] = {IDS, WEIGHT, X, MOVED_X, BIAS, 0, Y, Y, WEIGHT, STATE, X, BIAS, X};
static const uint32_t makes[] = {X, MOVED_X, Y, NEW_WEIGHT, NEW_STATE, NEW_BIAS};

static tdm_picture_source sources[] = {
    {IDS, "ids"}, {WEIGHT, "fc.weight"}, {STATE, "fc.weight.m"}, {BIAS, "a \"bias\"\x01"}};

/* A command on cpu:0, whose result is copied to sim:0, one there that reads nothing in one place,
 * and three updates, two of which read the same value on one device. */
static tdm_picture_node nodes[] = {
    {.name = "table",
     .action = "embedding",
     .device = "cpu:0",
     .result = "float32 [3]",
     .predicted_ns = -1,
     .measured_ns = 23400,
     .reads = reads,
     .read_count = 2,
     .makes = makes,
     .make_count = 1},
    {.name = "table",
     .action = "transfer",
     .device = "sim:0",
     .result = "float32 [3]",
     .route = "\"direct\"",
     .cause = "table -> \"fc\"",
     .bytes = 12,
     .predicted_ns = 5250,
     .measured_ns = -1,
     .reads = reads + 2,
     .read_count = 1,
     .makes = makes + 1,
     .make_count = 1},
    {.name = "fc\\n",
     .action = "linear",
     .device = "sim:0",
     .result = "float32 [3]",
     .predicted_ns = -1,
     .measured_ns = -1,
     .reads = reads + 3,
     .read_count = 3,
     .makes = makes + 2,
     .make_count = 1},
    {.name = "fc.weight",
     .action = "adam",
     .device = "sim:0",
     .result = "float32 [3]",
     .predicted_ns = -1,
     .measured_ns = 1000,
     .update = true,
     .reads = reads + 6,
     .read_count = 4,
     .makes = makes + 3,
     .make_count = 2},
    {.name = "fc.bias",
     .action = "adam",
     .device = "sim:0",
     .result = "float32 [3]",
     .predicted_ns = -1,
     .measured_ns = 500,
     .update = true,
     .reads = reads + 7,
     .read_count = 1,
     .makes = makes + 5,
     .make_count = 1},
    {.name = "other",
     .action = "sgd",
     .device = "cpu:0",
     .result = "float32 [3]",
     .predicted_ns = -1,
     .measured_ns = -1,
     .update = true,
     .reads = reads + 10,
     .read_count = 2,
     .makes = makes + 5,
     .make_count = 0},
};

static const char expected[] =
    "digraph plan {\n  rankdir=LR;\n  fontname=\"sans-serif\";\n"
    "  node [fontname=\"sans-serif\", fontsize=13];\n  edge [color=\"#5c6675\"];\n"
    "  subgraph cluster_0 {\n    style=\"rounded,filled\";\n    color=\"#f0f6fe\";\n"
    "    fontsize=16;\n    label=\"cpu:0\";\n"
    "    node [shape=box, style=\"rounded,filled\", penwidth=0, fillcolor=\"#9cc4f5\"];\n"
    "    n0 [label=\"table\\nembedding\\nfloat32 [3]\\n23.4 us\"];\n"
    "    u0 [shape=box3d, label=\"1 update\\nsgd\"];\n"
    "  }\n"
    "  subgraph cluster_1 {\n    style=\"rounded,filled\";\n    color=\"#fef7ec\";\n"
    "    fontsize=16;\n    label=\"sim:0\";\n"
    "    node [shape=box, style=\"rounded,filled\", penwidth=0, fillcolor=\"#f7c27a\"];\n"
    "    n1 [label=\"12 B\\n\\\"direct\\\"\\n5.2 us predicted\", style=\"rounded,filled\", "
    "fillcolor=\"#ffffff\", color=\"#c0504d\", fontcolor=\"#c0504d\", fontsize=11, penwidth=1, "
    "tooltip=\"table -> \\\"fc\\\"\"];\n"
    "    n2 [label=\"fc\\\\n\\nlinear\\nfloat32 [3]\"];\n"
    "    u1 [shape=box3d, label=\"2 updates\\nadam\\n1.5 us\"];\n"
    "  }\n"
    "  v1 [shape=note, fontsize=10, label=\"ids\"];\n"
    "  v2 [shape=note, fontsize=10, label=\"fc.weight\"];\n"
    "  v10 [shape=note, fontsize=10, label=\"a \\\"bias\\\"?\"];\n"
    "  v1 -> n0;\n  v2 -> n0;\n"
    "  n0 -> n1 [color=\"#c0504d\"];\n"
    "  n1 -> n2 [color=\"#c0504d\"];\n  v10 -> n2;\n"
    "  n2 -> u1;\n"
    "  n0 -> u0;\n"
    "}\n";

static void a_picture_is_drawn_as_it_is(void **state) {
  (void)state;
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_picture picture = {.nodes = nodes,
                         .node_count = TDM_COUNT_OF(nodes),
                         .sources = sources,
                         .source_count = TDM_COUNT_OF(sources),
                         .value_count = VALUES};
  tdm_region_init(&picture.region, &allocator);
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_non_null(out);
  assert_ok(tdm_picture_dot(&picture, out));
  assert_int_equal(fclose(out), 0);
  assert_string_equal(text, expected);
  free(text);
  tdm_picture_deinit(&picture);
}

/* As many devices as colours, and one more, which has the first colour again. */
static void devices_beyond_the_colours_begin_anew(void **state) {
  (void)state;
  enum { DEVICES = 9 };
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_picture_node many[DEVICES];
  char names[DEVICES][16];
  for (int i = 0; i < DEVICES; i++) {
    (void)snprintf(names[i], sizeof names[i], "sim:%d", i);
    many[i] = (tdm_picture_node){.name = "x", .action = "y", .device = names[i], .result = "z"};
  }
  tdm_picture picture = {.nodes = many, .node_count = DEVICES};
  tdm_region_init(&picture.region, &allocator);
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_non_null(out);
  assert_ok(tdm_picture_dot(&picture, out));
  assert_int_equal(fclose(out), 0);
  int first = 0;
  for (const char *at = text; (at = strstr(at, "fillcolor=\"#9cc4f5\"")); at++)
    first++;
  assert_int_equal(first, 2); /* nodes on sim:0 and sim:8 */
  assert_non_null(strstr(text, "subgraph cluster_8 {"));
  free(text);
  tdm_picture_deinit(&picture);
}

/* ---- Plans that are read --------------------------------------------------------------------- */

#define PLAN(command)                                                                              \
  "{\"sources\": [{\"value\": 1, \"name\": \"x\"}], \"commands\": [" command "]}"
#define NAMED                                                                                      \
  "{\"name\": \"y\", \"action\": \"relu\", \"device\": \"cpu:0\", \"dtype\": \"float32\", "
#define COMMAND(shape) NAMED "\"shape\": " shape ", \"reads\": [1], \"makes\": [2]}"
#define MOVED(reads, makes) NAMED "\"shape\": [1], \"reads\": " reads ", \"makes\": " makes "}"

static tdm_status read_plan(const char *text, tdm_picture *out_picture) {
  static tdm_allocator allocator;
  allocator = tdm_allocator_default();
  json_t *root = json_loads(text, 0, NULL);
  assert_non_null(root);
  const tdm_status status = tdm_picture_read(root, "plan.json", &allocator, out_picture);
  json_decref(root);
  return status;
}

static void a_result_has_a_dtype_and_a_shape(void **state) {
  (void)state;
  tdm_picture picture;
  assert_ok(read_plan(PLAN(COMMAND("[1, 2, 3, 4, 5, 6, 7, 8]")), &picture));
  assert_string_equal(picture.nodes[0].result, "float32 [1, 2, 3, 4, 5, 6, 7, 8]");
  tdm_picture_deinit(&picture);
  static const char *const wrong[] = {
      PLAN(COMMAND("3")), PLAN(COMMAND("{}")), PLAN(COMMAND("[1, 2, 3, 4, 5, 6, 7, 8, 9]")),
      PLAN("{\"name\": \"y\", \"action\": \"relu\", \"device\": \"cpu:0\", \"shape\": [1]}")};
  for (size_t i = 0; i < TDM_COUNT_OF(wrong); i++) {
    assert_int_equal(read_plan(wrong[i], &picture), TDM_CORRUPT_DATA);
    assert_message("plan.json: is no plan: command 1 is not one");
    tdm_picture_deinit(&picture);
  }
}

/* Checks numbers from 1 to a limit for every reference to a value. All texts except a few are
 * required. */
static void what_is_no_plan_is_refused(void **unused) {
  (void)unused;
  static const struct {
    const char *text;
    int command; /* the one that is not */
  } wrong[] = {
      {PLAN(MOVED("[0]", "[2]")), 1},
      {PLAN(MOVED("[1, -1]", "[2]")), 1},
      {PLAN(MOVED("[16777216]", "[2]")), 1},
      {PLAN(MOVED("[\"x\"]", "[2]")), 1},
      {PLAN(MOVED("[1]", "[0]")), 1},
      {PLAN(MOVED("[1]", "[2, 16777216]")), 1},
      {PLAN(COMMAND("[1]") ", " MOVED("[1]", "[0]")), 2},
      {PLAN("{\"action\": \"relu\", \"device\": \"cpu:0\", \"dtype\": \"bool\", \"shape\": []}"),
       1},
      {PLAN("{\"name\": \"y\", \"device\": \"cpu:0\", \"dtype\": \"bool\", \"shape\": []}"), 1},
      {PLAN("{\"name\": \"y\", \"action\": \"relu\", \"dtype\": \"bool\", \"shape\": []}"), 1},
      {"{\"sources\": [{\"value\": 0, \"name\": \"x\"}], \"commands\": []}", 0},
      {"{\"sources\": [{\"value\": 16777216, \"name\": \"x\"}], \"commands\": []}", 0},
      {"{\"sources\": [{\"value\": 1}], \"commands\": []}", 0},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(wrong); i++) {
    tdm_picture picture;
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "plan.json: is no plan: command %d is not one",
                   wrong[i].command);
    if (read_plan(wrong[i].text, &picture) != TDM_CORRUPT_DATA) fail_msg("%s", wrong[i].text);
    assert_message(wanted);
    tdm_picture_deinit(&picture);
  }
}

static void assert_values(const uint32_t *values, uint32_t count, uint32_t first, uint32_t second) {
  assert_int_equal(count, 2);
  assert_int_equal(values[0], first);
  assert_int_equal(values[1], second);
}

/* Checks all that is reported of a kernel and of a transfer. */
static void a_plan_is_read_as_it_is(void **unused) {
  (void)unused;
  tdm_picture picture;
  assert_ok(read_plan(
      "{\"training\": true, \"sources\": [{\"value\": 30, \"name\": \"x\\u0001\"}], "
      "\"commands\": [{\"name\": \"y\", \"action\": \"fused\", \"members\": \"relu, mul\", "
      "\"device\": \"cpu:0\", \"dtype\": \"float32\", \"shape\": [2, 3], "
      "\"reads\": [30, 1], \"makes\": [2, 9], \"output_bytes\": 24, "
      "\"measured_ns\": 5.5, \"update\": true}, "
      "{\"name\": \"z\", \"action\": \"transfer\", \"device\": \"sim:0\", "
      "\"dtype\": \"int64\", \"shape\": [], \"route\": \"direct\", "
      "\"cause\": \"y -> z\", \"reads\": [2, 9], \"makes\": [16777215, 4], "
      "\"predicted_ns\": 7, \"usual\": false}]}",
      &picture));
  assert_true(picture.training);
  assert_int_equal(picture.value_count, 16777216);
  assert_int_equal(picture.source_count, 1);
  assert_int_equal(picture.sources[0].value, 30);
  assert_string_equal(picture.sources[0].name, "x?");
  assert_int_equal(picture.node_count, 2);
  const tdm_picture_node *y = &picture.nodes[0], *z = &picture.nodes[1];
  assert_string_equal(y->name, "y");
  assert_string_equal(y->action, "fused of relu, mul");
  assert_string_equal(y->device, "cpu:0");
  assert_string_equal(y->result, "float32 [2, 3]");
  assert_null(y->route);
  assert_null(y->cause);
  assert_int_equal(y->bytes, 24);
  assert_true(y->predicted_ns == -1 && y->measured_ns == 5.5);
  assert_true(y->update && !y->unusual);
  assert_values(y->reads, y->read_count, 30, 1);
  assert_values(y->makes, y->make_count, 2, 9);
  assert_string_equal(z->action, "transfer");
  assert_string_equal(z->device, "sim:0");
  assert_string_equal(z->result, "int64 []");
  assert_string_equal(z->route, "direct");
  assert_string_equal(z->cause, "y -> z");
  assert_true(z->predicted_ns == 7 && z->measured_ns == -1);
  assert_true(!z->update && z->unusual);
  assert_values(z->reads, z->read_count, 2, 9);
  assert_values(z->makes, z->make_count, 16777215, 4);
  tdm_picture_deinit(&picture);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_picture_is_drawn_as_it_is),
      cmocka_unit_test(devices_beyond_the_colours_begin_anew),
      cmocka_unit_test(a_result_has_a_dtype_and_a_shape),
      cmocka_unit_test(what_is_no_plan_is_refused),
      cmocka_unit_test(a_plan_is_read_as_it_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
