/* The calls and results of a kernel that converts a dtype without a kernel of the library, and
 * failed conversions. */
#include <math.h>
#include <string.h>

#include "tests/devices/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

enum { ROWS = 3, WIDTH = 2, STATE = 7, WORKSPACE = 1000 };

/* The latest conversion. */
static struct {
  tdm_status prepares, executes; /* statuses that the kernel returns */
  size_t workspace_bytes;        /* size of the requested workspace */
  int prepared, executed, released;
  int state;
} seen;

static void assert_specs(const tdm_spec *input, const tdm_spec *output) {
  const tdm_shape shape = tdm_shape_of(2, ROWS, WIDTH);
  assert_int_equal(input->dtype, TDM_FLOAT32);
  assert_int_equal(output->dtype, TDM_FLOAT16);
  assert_int_equal(input->format, TDM_FORMAT_DENSE);
  assert_int_equal(output->format, TDM_FORMAT_DENSE);
  assert_true(tdm_shape_equal(&input->shape, &shape) && tdm_shape_equal(&output->shape, &shape));
}

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  static const tdm_kernel_answer nothing;
  seen.prepared++;
  assert_memory_equal(answer, &nothing, sizeof nothing);
  assert_int_equal(request->input_count, 1);
  assert_int_equal(request->output_count, 1);
  assert_int_equal(request->team_size, 1);
  assert_false(request->deterministic);
  assert_null(request->attributes);
  assert_specs(request->inputs, request->outputs);
  if (seen.prepares != TDM_OK) return tdm_fail(seen.prepares, "not prepared");
  seen.state = STATE;
  answer->state = &seen.state;
  answer->workspace_bytes = seen.workspace_bytes;
  return TDM_OK;
}

/* The upper halves of the bits: which numbers these are does not matter here. */
static tdm_status execute(const tdm_kernel_call *call) {
  seen.executed++;
  assert_ptr_equal(call->state, &seen.state);
  assert_null(call->attributes);
  assert_null(call->team);
  assert_null(call->stream);
  assert_non_null(call->scalars);
  assert_specs(call->input_specs, call->output_specs);
  assert_int_equal(call->workspace != NULL, seen.workspace_bytes > 0);
  if (call->workspace) memset(call->workspace, 1, seen.workspace_bytes);
  if (seen.executes != TDM_OK) return tdm_fail(seen.executes, "not converted");
  const uint32_t *from = call->inputs[0];
  uint16_t *to = call->outputs[0];
  for (int i = 0; i < ROWS * WIDTH; i++)
    to[i] = (uint16_t)(from[i] >> 16);
  return TDM_OK;
}

static void release(void *state) {
  assert_ptr_equal(state, &seen.state);
  seen.released++;
}

static const tdm_kernel kernel = {.struct_size = sizeof(tdm_kernel),
                                  .operation = "cast",
                                  .executes = "cpu",
                                  .dtype = TDM_FLOAT16,
                                  .prepare = prepare,
                                  .execute = execute,
                                  .release = release};

typedef struct fixture {
  tdm_faulty_allocator *faulty;
  tdm_context *context;
  tdm_tensor *sources[2]; /* on the host, and elsewhere */
} fixture;

static int set_up(void **state) {
  static fixture made;
  made = (fixture){.faulty = tdm_faulty_allocator_create()};
  const tdm_allocator allocator = tdm_faulty_allocator_view(made.faulty);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 2, o.sim_devices = 1);
  made.context = tdm_context_create(&options);
  assert_non_null(made.context);
  const tdm_shape shape = tdm_shape_of(2, ROWS, WIDTH);
  made.sources[0] = tdm_tensor_randn(made.context, "cpu:1", TDM_FLOAT32, shape, 3);
  made.sources[1] = tdm_tensor_to(made.sources[0], "sim:0", TDM_DTYPE_NONE);
  assert_true(made.sources[0] && made.sources[1]);
  memset(&seen, 0, sizeof seen);
  *state = &made;
  return 0;
}

static int tear_down(void **state) {
  fixture *made = *state;
  tdm_tensor_release(made->sources[0]);
  tdm_tensor_release(made->sources[1]);
  tdm_context_release(made->context);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(made->faulty), 0);
  tdm_faulty_allocator_destroy(made->faulty);
  return 0;
}

