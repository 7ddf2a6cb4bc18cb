/* The table of operations and dtypes. Operations that only move elements accept every dtype and
 * keep the bits. Operations that order numbers accept every numeric dtype. A layer refuses other
 * dtypes when it is described, and the message lists the legal ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"

enum { ROWS = 4, COLUMNS = 6, ELEMENTS = ROWS * COLUMNS, MOST = 256 };

static const tdm_dtype dtypes[] = {TDM_FLOAT32, TDM_FLOAT64, TDM_INT32,   TDM_INT64,
                                   TDM_UINT8,   TDM_BOOL,    TDM_FLOAT16, TDM_BFLOAT16};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0], NUMBERS = 6 /* the first of them */ };
static const char *const devices[] = {"cpu:0", "sim:0"};

/* ---- Operations ------------------------------------------------------------------------------ */

typedef struct operands {
  tdm_value x;     /* (4, 6) */
  tdm_value other; /* x from back to front */
  tdm_value mask;  /* bool (4, 6) */
  tdm_value rows;  /* int64 (3), of 0 to 3 */
  tdm_value index; /* int32 (4, 6), of 0 to 3 */
} operands;

typedef tdm_value (*build_function)(tdm_graph *graph, const operands *of);

#define MOVES(name, ...)                                                                           \
  static tdm_value name(tdm_graph *graph, const operands *of) {                                    \
    return __VA_ARGS__;                                                                            \
  }
MOVES(selects, tdm_select(graph, "f", of->x, 1, 2))
MOVES(takes_last_step, tdm_last_step(graph, "f", of->x))
MOVES(slices, tdm_slice(graph, "f", of->x, 1, -1, TDM_TO_THE_BEGINNING, -2))
MOVES(permutes, tdm_permute(graph, "f", of->x, (const int[]){1, 0}, 2))
MOVES(transposes, tdm_transpose(graph, "f", of->x, 0, 1))
MOVES(swaps, tdm_swap_first_dimensions(graph, "f", of->x))
MOVES(reshapes, tdm_reshape(graph, "f", of->x, tdm_shape_of(3, 2, 6, 2)))
MOVES(flattens, tdm_flatten(graph, "f", of->x, 0, 1))
MOVES(unsqueezes, tdm_unsqueeze(graph, "f", of->x, 1))
MOVES(squeezes, tdm_squeeze(graph, "f", tdm_unsqueeze(graph, "g", of->x, 0), 0))
MOVES(concatenates, tdm_concat(graph, "f", (const tdm_value[]){of->x, of->other}, 2, 1))
MOVES(stacks, tdm_stack(graph, "f", (const tdm_value[]){of->x, of->other}, 2, -1))
MOVES(flips, tdm_flip(graph, "f", of->x, (const int[]){0, 1}, 2))
MOVES(rolls, tdm_roll(graph, "f", of->x, 2, 1))
MOVES(repeats, tdm_repeat(graph, "f", of->x, (const int64_t[]){2, 1, 3}, 3))
MOVES(expands, tdm_expand(graph, "f", tdm_slice(graph, "g", of->x, 0, 1, 2, 1),
                          tdm_shape_of(3, 2, 5, COLUMNS)))
MOVES(expands_like, tdm_expand_as(graph, "f", tdm_slice(graph, "g", of->x, 1, 2, 3, 1), of->x))
MOVES(pads_with_zeros,
      tdm_pad(graph, "f", of->x, (const int64_t[]){1, 2, 0, 1}, 4, TDM_PAD_CONSTANT, 0))
MOVES(pads_by_reflection,
      tdm_pad(graph, "f", of->x, (const int64_t[]){1, 2}, 2, TDM_PAD_REFLECT, 0))
MOVES(pads_by_repetition,
      tdm_pad(graph, "f", of->x, (const int64_t[]){1, 2}, 2, TDM_PAD_REPLICATE, 0))
