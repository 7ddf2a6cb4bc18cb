/* Integers that a run is fed and that a layer cannot compute with: lengths, ids, targets, offsets.
 * The run fails with INVALID_ARGUMENT, and its message is the layer's: the node, the layer, the
 * argument, the value, its position and the legal range, and no operation that the layer is made
 * of. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/group.h"
#include "tests/options.h"

enum { ROWS = 3, CLASSES = 5, MOST = 12 };

/* The inputs of a layer. x and image are zeros. */
typedef struct given {
  tdm_graph *graph;
  tdm_value x;     /* (rows, 5) */
  tdm_value steps; /* (4, rows, 5) */
  tdm_value ids;   /* int64, of the case's shape: the argument that is wrong */
  tdm_value right; /* int64 (rows): ones */
  tdm_value ones;  /* (5) */
} given;

#define LAYER(name) static tdm_value name(const given *of)

LAYER(ctc_input_lengths) {
  const tdm_value targets = tdm_unsqueeze(of->graph, "labels", of->right, 1);
  return tdm_ctc(of->graph, "it", of->steps, targets, of->ids, of->right);
}
LAYER(ctc_target_lengths) {
  const tdm_value targets = tdm_unsqueeze(of->graph, "labels", of->right, 1);
  return tdm_ctc(of->graph, "it", of->steps, targets, of->right, of->ids);
}
LAYER(ctc_targets) {
  return tdm_ctc(of->graph, "it", of->steps, of->ids, of->right, of->right);
}
LAYER(multi_margin) {
  return tdm_multi_margin(of->graph, "it", of->x, of->ids);
}
LAYER(multi_margin_weighted) {
  return tdm_multi_margin_with(of->graph, "it", of->x, of->ids,
                               WITH(tdm_loss_options, o.weight = of->ones));
}
LAYER(multilabel_margin) {
  return tdm_multilabel_margin(of->graph, "it", of->x, of->ids);
}
LAYER(cross_entropy) {
  return tdm_cross_entropy(of->graph, "it", of->x, of->ids);
}
LAYER(cross_entropy_weighted) {
  return tdm_cross_entropy_with(of->graph, "it", of->x, of->ids,
                                WITH(tdm_loss_options, o.weight = of->ones, o.ignore_index = -7));
}
LAYER(cross_entropy_smoothed) {
  return tdm_cross_entropy_with(of->graph, "it", of->x, of->ids,
                                WITH(tdm_loss_options, o.label_smoothing = 0.1));
}
LAYER(nll_weighted) {
  return tdm_nll_with(of->graph, "it", of->x, of->ids,
                      WITH(tdm_loss_options, o.weight = of->ones, o.ignore_index = -7));
}
LAYER(one_hot) {
  return tdm_one_hot(of->graph, "it", of->ids, CLASSES);
}
LAYER(gather) {
  return tdm_gather(of->graph, "it", of->x, 1, of->ids);
}
LAYER(index_select) {
  return tdm_index_select(of->graph, "it", of->x, 1, of->ids);
}
LAYER(scatter_add) {
  const tdm_value source = tdm_slice(of->graph, "source", of->x, 1, 0, 2, 1);
  return tdm_scatter_add(of->graph, "it", of->x, 1, of->ids, source);
}
LAYER(max_unpool) {
  const tdm_value image = tdm_unsqueeze(of->graph, "image", of->x, 1);
  const tdm_value part = tdm_slice(of->graph, "part", image, 2, 0, 2, 1);
  return tdm_max_unpool(of->graph, "it", part, of->ids, (const int64_t[]){4}, 1);
}
LAYER(embedding) {
  return tdm_embedding(of->graph, "it", of->ids, CLASSES, 2);
}
LAYER(embedding_bag) {
  return tdm_embedding_bag(of->graph, "it", of->ids, CLASSES, 2, NULL);
}
LAYER(bag_offsets) {
  const tdm_embedding_bag_options options = OPTIONS(tdm_embedding_bag_options, o.offsets = of->ids);
  return tdm_embedding_bag(of->graph, "it", of->right, CLASSES, 2, &options);
}
LAYER(gru_lengths) {
  const tdm_rnn_options options = OPTIONS(tdm_rnn_options, o.lengths = of->ids);
  return tdm_gru(of->graph, "it", of->steps, 2, &options, NULL);
}

typedef struct argument_case {
  tdm_value (*build)(const given *of);
  tdm_shape ids;
  int64_t values[MOST];
  const char *says; /* text expected after "it: " */
} argument_case;

#define VECTOR                                                                                     \
  {                                                                                                \
    1, {                                                                                           \
      ROWS                                                                                         \
    }                                                                                              \
  }
#define PAIRS                                                                                      \
  {                                                                                                \
    2, {                                                                                           \
      ROWS, 2                                                                                      \
    }                                                                                              \
  }

