/* Every golden case with its operands divided along each of their dimensions: in micro-batches,
 * over the replicas of a parallel region, and in a nested region. Outputs, and gradients of all
 * operands, are those of the whole, or the case is refused. So the test finds an operation that
 * mixes rows without a rule for parts. Exception: batch normalization normalizes each part's rows
 * (graph/building.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/layers/layer_cases.h"
#include "tests/options.h"

enum { MOST_FETCHED = LAYER_TEST_MAX_FETCHES + LAYER_TEST_MAX_FEEDS };

/* Ways to cut operands: those of equal length along the dimension, counted from either end. */
typedef enum who_is_cut { ONE_OPERAND, ALL_FROM_THE_FRONT, ALL_FROM_THE_END, WAYS } who_is_cut;

typedef struct cut {
  bool in_time; /* rows are cut into micro-batches */
  who_is_cut who;
  size_t operand;
  int dimension;
} cut;

static struct { int compared, refused; } counts;

/* Outputs, then gradients. */
typedef struct fetched {
  tdm_fetch list[MOST_FETCHED];
  char names[LAYER_TEST_MAX_FEEDS][32];
  size_t count;
} fetched;

/* ---- Building -------------------------------------------------------------------------------- */

static int dimension_of(const tdm_shape *shape, const tdm_shape *of, const cut *how, bool is_it) {
  const int at =
      how->who == ALL_FROM_THE_END ? shape->rank - of->rank + how->dimension : how->dimension;
  if (is_it) return how->dimension;
  if (how->who == ONE_OPERAND || at < 0 || at >= shape->rank) return -1;
  return shape->dims[at] == of->dims[how->dimension] ? at : -1;
}

/* Per operand, where it is cut; -1: it is not. feeds: of a test that was built. */
static void find_dimensions(const layer_test *built, const cut *how, int *out_dimensions) {
  const tdm_shape of = tdm_tensor_shape(built->feeds[how->operand].tensor);
  for (size_t i = 0; i < built->feed_count; i++) {
    const tdm_shape shape = tdm_tensor_shape(built->feeds[i].tensor);
    out_dimensions[i] = dimension_of(&shape, &of, how, i == how->operand);
  }
}

static void wrap(layer_test *test, const int *dimensions) {
  tdm_scatter scatter[LAYER_TEST_MAX_FEEDS];
  for (size_t i = 0; i < test->feed_count; i++)
    scatter[i] = (tdm_scatter){test->fed[i], dimensions[i] < 0 ? TDM_BROADCAST : dimensions[i]};
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = "cpu:0,cpu:0,cpu:0", o.scatter = scatter,
              o.scatter_count = test->feed_count);
  tdm_data_parallel(test->graph, "", &options);
  tdm_data_parallel(test->graph, "", &options); /* nested in the first region */
}

static void fetch(fetched *out, const char *name) {
  assert_true(out->count < MOST_FETCHED);
  out->list[out->count++] = (tdm_fetch){.name = name};
}

/* Fetches the gradients that the golden file has. */
static void fetch_gradients(layer_test *test, fetched *out) {
  char text[256];
  for (size_t i = 0; i < test->feed_count && tdm_value_is_valid(test->loss); i++) {
    (void)snprintf(text, sizeof text, "%s/gradient.%s", test->name, test->feeds[i].name);
    if (!tdm_tensor_list_find(test->golden->list, text)) continue;
    (void)snprintf(out->names[i], sizeof out->names[i], "slope%zu", i);
    tdm_output(test->graph, out->names[i],
               tdm_gradient_of(test->graph, out->names[i], test->loss, test->fed[i]));
    fetch(out, out->names[i]);
  }
}

/* Runs a case: whole if `how` is NULL, otherwise with the divided operands of `built`. */
static tdm_status run_case(layer_test *test, const golden_file *golden, const layer_case *options,
                           const cut *how, const layer_test *built, fetched *out) {
  int dimensions[LAYER_TEST_MAX_FEEDS];
  tdm_session_options session = tdm_session_options_default();
  out->count = 0;
  layer_test_begin(test, golden, options->name, "*=cpu:0");
  test->feeds_all = true;
  if (how) find_dimensions(built, how, dimensions);
  for (size_t i = 0; how && how->in_time && i < built->feed_count; i++)
    test->named[i] = dimensions[i] + 1;
  options->build(test, options);
  if (how && how->in_time) {
    session.micro_batches = 2;
    session.batch_dimension = "batch";
  } else if (how) {
    wrap(test, dimensions);
  }
  for (size_t i = 0; i < test->fetch_count; i++)
    fetch(out, test->fetches[i].name);
  test->fetch_count = 0;
  fetch_gradients(test, out);
  test->session = tdm_session_create(test->graph, &session);
  if (!test->session) return tdm_last_status();
  return tdm_run(test->session, test->feeds, test->feed_count, out->list, out->count);
}

static void release(layer_test *test, fetched *of) {
  for (size_t i = 0; i < of->count; i++)
    tdm_tensor_release(of->list[i].tensor);
  layer_test_end(test);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void check_cut(const golden_file *golden, const layer_case *options, const layer_test *built,
                      const fetched *whole, const cut *how) {
  layer_test test;
  fetched got;
  char text[160];
  const tdm_status status = run_case(&test, golden, options, how, built, &got);
  (void)snprintf(text, sizeof text, "%s, operand %zu (%s) cut along %d, way %d%s", options->name,
                 how->operand, built->feeds[how->operand].name, how->dimension, (int)how->who,
                 how->in_time ? ", in micro-batches" : "");
  if (status != TDM_OK) {
    counts.refused++;
    if (status != TDM_INVALID_ARGUMENT && status != TDM_UNSUPPORTED)
      fail_msg("%s: %s: %s", text, tdm_status_name(status), tdm_last_message());
  } else {
    counts.compared++;
    for (size_t i = 0; i < got.count; i++)
      golden_compare(text, got.list[i].name, got.list[i].tensor, whole->list[i].tensor, 1e-9);
  }
  release(&test, &got);
}

static void check_case(const golden_file *golden, const layer_case *options,
                       const char *placement) {
  (void)placement;
  if (strstr(options->name, "batch_norm")) return;
  layer_test test;
  fetched whole;
  if (run_case(&test, golden, options, NULL, NULL, &whole) == TDM_OK) {
    for (cut how = {0}; how.operand < test.feed_count; how.operand++) {
      const tdm_shape shape = tdm_tensor_shape(test.feeds[how.operand].tensor);
      for (how.dimension = 0; how.dimension < shape.rank; how.dimension++)
        for (int who = 0; who < 2 * WAYS && shape.dims[how.dimension] > 1; who++) {
          how.who = (who_is_cut)(who / 2);
          how.in_time = who % 2;
          check_cut(golden, options, &test, &whole, &how);
        }
    }
  } else {
    print_message("%s does not run with its parameters fed: %s\n", options->name,
                  tdm_last_message());
  }
  release(&test, &whole);
}

static void rows_are_the_wholes_or_refused(void **state) {
  (void)state;
  layer_cases_each(TDM_FLOAT64, "*=cpu:0", check_case);
  print_message("%d compared, %d refused\n", counts.compared, counts.refused);
  assert_true(counts.compared > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_the_wholes_or_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