MOVES(pads_around, tdm_pad(graph, "f", of->x, (const int64_t[]){1, 2}, 2, TDM_PAD_CIRCULAR, 0))
MOVES(gathers, tdm_gather(graph, "f", of->x, 0, of->index))
MOVES(gathers_columns, tdm_gather(graph, "f", of->x, 1, of->index))
MOVES(picks_rows, tdm_index_select(graph, "f", of->x, 0, of->rows))
MOVES(picks_columns, tdm_index_select(graph, "f", of->x, 1, of->rows))
MOVES(chooses, tdm_where(graph, "f", of->mask, of->x, of->other))
MOVES(masks, tdm_masked_fill(graph, "f", of->x, of->mask, 0))
MOVES(keeps_the_upper, tdm_triu(graph, "f", of->x, 1))
MOVES(keeps_the_lower, tdm_tril(graph, "f", of->x, -1))
MOVES(takes_the_diagonal, tdm_diagonal(graph, "f", of->x, 1, 0, 1))
MOVES(fills_with_zeros, tdm_zeros_like(graph, "f", of->x))
MOVES(observes, tdm_observe(graph, "f", of->x))
MOVES(detaches, tdm_detach(graph, "f", of->x))

static tdm_value splits(tdm_graph *graph, const operands *of) {
  tdm_value parts[2];
  tdm_split(graph, "f", of->x, 1, (const tdm_dim[]){4, 2}, 2, parts);
  return parts[0];
}

static tdm_value splits_evenly(tdm_graph *graph, const operands *of) {
  tdm_value parts[3];
  tdm_split_evenly(graph, "f", of->x, 1, 3, parts);
  return parts[2];
}

/* Copies rows over several devices, exchanges dimensions, and copies them back. */
static tdm_value goes_over_devices(tdm_graph *graph, const operands *of) {
  tdm_scope_push(graph, "part");
  const tdm_value y = tdm_flip(graph, "f", of->x, (const int[]){1}, 1);
  tdm_scope_pop(graph);
  tdm_parallel_options options = tdm_parallel_options_default();
  options.devices = "cpu:0,sim:0,cpu:0";
  tdm_data_parallel(graph, "part", &options);
  return y;
}

static tdm_value build_module(tdm_graph *graph, void *user, tdm_value input) {
  (void)user;
  return tdm_flip(graph, "f", input, (const int[]){1}, 1);
}

/* Computes the halves of the rows in replicas of a module, and gathers the results. */
static tdm_value goes_over_replicas(tdm_graph *graph, const operands *of) {
  const tdm_module module = {.name = "part", .build = build_module};
  tdm_module replicas[2];
  tdm_value halves[2], made[2] = {{0, 0}, {0, 0}};
  tdm_split_evenly(graph, "halves", of->x, 0, 2, halves);
  const size_t count = tdm_replicate(graph, &module, "cpu:0,sim:0", replicas, 2);
  tdm_parallel_apply(graph, replicas, halves, count, made);
  return tdm_concat(graph, "whole", made, 2, 0);
}