/* Numbers, and what PyTorch 2.15 makes of them in float16 and bfloat16, as bits. */
static const struct {
  float value;
  uint16_t float16, bfloat16;
} halves_of_numbers[] = {
    {0.1F, 0x2E66, 0x3DCD},          {-2.5F, 0xC100, 0xC020},
    {65504.0F, 0x7BFF, 0x4780},      {65519.996F, 0x7BFF, 0x4780},
    {65520.0F, 0x7C00, 0x4780},      {1e9F, 0x7C00, 0x4E6E},
    {6.1e-5F, 0x03FF, 0x3880},       {6.0e-8F, 0x0001, 0x3381},
    {2.98e-8F, 0x0000, 0x3300},      {2.99e-8F, 0x0001, 0x3300},
    {-0.0F, 0x8000, 0x8000},         {1.00048828125F, 0x3C00, 0x3F80},
    {1.0009765625F, 0x3C01, 0x3F80}, {1.00146484375F, 0x3C02, 0x3F80},
    {3.3895314e38F, 0x7C00, 0x7F7F}, {3.4e38F, 0x7C00, 0x7F80},
    {1e-40F, 0x0000, 0x0001},
};
enum { NUMBERS = sizeof halves_of_numbers / sizeof halves_of_numbers[0] };

static void assert_halves(tdm_tensor *from, tdm_dtype dtype, const uint16_t *wanted, size_t count) {
  static const char *const devices[] = {"cpu:0", "sim:0"};
  for (size_t d = 0; d < TDM_COUNT_OF(devices); d++) {
    uint16_t got[NUMBERS];
    tdm_tensor *half = tdm_tensor_to(from, devices[d], dtype);
    if (!half) fail_msg("%s", tdm_last_message());
    assert_ok(tdm_tensor_read(half, got, count * sizeof *got));
    for (size_t i = 0; i < count; i++)
      if (got[i] != wanted[i]) fail_msg("%zu: 0x%04X, not 0x%04X", i, got[i], wanted[i]);
    tdm_tensor_release(half);
  }
}

static void halves_are_rounded_as_in_pytorch(void **state) {
  const fixture *made = *state;
  float values[NUMBERS];
  uint16_t wanted[2][NUMBERS];
  for (size_t i = 0; i < NUMBERS; i++) {
    values[i] = halves_of_numbers[i].value;
    wanted[0][i] = halves_of_numbers[i].float16;
    wanted[1][i] = halves_of_numbers[i].bfloat16;
  }
  tdm_tensor *single =
      tdm_tensor_from(made->context, TDM_FLOAT32, tdm_shape_of(1, (int64_t)NUMBERS), values);
  tdm_tensor *wide = tdm_tensor_to(single, NULL, TDM_FLOAT64);
  for (int i = 0; i < 2; i++) {
    assert_halves(single, i ? TDM_BFLOAT16 : TDM_FLOAT16, wanted[i], NUMBERS);
    assert_halves(wide, i ? TDM_BFLOAT16 : TDM_FLOAT16, wanted[i], NUMBERS);
  }
  tdm_tensor_release(wide);
  tdm_tensor_release(single);
  const int64_t whole[] = {2049, -4097, 100000};
  const uint16_t whole_wanted[] = {0x6800, 0xEC00, 0x7C00};
  tdm_tensor *integers = tdm_tensor_from(made->context, TDM_INT64, tdm_shape_of(1, 3), whole);
  assert_halves(integers, TDM_FLOAT16, whole_wanted, 3);
  tdm_tensor_release(integers);
}

/* Checks that every float16 and bfloat16 except NaN is unchanged after a conversion to float32 or
 * float64 and back. */
static void every_half_comes_back(void **state) {
  const fixture *made = *state;
  enum { ALL = 65536 };
  static uint16_t bits[ALL], got[ALL];
  static float values[ALL];
  for (int i = 0; i < ALL; i++)
    bits[i] = (uint16_t)i;
  for (int kind = 0; kind < 4; kind++) {
    const tdm_dtype dtype = kind % 2 ? TDM_BFLOAT16 : TDM_FLOAT16;
    tdm_tensor *half = tdm_tensor_from(made->context, dtype, tdm_shape_of(1, (int64_t)ALL), bits);
    tdm_tensor *wide = tdm_tensor_to(half, NULL, kind < 2 ? TDM_FLOAT32 : TDM_FLOAT64);
    tdm_tensor *single = tdm_tensor_to(wide, NULL, TDM_FLOAT32);
    tdm_tensor *again = tdm_tensor_to(wide, NULL, dtype);
    assert_true(half && wide && single && again);
    assert_ok(tdm_tensor_read(again, got, sizeof got));
    assert_ok(tdm_tensor_read(single, values, sizeof values));
    for (int i = 0; i < ALL; i++) {
      const int fraction = i & (kind % 2 ? 0x7F : 0x3FF), rest = i & 0x7FFF;
      const bool is_nan = rest > (kind % 2 ? 0x7F80 : 0x7C00);
      assert_int_equal(isnan(values[i]) != 0, is_nan);
      if (!is_nan && got[i] != bits[i]) fail_msg("0x%04X came back as 0x%04X", bits[i], got[i]);
      const int exponent = rest >> 10;
      if (kind % 2 || exponent == 31) continue;
      const double wanted = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
      assert_true(fabs((double)values[i]) == wanted);
    }
    tdm_tensor_release(half);
    tdm_tensor_release(wide);
    tdm_tensor_release(single);
    tdm_tensor_release(again);
  }
}

