/* Drawings of plans as Graphviz graphs: of a picture made by hand, the whole text. */
#define _GNU_SOURCE /* open_memstream */
#include "graph/report/picture.h"

#include <stdlib.h>

#include "tests/graph/support.h"

enum { IDS = 1, WEIGHT, STATE, X, MOVED_X, Y, NEW_WEIGHT, NEW_STATE, NEW_BIAS, BIAS, VALUES };

/* Behind what a node reads lies what it does not. */
static const uint32_t reads[] = {IDS, WEIGHT, X, MOVED_X, BIAS, 0, Y, Y, WEIGHT, STATE, X, BIAS, X};
static const uint32_t makes[] = {X, MOVED_X, Y, NEW_WEIGHT, NEW_STATE, NEW_BIAS};

static tdm_picture_source sources[] = {
    {IDS, "ids"}, {WEIGHT, "fc.weight"}, {STATE, "fc.weight.m"}, {BIAS, "a \"bias\"\x01"}};

/* A command on cpu:0, what it makes carried to sim:0, one there that reads nothing in one place,
 * and three updates, of which two on one device read the same value. */
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

/* As many as there are colours, and one more, which begins anew. */
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
  assert_int_equal(first, 2); /* of sim:0 and sim:8 */
  assert_non_null(strstr(text, "subgraph cluster_8 {"));
  free(text);
  tdm_picture_deinit(&picture);
}

/* ---- Plans that are read --------------------------------------------------------------------- */

#define PLAN(command)                                                                              \
  "{\"sources\": [{\"value\": 1, \"name\": \"x\"}], \"commands\": [" command "]}"
#define COMMAND(shape)                                                                             \
  "{\"name\": \"y\", \"action\": \"relu\", \"device\": \"cpu:0\", \"dtype\": \"float32\", "        \
  "\"shape\": " shape ", \"reads\": [1], \"makes\": [2]}"

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_picture_is_drawn_as_it_is),
      cmocka_unit_test(devices_beyond_the_colours_begin_anew),
      cmocka_unit_test(a_result_has_a_dtype_and_a_shape),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