static const struct {
  const char *name;
  build_function build;
} moves[] = {
#define LISTED(name)                                                                               \
  { #name, name }
    LISTED(selects),
    LISTED(takes_last_step),
    LISTED(slices),
    LISTED(permutes),
    LISTED(transposes),
    LISTED(swaps),
    LISTED(reshapes),
    LISTED(flattens),
    LISTED(unsqueezes),
    LISTED(squeezes),
    LISTED(concatenates),
    LISTED(stacks),
    LISTED(flips),
    LISTED(rolls),
    LISTED(repeats),
    LISTED(expands),
    LISTED(expands_like),
    LISTED(pads_with_zeros),
    LISTED(pads_by_reflection),
    LISTED(pads_by_repetition),
    LISTED(pads_around),
    LISTED(gathers),
    LISTED(gathers_columns),
    LISTED(picks_rows),
    LISTED(picks_columns),
    LISTED(chooses),
    LISTED(masks),
    LISTED(keeps_the_upper),
    LISTED(keeps_the_lower),
    LISTED(takes_the_diagonal),
    LISTED(fills_with_zeros),
    LISTED(observes),
    LISTED(detaches),
    LISTED(splits),
    LISTED(splits_evenly),
    LISTED(goes_over_devices),
    LISTED(goes_over_replicas)};
enum { COUNT_OF_MOVES = sizeof moves / sizeof moves[0] };

/* ---- Running --------------------------------------------------------------------------------- */

/* Runs what build makes of x (4, 6) and other on device; out has room for MOST elements. */
static int64_t run(tdm_context *context, const char *name, build_function build, tdm_dtype dtype,
                   const char *device, const void *x, const void *other, void *out) {
  static const uint8_t mask[ELEMENTS] = {1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 1, 1,
                                         0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0};
  static const int64_t rows[] = {3, 0, 2};
  int32_t index[ELEMENTS];
  for (int i = 0; i < ELEMENTS; i++)
    index[i] = i * 5 % 7 % 4;
  const tdm_shape shape = tdm_shape_of(2, ROWS, COLUMNS);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, device);
  const operands of = {.x = tdm_input(graph, "x", dtype, shape),
                       .other = tdm_input(graph, "other", dtype, shape),
                       .mask = tdm_constant(graph, "mask", TDM_BOOL, shape, mask),
                       .rows = tdm_constant(graph, "rows", TDM_INT64, tdm_shape_of(1, 3), rows),
                       .index = tdm_constant(graph, "index", TDM_INT32, shape, index)};
  tdm_output(graph, "y", build(graph, &of));
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s of %s: %s", name, tdm_dtype_name(dtype), tdm_last_message());
  tdm_tensor *tensors[] = {tdm_tensor_from(context, dtype, shape, x),
                           tdm_tensor_from(context, dtype, shape, other)};
  const tdm_feed feeds[] = {{"x", tensors[0], false}, {"other", tensors[1], false}};
  tdm_fetch fetch = {"y", NULL};
  if (tdm_run(session, feeds, 2, &fetch, 1) != TDM_OK)
    fail_msg("%s of %s on %s: %s", name, tdm_dtype_name(dtype), device, tdm_last_message());
  const size_t bytes = tdm_tensor_bytes(fetch.tensor);
  const int64_t count = (int64_t)(bytes / tdm_dtype_bytes(tdm_tensor_dtype(fetch.tensor)));
  assert_true(count <= MOST);
  assert_int_equal(tdm_tensor_read(fetch.tensor, out, bytes), TDM_OK);
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(tensors[i]);
  tdm_tensor_release(fetch.tensor);
  tdm_session_release(session);
  tdm_graph_release(graph);
  return count;
}

/* ---- Moves ----------------------------------------------------------------------------------- */

/* Makes elements of any bits that are not all 0. For bool: 0 and 1, and mostly 1. */
static void make_elements(tdm_dtype dtype, int first, unsigned char *out) {
  const size_t size = tdm_dtype_bytes(dtype);
  for (size_t i = 0; i < ELEMENTS * size; i++)
    out[i] = dtype == TDM_BOOL ? (i + (size_t)first) % 3 != 0
                               : (unsigned char)((i + (size_t)first * size) * 37 % 251 + 1);
}

/* Compares with the same moves of positions in float64: from 1 on those of x, then those of other;
 * 0 is a zero. */
static void check_moves(tdm_context *context, size_t number, tdm_dtype dtype, const char *device) {
  double x[ELEMENTS], other[ELEMENTS], places[MOST];
  for (int i = 0; i < ELEMENTS; i++) {
    x[i] = i + 1;
    other[i] = ELEMENTS + i + 1;
  }
  const char *name = moves[number].name;
  const int64_t count =
      run(context, name, moves[number].build, TDM_FLOAT64, "cpu:0", x, other, places);
  unsigned char given[2 * ELEMENTS * 8], got[MOST * 8];
  const unsigned char zero[8] = {0};
  const size_t size = tdm_dtype_bytes(dtype);
  make_elements(dtype, 0, given);
  make_elements(dtype, ELEMENTS, given + ELEMENTS * size);
  assert_int_equal(
      run(context, name, moves[number].build, dtype, device, given, given + ELEMENTS * size, got),
      count);
  for (int64_t i = 0; i < count; i++) {
    const size_t place = (size_t)places[i];
    const unsigned char *expected = place > 0 ? given + (place - 1) * size : zero;
    if (memcmp(got + (size_t)i * size, expected, size) != 0)
      fail_msg("%s of %s on %s: element %lld is another", name, tdm_dtype_name(dtype), device,
               (long long)i);
  }
}

static void moves_take_every_dtype(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < COUNT_OF_MOVES; i++)
    for (size_t k = 0; k < DTYPES; k++)
      for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        check_moves(context, i, dtypes[k], devices[d]);
  tdm_context_release(context);
}

/* ---- Orders ---------------------------------------------------------------------------------- */