static const argument_case cases[] = {
    {ctc_input_lengths,
     VECTOR,
     {4, 4, 5},
     "ctc on cpu:0: input_lengths 5 at position 2 is outside 0 to 4"},
    {ctc_input_lengths,
     VECTOR,
     {4, -1, 0},
     "ctc on cpu:0: input_lengths -1 at position 1 is outside 0 to 4"},
    {ctc_target_lengths,
     VECTOR,
     {1, 2, 1},
     "ctc on cpu:0: target_lengths 2 at position 1 is outside 0 to 1"},
    {ctc_target_lengths,
     VECTOR,
     {-1, 1, 1},
     "ctc on cpu:0: target_lengths -1 at position 0 is outside 0 to 1"},
    {ctc_targets,
     PAIRS,
     {1, 9, 4, -9, 5, 1},
     "ctc on cpu:0: targets 5 at position 4 is outside 0 to 4"},
    {multi_margin,
     VECTOR,
     {0, 4, -1},
     "multi_margin on cpu:0: targets -1 at position 2 is outside 0 to 4"},
    {multi_margin_weighted,
     VECTOR,
     {5, 0, 0},
     "multi_margin on cpu:0: targets 5 at position 0 is outside 0 to 4"},
    {multilabel_margin,
     {2, {ROWS, CLASSES}},
     {1, -1, 9, 9, 9, 7, -1},
     "multilabel_margin on cpu:0: targets 7 at position 5 is outside 0 to 4"},
    {cross_entropy,
     VECTOR,
     {0, 5, 0},
     "cross_entropy on cpu:0: targets 5 at position 1 is outside 0 to 4"},
    {cross_entropy_weighted,
     VECTOR,
     {0, -7, -1},
     "cross_entropy on cpu:0: targets -1 at position 2 is outside 0 to 4"},
    {cross_entropy_smoothed,
     VECTOR,
     {0, 5, 1},
     "cross_entropy on cpu:0: targets 5 at position 1 is outside 0 to 4"},
    {nll_weighted, VECTOR, {0, -7, 5}, "nll on cpu:0: targets 5 at position 2 is outside 0 to 4"},
    {one_hot, VECTOR, {0, 5, 1}, "one_hot on cpu:0: ids 5 at position 1 is outside 0 to 4"},
    {gather,
     PAIRS,
     {0, 1, 2, -1, 0, 0},
     "gather on cpu:0: index -1 at position 3 is outside 0 to 4"},
    {index_select,
     VECTOR,
     {0, 1, 5},
     "index_select on cpu:0: index 5 at position 2 is outside 0 to 4"},
    {scatter_add,
     PAIRS,
     {0, 1, 2, 5, 0, 0},
     "scatter_add on cpu:0: index 5 at position 3 is outside 0 to 4"},
    {max_unpool,
     {3, {ROWS, 1, 2}},
     {0, 1, 2, 4, 0, 0},
     "max_unpool on cpu:0: indices 4 at position 3 is outside 0 to 3"},
    {embedding, VECTOR, {0, 5, 1}, "embedding on cpu:0: ids 5 at position 1 is outside 0 to 4"},
    {embedding_bag,
     PAIRS,
     {0, 1, 5, 0, 0, 0},
     "embedding_bag on cpu:0: ids 5 at position 2 is outside 0 to 4"},
    {bag_offsets,
     {1, {2}},
     {0, 4},
     "embedding_bag on cpu:0: offsets 4 at position 1 is outside 0 to 3"},
    {gru_lengths, VECTOR, {4, 5, 1}, "gru on cpu:0: lengths 5 at position 1 is outside 0 to 4"},
};

/* named: rows, steps and classes as far as the layer takes them have names, whose sizes are known
 * only in the run. */
static tdm_graph *build(const argument_case *test, bool named) {
  tdm_graph *graph = tdm_graph_create(context);
  given of = {.graph = graph};
  const tdm_dim rows = named ? TDM_DIM("batch") : ROWS, steps = named ? TDM_DIM("steps") : 4;
  tdm_shape ids = test->ids;
  if (named && test->build != max_unpool && test->build != bag_offsets) ids.dims[0] = rows;
  of.x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, rows, CLASSES));
  of.steps = tdm_input(graph, "steps", TDM_FLOAT32, tdm_shape_of(3, steps, rows, CLASSES));
  of.ids = tdm_input(graph, "ids", TDM_INT64, ids);
  of.right = tdm_input(graph, "right", TDM_INT64, tdm_shape_of(1, rows));
  of.ones = tdm_input(graph, "ones", TDM_FLOAT32, tdm_shape_of(1, CLASSES));
  tdm_output(graph, "y", test->build(&of));
  return graph;
}

static void expect_message(const argument_case *test, bool named) {
  tdm_graph *graph = build(test, named);
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s: %s", test->says, tdm_last_message());
  tdm_feed feeds[] = {
      {"x", tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, CLASSES)), false},
      {"steps", tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(3, 4, ROWS, CLASSES)),
       false},
      {"ids", tdm_tensor_from(context, TDM_INT64, test->ids, test->values), false},
      {"right", tdm_tensor_ones(context, "cpu:0", TDM_INT64, tdm_shape_of(1, ROWS)), false},
      {"ones", tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, CLASSES)), false},
  };
  tdm_fetch fetch = {.name = "y"};
  const tdm_status status = tdm_run(session, feeds, 5, &fetch, 1);
  char wanted[256];
  (void)snprintf(wanted, sizeof wanted, "it: %s", test->says);
  if (status != TDM_INVALID_ARGUMENT || strcmp(tdm_last_message(), wanted) != 0)
    fail_msg("\"%s\" (%d), not \"%s\"", status == TDM_OK ? "" : tdm_last_message(), (int)status,
             wanted);
  for (size_t i = 0; i < sizeof feeds / sizeof feeds[0]; i++)
    tdm_tensor_release(feeds[i].tensor);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static void a_run_names_layer_argument_value_position_and_range(void **unused) {
  (void)unused;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int named = 0; named < 2; named++)
      expect_message(&cases[i], named != 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_names_layer_argument_value_position_and_range),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
