/* Micro-batches that cannot be: the session is refused, and its message names why. */
#include "devices/kernels.h"
#include "tests/graph/group.h"
#include "tests/options.h"

enum { CLASSES = 5, WIDTH = 4 };

/* ---- What cannot be cut ---------------------------------------------------------------------- */

static void assert_refused(tdm_graph *graph, tdm_value loss, const tdm_session_options *chosen,
                           const char *message) {
  const tdm_optimizer sgd = tdm_sgd(0.1);
  tdm_session_options options = *chosen;
  options.loss = loss;
  if (tdm_value_is_valid(loss)) options.optimizer = &sgd;
  assert_null(tdm_session_create(graph, &options));
  if (!strstr(tdm_last_message(), message))
    fail_msg("'%s' is not in: %s", message, tdm_last_message());
  tdm_graph_release(graph);
}

static void what_mixes_rows_is_named(void **unused) {
  (void)unused;
  static const char *const wanted[] = {"micro-batches: over_rows: it mixes the rows",
                                       "micro-batches: one_row: it mixes the rows",
                                       "micro-batches: torn: "};
  for (int k = 0; k < 3; k++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x =
        tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
    tdm_value y = tdm_linear(graph, "in", x, WIDTH);
    if (k == 0) y = tdm_softmax(graph, "over_rows", y, 0);
    if (k == 1) y = tdm_select(graph, "one_row", y, 0, 0);
    if (k == 2) y = tdm_reshape(graph, "torn", y, tdm_shape_of(2, 2, TDM_INFER));
    tdm_output(graph, "y", y);
    const tdm_session_options options =
        OPTIONS(tdm_session_options, o.micro_batches = 2, o.batch_dimension = "batch");
    assert_refused(graph, (tdm_value){0, 0}, &options, wanted[k]);
  }
}

/* Windows over the dimension that is cut, unless they are single elements. */
static void windows_over_the_batch_are_named(void **unused) {
  (void)unused;
  const tdm_conv_options same = OPTIONS(tdm_conv_options, o.same = true);
  const tdm_pool_options around =
      OPTIONS(tdm_pool_options, o.stride[0] = o.stride[1] = 1, o.padding[0] = 1);
  for (int k = 0; k < 4; k++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x =
        tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, 1, WIDTH, TDM_DIM("time")));
    tdm_value y = {0, 0};
    if (k == 0) y = tdm_conv1d(graph, "windows", x, WIDTH, 3, &same);
    if (k == 1) y = tdm_avg_pool1d(graph, "windows", x, 3, &around);
    if (k == 2) y = tdm_max_pool1d(graph, "windows", x, 3, &around);
    if (k == 3) y = tdm_conv1d(graph, "windows", x, WIDTH, 1, &same);
    tdm_output(graph, "y", y);
    const tdm_session_options options = OPTIONS(tdm_session_options, o.micro_batches = 2);
    if (k < 3)
      assert_refused(graph, (tdm_value){0, 0}, &options,
                     "micro-batches: windows: it mixes the rows of dimension 2");
    else
      tdm_session_release(run_session(graph, &options));
  }
}

/* Rows that follow other rows must have the same length, or their positions are unknown. */
static void rows_behind_more_of_them_are_named(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value two[] = {tdm_reshape(graph, "all", x, tdm_shape_of(1, TDM_INFER)),
                           tdm_select(graph, "one", x, 1, 0)};
  tdm_output(graph, "y", tdm_concat(graph, "behind", two, 2, 0));
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.micro_batches = 2, o.batch_dimension = "batch");
  assert_refused(graph, (tdm_value){0, 0}, &options,
                 "micro-batches: behind: it puts rows of the batch behind others");
}

static tdm_status infer_scalar(tdm_infer *infer) {
  infer->outputs[0] = (tdm_spec){.dtype = infer->inputs[0].dtype};
  return TDM_OK;
}

static void what_reduces_without_a_rule_is_named(void **unused) {
  (void)unused;
  static const tdm_operation norm = {.struct_size = sizeof norm,
                                     .name = TDM_OP_SUM_OF_SQUARES,
                                     .min_inputs = 1,
                                     .max_inputs = 1,
                                     .output_count = 1,
                                     .infer = infer_scalar};
  for (int k = 0; k < 2; k++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x =
        tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
    tdm_value y = tdm_append(graph, &norm, "norm", NULL, &x, 1, NULL);
    if (k == 1) y = tdm_tanh(graph, "tanh", y);
    tdm_output(graph, "y", y);
    const tdm_session_options options = OPTIONS(tdm_session_options, o.micro_batches = 2);
    assert_refused(graph, (tdm_value){0, 0}, &options, "norm");
  }
}

/* ids, targets (length, batch): every step is judged, in rows that a reshape has made. */
static tdm_graph *sequence_graph(bool fetches_flat, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("length"), TDM_DIM("batch"));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, shape);
  const tdm_value targets = tdm_input(graph, "targets", TDM_INT64, shape);
  tdm_value x = tdm_embedding(graph, "embedding", ids, 20, WIDTH);
  x = tdm_linear(graph, "decoder", tdm_rnn(graph, "rnn", x, WIDTH, NULL, NULL), CLASSES);
  const tdm_value flat = tdm_reshape(graph, "flat", x, tdm_shape_of(2, TDM_INFER, CLASSES));
  if (fetches_flat) tdm_output(graph, "flat", flat);
  const tdm_value wanted = tdm_reshape(graph, "wanted", targets, tdm_shape_of(1, TDM_INFER));
  *out_loss = tdm_cross_entropy(graph, "loss", flat, wanted);
  return graph;
}

static void assert_sequence_refused(bool fetches_flat, int micro_batches, const char *dimension,
                                    const char *message) {
  tdm_value loss;
  tdm_graph *graph = sequence_graph(fetches_flat, &loss);
  const tdm_session_options options = OPTIONS(
      tdm_session_options, o.micro_batches = OR_ONE(micro_batches), o.batch_dimension = dimension);
  assert_refused(graph, loss, &options, message);
}

static void the_batch_has_to_be_known(void **unused) {
  (void)unused;
  assert_sequence_refused(false, 2, "rows", "no input has a dimension rows");
  assert_sequence_refused(false, 2, "Rows!", "Rows! is no name");
  assert_sequence_refused(false, 65, NULL, "micro_batches is 65");
  assert_sequence_refused(false, -2, NULL, "micro_batches is -2");
  assert_sequence_refused(false, 2, "length", "micro-batches: rnn");
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("a"), TDM_DIM("b")));
  tdm_output(graph, "y", tdm_tanh(graph, "tanh", x));
  const tdm_session_options options = OPTIONS(tdm_session_options, o.micro_batches = 2);
  assert_refused(graph, (tdm_value){0, 0}, &options, "the inputs share [a, b]");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_mixes_rows_is_named),
      cmocka_unit_test(windows_over_the_batch_are_named),
      cmocka_unit_test(rows_behind_more_of_them_are_named),
      cmocka_unit_test(what_reduces_without_a_rule_is_named),
      cmocka_unit_test(the_batch_has_to_be_known),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