static tdm_value sorts(tdm_graph *graph, const operands *of) {
  return tdm_sort(graph, "f", of->x, 1, false, NULL);
}
static tdm_value sorts_down(tdm_graph *graph, const operands *of) {
  return tdm_sort(graph, "f", of->x, 0, true, NULL);
}
static tdm_value sorts_places(tdm_graph *graph, const operands *of) {
  return tdm_cast(graph, "c", tdm_argsort(graph, "f", of->x, 1, true),
                  tdm_value_dtype(graph, of->x));
}
static tdm_value takes_the_largest(tdm_graph *graph, const operands *of) {
  return tdm_topk(graph, "f", of->x, 2, 1, true, NULL);
}
static tdm_value takes_the_least(tdm_graph *graph, const operands *of) {
  return tdm_topk(graph, "f", of->x, 1, 0, false, NULL);
}
static tdm_value compares(tdm_graph *graph, const operands *of) {
  return tdm_cast(graph, "c", tdm_compare(graph, "f", of->x, TDM_LESS, of->other),
                  tdm_value_dtype(graph, of->x));
}

/* Elements as numbers: what float64 gives of the same ones. */
static void check_order(tdm_context *context, const char *name, build_function build,
                        tdm_dtype dtype, const char *device) {
  double x[2 * ELEMENTS], expected[MOST], got[MOST];
  unsigned char given[2 * ELEMENTS * 8], answer[MOST * 8];
  const bool is_bool = dtype == TDM_BOOL;
  const bool is_signed = !is_bool && dtype != TDM_UINT8;
  for (int i = 0; i < 2 * ELEMENTS; i++)
    x[i] = is_bool ? i * 7 % 5 % 2 : i * 7 % 11 - (is_signed ? 5 : 0);
  tdm_tensor *numbers = tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(1, 2 * ELEMENTS), x);
  tdm_tensor *elements = tdm_tensor_to(numbers, "cpu:0", dtype);
  assert_non_null(elements);
  assert_int_equal(tdm_tensor_read(elements, given, tdm_tensor_bytes(elements)), TDM_OK);
  const int64_t count = run(context, name, build, TDM_FLOAT64, "cpu:0", x, x + ELEMENTS, expected);
  assert_int_equal(run(context, name, build, dtype, device, given,
                       given + ELEMENTS * tdm_dtype_bytes(dtype), answer),
                   count);
  tdm_tensor *made = tdm_tensor_from(context, dtype, tdm_shape_of(1, count), answer);
  tdm_tensor *wide = tdm_tensor_to(made, "cpu:0", TDM_FLOAT64);
  assert_int_equal(tdm_tensor_read(wide, got, tdm_tensor_bytes(wide)), TDM_OK);
  for (int64_t i = 0; i < count; i++) {
    const double number = is_bool ? expected[i] != 0 : expected[i];
    if (got[i] != number)
      fail_msg("%s of %s on %s: element %lld is %g, not %g", name, tdm_dtype_name(dtype), device,
               (long long)i, got[i], number);
  }
  tdm_tensor_release(numbers);
  tdm_tensor_release(elements);
  tdm_tensor_release(made);
  tdm_tensor_release(wide);
}