/* Casts on any device execute on the host, with a workspace if the kernel requests one. */
static void a_kernel_is_asked_and_given_what_it_needs(void **state) {
  const fixture *made = *state;
  static const char *const devices[] = {"cpu:0", "cpu:1", "sim:0", NULL};
  const uint32_t *bits = tdm_tensor_data(made->sources[0]);
  assert_ok(tdm_kernel_register(made->context, &kernel));
  int count = 0;
  for (size_t from = 0; from < 2; from++)
    for (size_t to = 0; to < TDM_COUNT_OF(devices); to++)
      for (size_t workspace = 0; workspace < 2; workspace++) {
        seen.workspace_bytes = workspace * WORKSPACE;
        tdm_tensor *halves_of = tdm_tensor_to(made->sources[from], devices[to], TDM_FLOAT16);
        if (!halves_of) fail_msg("%s", tdm_last_message());
        const char *device = devices[to] ? devices[to] : from == 0 ? "cpu:1" : "sim:0";
        assert_string_equal(tdm_tensor_device(halves_of), device);
        assert_int_equal(tdm_tensor_dtype(halves_of), TDM_FLOAT16);
        uint16_t halves[ROWS * WIDTH];
        assert_ok(tdm_tensor_read(halves_of, halves, sizeof halves));
        for (int i = 0; i < ROWS * WIDTH; i++)
          assert_int_equal(halves[i], bits[i] >> 16);
        tdm_tensor_release(halves_of);
        count++;
        assert_int_equal(seen.prepared, count);
        assert_int_equal(seen.executed, count);
        assert_int_equal(seen.released, count);
      }
}

static void a_conversion_that_fails_leaves_nothing(void **state) {
  const fixture *made = *state;
  assert_ok(tdm_kernel_register(made->context, &kernel));
  seen.prepares = TDM_UNSUPPORTED;
  assert_null(tdm_tensor_to(made->sources[0], "cpu:0", TDM_FLOAT16));
  assert_int_equal(tdm_last_status(), TDM_UNSUPPORTED);
  assert_string_equal(tdm_last_message(), "not prepared");
  assert_int_equal(seen.executed, 0);
  assert_int_equal(seen.released, 0); /* the kernel has no state */
  seen.prepares = TDM_OK;
  seen.executes = TDM_IO;
  seen.workspace_bytes = WORKSPACE;
  assert_null(tdm_tensor_to(made->sources[1], "sim:0", TDM_FLOAT16));
  assert_int_equal(tdm_last_status(), TDM_IO);
  assert_string_equal(tdm_last_message(), "not converted");
  assert_int_equal(seen.executed, 1);
  assert_int_equal(seen.released, 1);
  seen.executes = TDM_OK;
  seen.workspace_bytes = WORKSPACE;
  for (uint64_t n = 1;; n++) {
    assert_true(n < 50);
    tdm_faulty_allocator_arm(made->faulty, n, false);
    tdm_tensor *halves_of = tdm_tensor_to(made->sources[1], "sim:0", TDM_FLOAT16);
    const bool failed = tdm_faulty_allocator_failures(made->faulty) > 0;
    tdm_faulty_allocator_arm(made->faulty, 0, false);
    if (!halves_of) assert_int_equal(tdm_last_status(), TDM_OUT_OF_MEMORY);
    tdm_tensor_release(halves_of);
    assert_int_equal(seen.released, seen.prepared - 1); /* one could not be prepared */
    if (failed) continue;
    assert_non_null(halves_of);
    break;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(halves_are_rounded_as_in_pytorch, set_up, tear_down),
      cmocka_unit_test_setup_teardown(every_half_comes_back, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_kernel_is_asked_and_given_what_it_needs, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_conversion_that_fails_leaves_nothing, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
