/* Concatenations of 1 to 64 parts on every mix of two devices, forward and backward. Parts are
 * computed values, inputs, parameters, repeated values, outputs and empty values. */
#include "tests/graph/group.h"

enum { MOST = 64, WIDTH = 3 };

typedef enum part_kind { COMPUTED, FED, PARAMETER, SAME, DELIVERED, MIXED, KINDS } part_kind;

typedef struct concat_case {
  part_kind kind;
  size_t count;
  int dimension;
  const char *device; /* device of the concatenation */
} concat_case;

static const char *text_of(const concat_case *of) {
  static const char *const names[] = {"computed", "fed", "parameter", "same", "delivered", "mixed"};
  static char text[96];
  (void)snprintf(text, sizeof text, "%zu parts, %s, along %d, on %s", of->count, names[of->kind],
                 of->dimension, of->device);
  return text;
}

/* ---- The graph ------------------------------------------------------------------------------- */

/* Part i is (1 + i % 2, WIDTH) with x (2, WIDTH), or (WIDTH, 1 + i % 2) along dimension 1; its
 * values are those of x, or 1, times 1 + i. */
static tdm_shape part_shape(const concat_case *of, size_t i) {
  const int64_t size = 1 + (int64_t)(i % 2);
  return of->dimension == 0 ? tdm_shape_of(2, size, WIDTH) : tdm_shape_of(2, WIDTH, size);
}

static tdm_value make_part(tdm_graph *graph, const concat_case *of, tdm_value x, size_t i) {
  char name[32];
  (void)snprintf(name, sizeof name, "part%zu", i);
  part_kind kind = of->kind;
  if (kind == MIXED) kind = (part_kind)(i % PARAMETER);
  if (kind == FED && i == 0) return x;
  const double factor = 1 + (double)i;
  if (kind == PARAMETER || (of->kind == MIXED && i % 5 == 4)) {
    const tdm_initializer constant = {TDM_INIT_CONSTANT, factor, 0, -1};
    return tdm_parameter(graph, name, TDM_FLOAT32, part_shape(of, i), &constant);
  }
  const tdm_value scaled = tdm_mul_scalar(graph, name, x, factor);
  if (kind == DELIVERED) tdm_output(graph, name, scaled);
  return scaled;
}

static tdm_value make_concat(tdm_graph *graph, const concat_case *of, tdm_value x) {
  tdm_value parts[MOST];
  for (size_t i = 0; i < of->count; i++)
    parts[i] = of->kind == SAME && i > 0 ? parts[0] : make_part(graph, of, x, i);
  tdm_place(graph, of->device);
  const tdm_value whole = tdm_concat(graph, "whole", parts, of->count, of->dimension);
  tdm_output(graph, "whole", whole);
  return whole;
}