static void orders_take_every_number(void **state) {
  (void)state;
  static const struct {
    const char *name;
    build_function build;
  } orders[] = {LISTED(sorts),           LISTED(sorts_down),
                LISTED(sorts_places),    LISTED(takes_the_largest),
                LISTED(takes_the_least), LISTED(compares)};
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    for (size_t k = 0; k < NUMBERS; k++)
      for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        check_order(context, orders[i].name, orders[i].build, dtypes[k], devices[d]);
  tdm_context_release(context);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static void assert_elements(const tdm_tensor *tensor, const unsigned char *expected, size_t bytes) {
  unsigned char got[ELEMENTS * 8];
  assert_non_null(tensor);
  assert_int_equal(tdm_tensor_bytes(tensor), bytes);
  assert_int_equal(tdm_tensor_read(tensor, got, bytes), TDM_OK);
  assert_memory_equal(got, expected, bytes);
}

/* Rows or columns over devices, and together again. */
static void check_scattered(tdm_tensor *tensor, int dimension, const unsigned char *expected,
                            size_t bytes) {
  tdm_tensor *chunks[3];
  size_t count = 0;
  assert_int_equal(
      tdm_tensors_scatter(tensor, "sim:0,cpu:0,sim:0", dimension, NULL, chunks, 3, &count), TDM_OK);
  assert_true(count > 1);
  for (int i = 0; i < 2; i++) {
    tdm_tensor *whole = tdm_tensors_gather(chunks, count, dimension, i == 0 ? "cpu:0" : "sim:0");
    assert_elements(whole, expected, bytes);
    tdm_tensor_release(whole);
  }
  for (size_t i = 0; i < count; i++)
    tdm_tensor_release(chunks[i]);
}

/* Checks copies to an accelerator and back, to several devices, and as parts that are joined
 * again. */
static void tensors_travel_in_every_dtype(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  for (size_t k = 0; k < DTYPES; k++) {
    unsigned char given[ELEMENTS * 8];
    const size_t bytes = ELEMENTS * tdm_dtype_bytes(dtypes[k]);
    make_elements(dtypes[k], 0, given);
    tdm_tensor *tensor = tdm_tensor_from(context, dtypes[k], tdm_shape_of(2, ROWS, COLUMNS), given);
    tdm_tensor *there = tdm_tensor_to(tensor, "sim:0", TDM_DTYPE_NONE);
    assert_elements(there, given, bytes);
    tdm_tensor *copies[2];
    assert_int_equal(tdm_tensors_broadcast(&there, 1, "cpu:0,sim:0", copies, 2), TDM_OK);
    for (int i = 0; i < 2; i++) {
      assert_elements(copies[i], given, bytes);
      check_scattered(copies[i], i, given, bytes);
      tdm_tensor_release(copies[i]);
    }
    tdm_tensor_release(there);
    tdm_tensor_release(tensor);
  }
  tdm_context_release(context);
}

/* ---- Refused --------------------------------------------------------------------------------- */

static void refuse(tdm_context *context, build_function build, tdm_dtype dtype, const char *says,
                   const char *legal) {
  tdm_graph *graph = tdm_graph_create(context);
  const operands of = {.x = tdm_input(graph, "x", dtype, tdm_shape_of(2, ROWS, COLUMNS)),
                       .other = tdm_input(graph, "other", dtype, tdm_shape_of(2, ROWS, COLUMNS))};
  if (tdm_value_is_valid(build(graph, &of))) fail_msg("%s is accepted", says);
  assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  if (!strstr(tdm_last_message(), says) || !strstr(tdm_last_message(), legal) ||
      !strstr(tdm_last_message(), tdm_dtype_name(dtype)))
    fail_msg("'%s' lacks '%s' or '%s'", tdm_last_message(), says, legal);
  tdm_graph_release(graph);
}

MOVES(adds, tdm_add(graph, "f", of->x, of->other))
MOVES(tanhs, tdm_tanh(graph, "f", of->x))
MOVES(sums, tdm_sum(graph, "f", of->x, NULL, 0, false))
MOVES(casts, tdm_cast(graph, "f", of->x, TDM_FLOAT16))

static void layers_refuse_dtypes_when_described(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  refuse(context, adds, TDM_BOOL, "add f", "int32");
  refuse(context, adds, TDM_FLOAT16, "add f", "float32, float64, int32, int64");
  refuse(context, tanhs, TDM_FLOAT16, "tanh f", "float32, float64");
  refuse(context, tanhs, TDM_INT32, "tanh f", "floating");
  refuse(context, sorts, TDM_BFLOAT16, "sort f", "float32, float64, int32, int64, uint8, bool");
  refuse(context, compares, TDM_FLOAT16, "compare f", "float32, float64, int32, int64, uint8");
  refuse(context, sums, TDM_FLOAT16, "f", "float32, float64");
  tdm_graph *graph = tdm_graph_create(context);
  const operands of = {.x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, COLUMNS))};
  assert_false(tdm_value_is_valid(casts(graph, &of)));
  assert_non_null(strstr(tdm_last_message(), "cast f: its result would be float16"));
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(moves_take_every_dtype),
      cmocka_unit_test(orders_take_every_number),
      cmocka_unit_test(tensors_travel_in_every_dtype),
      cmocka_unit_test(layers_refuse_dtypes_when_described),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