/* Checks the whole, part by part: sums of squares of one part's rows after those of the other. */
static void check_whole(const concat_case *of, const tdm_tensor *whole) {
  const tdm_shape shape = tdm_tensor_shape(whole);
  const float *values = tdm_tensor_data(whole);
  int64_t at = 0; /* position in the dimension */
  for (size_t i = 0; i < of->count; i++) {
    const size_t number = of->kind == SAME ? 0 : i;
    const bool parameter = of->kind == PARAMETER || (of->kind == MIXED && i % 5 == 4);
    const int64_t size = parameter ? 1 + (int64_t)(number % 2) : 1;
    for (int64_t k = 0; k < size * WIDTH; k++) {
      const int64_t row = of->dimension == 0 ? at + k / WIDTH : k / size;
      const int64_t column = of->dimension == 0 ? k % WIDTH : at + k % size;
      const int64_t along_x = of->dimension == 0 ? column : row;
      const double x = parameter ? 1 : 0.5 + (double)along_x;
      const double wanted = x * (1 + (double)number);
      const double found = (double)values[row * shape.dims[1] + column];
      if (found != wanted) fail_msg("%s: part %zu has %g, not %g", text_of(of), i, found, wanted);
    }
    at += size;
  }
  assert_int_equal(shape.dims[of->dimension], at);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static const float x_values[WIDTH] = {0.5f, 1.5f, 2.5f};

static tdm_tensor *x_tensor(const concat_case *of) {
  const tdm_shape shape =
      of->dimension == 0 ? tdm_shape_of(2, 1, WIDTH) : tdm_shape_of(2, WIDTH, 1);
  return tdm_tensor_from(context, TDM_FLOAT32, shape, x_values);
}

static void check_run(const concat_case *of) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_tensor *fed = x_tensor(of);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_tensor_shape(fed));
  (void)make_concat(graph, of, x);
  tdm_session *session = run_session(graph, NULL);
  const tdm_feed feed = {"x", fed, false};
  const bool needs_x = of->kind != PARAMETER;
  tdm_fetch fetches[2] = {{.name = "whole"}, {.name = "part0"}};
  const tdm_status status =
      tdm_run(session, &feed, needs_x, fetches, of->kind == DELIVERED ? 2 : 1);
  if (status != TDM_OK) fail_msg("%s: %s", text_of(of), tdm_last_message());
  check_whole(of, fetches[0].tensor);
  if (fetches[1].tensor)
    assert_memory_equal(tdm_tensor_data(fetches[1].tensor), x_values, sizeof x_values);
  tdm_tensor_release(fetches[0].tensor);
  tdm_tensor_release(fetches[1].tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

/* Trains a linear layer before the parts; all of its adjoints come through the concatenation: the
 * gradient of the sum of part i's elements is 1 + i. */
static void check_training(const concat_case *of) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_tensor *fed = x_tensor(of);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_tensor_shape(fed));
  const tdm_initializer zeros = {TDM_INIT_ZEROS, 0, 0, -1};
  const tdm_value shift = tdm_parameter(graph, "shift", TDM_FLOAT32, tdm_tensor_shape(fed), &zeros);
  const tdm_value whole = make_concat(graph, of, tdm_add(graph, "shifted", x, shift));
  const tdm_value loss = tdm_sum(graph, "loss", whole, NULL, 0, false);
  tdm_session *session = train_session(graph, loss, tdm_sgd(1), NULL);
  const tdm_feed feed = {"x", fed, false};
  for (int step = 0; step < 2; step++) {
    const tdm_status status = tdm_train_step(session, &feed, 1, NULL, 0, NULL);
    if (status != TDM_OK) fail_msg("%s: %s", text_of(of), tdm_last_message());
  }
  double slope = 0;
  for (size_t i = 0; i < of->count; i++)
    slope += of->kind == SAME ? 1 : 1 + (double)i;
  tdm_tensor_list *state = state_of(session);
  const float *moved = tdm_tensor_data(tdm_tensor_list_find(state, "shift"));
  for (int i = 0; i < WIDTH; i++)
    if ((double)moved[i] != -2 * slope)
      fail_msg("%s: shift is %g, not %g", text_of(of), (double)moved[i], -2 * slope);
  tdm_tensor_list_release(state);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

static void all_counts_of_parts_are_put_together(void **unused) {
  (void)unused;
  const char *const devices[] = {"cpu:0", "cpu:1", "sim:0"};
  for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++)
    for (int dimension = 0; dimension < 2; dimension++)
      for (int kind = 0; kind < KINDS; kind++)
        for (size_t count = 1; count <= MOST; count += count < 4 ? 1 : 12) {
          const concat_case of = {(part_kind)kind, count, dimension, devices[d]};
          check_run(&of);
          if (kind == COMPUTED || kind == SAME || kind == DELIVERED) check_training(&of);
        }
}

/* Checks a concatenation of one part inside another such concatenation, and one of a view. */
static void concatenations_of_one_may_be_nested(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value shift = tdm_linear(graph, "fc", x, WIDTH);
  const tdm_value one = tdm_concat(graph, "one", &shift, 1, 0);
  const tdm_value two = tdm_concat(graph, "two", &one, 1, 1);
  const tdm_value flat = tdm_reshape(graph, "flat", two, tdm_shape_of(1, TDM_INFER));
  const tdm_value three = tdm_concat(graph, "three", &flat, 1, 0);
  const tdm_value pair[] = {three, three};
  const tdm_value four = tdm_concat(graph, "four", pair, 2, 0);
  tdm_output(graph, "y", tdm_concat(graph, "five", &four, 1, 0));
  const tdm_value loss = tdm_sum(graph, "loss", tdm_square(graph, "square", four), NULL, 0, false);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.01), NULL);
  for (int64_t rows = 0; rows < 4; rows++) {
    float values[4 * WIDTH] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const tdm_feed feed = {
        "x", tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, rows, WIDTH), values), false};
    tdm_fetch fetch = {.name = "y"};
    assert_ok(tdm_train_step(session, &feed, 1, &fetch, 1, NULL));
    assert_int_equal(tdm_tensor_bytes(fetch.tensor), 2 * (size_t)rows * WIDTH * sizeof(float));
    const float *y = tdm_tensor_data(fetch.tensor);
    assert_memory_equal(y, y + rows * WIDTH, (size_t)rows * WIDTH * sizeof(float));
    tdm_tensor_release(fetch.tensor);
    tdm_tensor_release(feed.tensor);
  }
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_counts_of_parts_are_put_together),
      cmocka_unit_test(concatenations_of_one_may_be_nested),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
