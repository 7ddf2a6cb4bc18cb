/* The conversion of CUDA's codes, of reports of kernels, and of errors of a stream, with a driver
 * whose results the test sets. */
#include "devices/cuda/library/errors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "devices/cuda/library/kernel_stream.h"
#include "devices/cuda/library/reports.h"
#include "tests/devices/support.h"

static struct {
  int driver, runtime;
  tdm_cuda_code driver_code, code, stream_code, memory_code, blas_code;
  const char *blas_reason;
  size_t free_bytes;
  int opened; /* number of times that cuBLAS was opened */
  bool tf32;  /* mode when it was opened last */
  char call;  /* the latest: 'l', 'f', 'c' or 'p' */
  int byte;
  size_t bytes;
  const void *to, *from;
  tdm_cuda_stream stream;
  tdm_cuda_direction direction;
} driver;

static char stream_memory, blas_memory;

static const char *error_text(tdm_cuda_code code) {
  (void)code;
  return "so it says";
}

static tdm_cuda_code driver_version(int *out_version) {
  *out_version = driver.driver;
  return driver.driver_code;
}

static int runtime_version(void) {
  return driver.runtime;
}

static const char *blas_absence(void) {
  return driver.blas_reason;
}

static tdm_cuda_code note(char call, void *to, const void *from, int byte, size_t bytes,
                          tdm_cuda_stream stream) {
  driver.call = call;
  driver.to = to;
  driver.from = from;
  driver.byte = byte;
  driver.bytes = bytes;
  driver.stream = stream;
  return driver.code;
}

static tdm_cuda_code launch(const tdm_cuda_launch *asked) {
  return note('l', NULL, NULL, 0, 0, asked->stream);
}

static tdm_cuda_code fill_async(void *to, int byte, size_t bytes, tdm_cuda_stream stream) {
  return note('f', to, NULL, byte, bytes, stream);
}

static tdm_cuda_code copy_async(void *to, const void *from, size_t bytes,
                                tdm_cuda_direction direction, tdm_cuda_stream stream) {
  driver.direction = direction;
  return note('c', to, from, 0, bytes, stream);
}

static tdm_cuda_code stream_query(tdm_cuda_stream stream) {
  assert_ptr_equal((void *)stream, &stream_memory);
  return driver.stream_code;
}

static tdm_cuda_code memory(size_t *out_bytes, size_t *out_free_bytes) {
  *out_bytes = (size_t)80 << 30;
  *out_free_bytes = driver.free_bytes;
  return driver.memory_code;
}

static tdm_cuda_code blas_create(tdm_cuda_blas *out, bool tf32, const char **out_reason) {
  driver.opened++;
  driver.tf32 = tf32;
  *out_reason = driver.blas_reason;
  *out = (tdm_cuda_blas)(void *)&blas_memory;
  return driver.blas_code;
}

static tdm_cuda_code blas_set_stream(tdm_cuda_blas blas, tdm_cuda_stream stream) {
  assert_ptr_equal((void *)blas, &blas_memory);
  driver.stream = stream;
  return driver.blas_code;
}

static tdm_cuda_code blas_product(tdm_cuda_blas blas, const tdm_cuda_product *product) {
  assert_ptr_equal((void *)blas, &blas_memory);
  return note('p', product->c, product->a, 0, 0, driver.stream);
}

static const tdm_cuda_api api = {.error_text = error_text,
                                 .driver_version = driver_version,
                                 .runtime_version = runtime_version,
                                 .blas_absence = blas_absence,
                                 .launch = launch,
                                 .fill_async = fill_async,
                                 .copy_async = copy_async,
                                 .stream_query = stream_query,
                                 .memory = memory,
                                 .blas_create = blas_create,
                                 .blas_set_stream = blas_set_stream,
                                 .blas_product = blas_product};

static int set_up(void **state) {
  (void)state;
  memset(&driver, 0, sizeof driver);
  return 0;
}

/* ---- Codes ----------------------------------------------------------------------------------- */

/* The codes that become a status, of all that CUDA and cuBLAS may have. */
static void assert_codes(tdm_status status, const char *words, const char *codes) {
  char text[512] = "", message[128];
  size_t length = 0;
  for (tdm_cuda_code code = 1; code < TDM_CUDA_BLAS + 100; code++) {
    if (code == 1100) code = TDM_CUDA_BLAS; /* no code lies between these */
    if (tdm_cuda_check(&api, code, "a call") != status) continue;
    length += (size_t)snprintf(text + length, sizeof text - length, " %d", code);
    (void)snprintf(message, sizeof message, "a call: %s (so it says, code %d)", words, code);
    assert_string_equal(tdm_last_message(), message);
    assert_int_equal(tdm_cuda_is_lost(code), status == TDM_DEVICE_LOST);
  }
  assert_string_equal(text, codes);
}

static void every_code_has_a_status(void **state) {
  (void)state;
  assert_codes(TDM_DEVICE_LOST, "the device is lost",
               " 214 220 226 700 702 709 710 714 715 716 717 718 719 721 810 911 999");
  assert_codes(TDM_OUT_OF_MEMORY, "out of memory", " 2 100003");
  assert_codes(TDM_INVALID_ARGUMENT, "CUDA refused", " 712 713");
  assert_codes(TDM_UNAVAILABLE, "the device is not available",
               " 3 34 35 36 46 100 102 127 209 216 218 221 222 223 304 800 802 803 804 805 806 807 "
               "808 809 100001 100008");
  assert_codes(TDM_UNSUPPORTED, "this system does not have it", " 801");
  assert_status(tdm_cuda_check(&api, 1, "a call"), TDM_INTERNAL);
  assert_string_equal(tdm_last_message(), "a call: CUDA refused (so it says, code 1)");
  assert_ok(tdm_cuda_check(&api, TDM_CUDA_SUCCESS, "a call"));
}

static void absence_is_told_in_full(void **state) {
  (void)state;
  static const struct {
    tdm_cuda_code code;
    int driver;
    tdm_cuda_code driver_code;
    int runtime;
    const char *words;
  } cases[] = {
      {TDM_CUDA_SUCCESS, 0, 0, 0, "no device: CUDA's driver finds no GPU that it may use"},
      {TDM_CUDA_NO_DEVICE, 0, 0, 0, "no device: CUDA's driver finds no GPU that it may use"},
      {TDM_CUDA_INSUFFICIENT_DRIVER, 0, 0, 13000, "no driver: CUDA's is not installed"},
      {TDM_CUDA_INSUFFICIENT_DRIVER, 12040, 999, 13000, "no driver: CUDA's is not installed"},
      {TDM_CUDA_INSUFFICIENT_DRIVER, 12040, 0, 13020,
       "driver too old: CUDA's here serves CUDA 12.4, this build needs CUDA 13.0, release 580 or "
       "newer"},
      {TDM_CUDA_INSUFFICIENT_DRIVER, 11080, 0, 12090,
       "driver too old: CUDA's here serves CUDA 11.8, this build needs CUDA 12.0 or newer"},
      {802, 0, 0, 0, "the driver does not start: so it says (code 802)"},
      {719, 0, 0, 0,
       "device lost: CUDA's driver says that its devices are gone: so it says (code 719)"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    driver.driver = cases[i].driver;
    driver.driver_code = cases[i].driver_code;
    driver.runtime = cases[i].runtime;
    assert_string_equal(tdm_cuda_absence(&api, cases[i].code), cases[i].words);
  }
  driver.runtime = 13020;
  assert_null(tdm_cuda_blas_absence(&api));
  driver.blas_reason = "no file";
  assert_string_equal(tdm_cuda_blas_absence(&api),
                      "no cuBLAS: no file; CUDA 13 brings it (pip: nvidia-cublas), and "
                      "LD_LIBRARY_PATH names its folder");
}

/* ---- Reports --------------------------------------------------------------------------------- */

static void reports_become_messages(void **state) {
  (void)state;
  static const struct {
    tdm_cuda_report report;
    tdm_status status;
    const char *words;
  } cases[] = {
      {{-1, 0, 10, TDM_CUDA_REPORT_ID}, TDM_OK, NULL},
      {{0, 3, 10, TDM_CUDA_REPORT_NONE}, TDM_OK, NULL},
      {{0, 12, 10, TDM_CUDA_REPORT_ID},
       TDM_INVALID_ARGUMENT,
       "ids 12 at position 0 is outside 0 to 9"},
      {{3, -1, 10, TDM_CUDA_REPORT_TARGET},
       TDM_INVALID_ARGUMENT,
       "targets -1 at position 3 is outside 0 to 9"},
      {{3, 11, 11, TDM_CUDA_REPORT_LENGTH},
       TDM_INVALID_ARGUMENT,
       "lengths 11 at position 3 is outside 0 to 10"},
      {{3, 5, 5, TDM_CUDA_REPORT_INDEX, 0},
       TDM_INVALID_ARGUMENT,
       "index 5 at position 3 is outside 0 to 4"},
      {{3, 5, 0, TDM_CUDA_REPORT_INDEX, 0},
       TDM_INVALID_ARGUMENT,
       "index 5 at position 3 is outside a dimension of size 0"},
      {{2, -9, 5, TDM_CUDA_REPORT_RANGE, -1},
       TDM_INVALID_ARGUMENT,
       "-9 at position 2 is outside -1 to 3"},
      {{0, 12, 10, TDM_CUDA_REPORT_BAG},
       TDM_INVALID_ARGUMENT,
       "ids 12 at position 0 is outside 0 to 9"},
      {{-2, 1, 1, TDM_CUDA_REPORT_BAG},
       TDM_INVALID_ARGUMENT,
       "offsets 1 at position 0 is outside 0 to 0"},
      {{-5, 1, 5, TDM_CUDA_REPORT_BAG, 2},
       TDM_INVALID_ARGUMENT,
       "offsets 1 at position 3 is outside 2 to 6"},
      {{0, 0, 0, TDM_CUDA_REPORT_ID},
       TDM_INVALID_ARGUMENT,
       "ids 0 at position 0 is outside a table of 0 rows"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    assert_status(tdm_cuda_report_read(&cases[i].report), cases[i].status);
    if (cases[i].words) assert_string_equal(tdm_last_message(), cases[i].words);
  }
  tdm_cuda_report infinite = {.position = 7, .bound = 9, .kind = TDM_CUDA_REPORT_FINITE};
  const double value = -INFINITY;
  memcpy(&infinite.value, &value, sizeof value);
  assert_status(tdm_cuda_report_read(&infinite), TDM_NOT_FINITE);
  assert_string_equal(tdm_last_message(), "element 7 of 9 is -inf: not finite");
}

/* ---- Enqueuing ------------------------------------------------------------------------------- */

static void what_is_enqueued_is_asked_of_the_stream(void **state) {
  (void)state;
  tdm_cuda_report report = {.position = 5};
  tdm_cuda_kernel_stream stream = {
      .stream = (tdm_cuda_stream)(void *)&stream_memory, .api = &api, .report = &report};
  char to[4], from[4];
  tdm_cuda_launch asked = {.name = "relu"};
  assert_ok(tdm_cuda_kernel_stream_launch(&stream, &asked));
  assert_int_equal(driver.call, 'l');
  assert_ptr_equal((void *)driver.stream, &stream_memory);
  assert_ok(tdm_cuda_kernel_stream_fill(&stream, to, 3, 1));
  assert_true(driver.call == 'f' && driver.to == to && driver.byte == 3 && driver.bytes == 1);
  assert_ok(tdm_cuda_kernel_stream_copy(&stream, to, from, 1));
  assert_true(driver.call == 'c' && driver.to == to && driver.from == from && driver.bytes == 1);
  assert_int_equal(driver.direction, TDM_CUDA_ON_DEVICE);
  driver.code = 1;
  assert_ok(tdm_cuda_kernel_stream_fill(&stream, to, 3, 0)); /* an empty fill makes no call */
  assert_ok(tdm_cuda_kernel_stream_copy(&stream, to, from, 0));
  assert_ok(tdm_cuda_kernel_stream_copy(&stream, to, to, 4));
  assert_status(tdm_cuda_kernel_stream_launch(&stream, &asked), TDM_INTERNAL);
  assert_string_equal(tdm_last_message(), "a launch of relu: CUDA refused (so it says, code 1)");
  assert_status(tdm_cuda_kernel_stream_fill(&stream, to, 3, 4), TDM_INTERNAL);
  assert_string_equal(tdm_last_message(), "a fill: CUDA refused (so it says, code 1)");
  assert_status(tdm_cuda_kernel_stream_copy(&stream, to, from, 4), TDM_INTERNAL);
  assert_string_equal(tdm_last_message(),
                      "a copy on the device: CUDA refused (so it says, code 1)");
  assert_ptr_equal(tdm_cuda_kernel_stream_report(&stream, TDM_CUDA_REPORT_BAG, 12), &report);
  assert_true(report.position == -1 && report.value == 0 && report.bound == 12);
  assert_int_equal(report.kind, TDM_CUDA_REPORT_BAG);
}

static void blas_is_opened_once(void **state) {
  (void)state;
  tdm_cuda_blas blas = NULL;
  char a, c;
  for (int tf32 = 0; tf32 < 2; tf32++) {
    blas = NULL;
    driver.opened = 0;
    tdm_cuda_kernel_stream stream = {.stream = (tdm_cuda_stream)(void *)&stream_memory,
                                     .api = &api,
                                     .blas = &blas,
                                     .tf32 = tf32 == 1};
    tdm_cuda_product product = {.m = 0, .n = 1, .a = &a, .c = &c};
    assert_ok(tdm_cuda_kernel_stream_product(&stream, &product));
    product.m = 1;
    product.n = 0;
    assert_ok(tdm_cuda_kernel_stream_product(&stream, &product));
    assert_int_equal(driver.opened, 0);
    product.n = 1;
    for (int i = 0; i < 2; i++) {
      driver.call = ' ';
      assert_ok(tdm_cuda_kernel_stream_product(&stream, &product));
      assert_true(driver.call == 'p' && driver.to == &c && driver.from == &a);
      assert_ptr_equal((void *)driver.stream, &stream_memory);
    }
    assert_int_equal(driver.opened, 1);
    assert_int_equal(driver.tf32, tf32);
  }
}

/* One of cuBLAS's codes is returned for any failure of its initialisation. */
static void what_kept_blas_from_working_is_found(void **state) {
  (void)state;
  static const size_t least = (size_t)256 << 20;
  static const struct {
    tdm_cuda_code code, stream_code, memory_code;
    size_t free_bytes;
    const char *reason;
    const char *words;
  } cases[] = {
      {TDM_CUDA_UNKNOWN, 0, 0, 0, "no file", "there is no cuBLAS: no file"},
      {TDM_CUDA_BLAS_NOT_INITIALIZED, 719, 0, 0, NULL,
       "opening cuBLAS: the device is lost (so it says, code 719)"},
      {TDM_CUDA_BLAS_NOT_INITIALIZED, 0, 0, 268435455, NULL,
       "opening cuBLAS: out of memory (268435455 bytes are free on the GPU)"},
      {TDM_CUDA_BLAS_NOT_INITIALIZED, 0, 0, least, NULL,
       "opening cuBLAS: the device is not available (so it says, code 100001)"},
      {TDM_CUDA_BLAS_NOT_INITIALIZED, TDM_CUDA_NOT_READY, 999, 0, NULL,
       "opening cuBLAS: the device is not available (so it says, code 100001)"},
      {TDM_CUDA_BLAS_EXECUTION_FAILED, 0, 0, 0, NULL,
       "opening cuBLAS: CUDA refused (so it says, code 100013)"},
  };
  const tdm_cuda_product product = {.m = 1, .n = 1};
  tdm_cuda_blas blas = NULL;
  tdm_cuda_kernel_stream stream = {
      .stream = (tdm_cuda_stream)(void *)&stream_memory, .api = &api, .blas = &blas};
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    driver.blas_code = cases[i].code;
    driver.stream_code = cases[i].stream_code;
    driver.memory_code = cases[i].memory_code;
    driver.free_bytes = cases[i].free_bytes;
    driver.blas_reason = cases[i].reason;
    assert_int_not_equal(tdm_cuda_kernel_stream_product(&stream, &product), TDM_OK);
    assert_string_equal(tdm_last_message(), cases[i].words);
    assert_null(blas);
  }
  (void)set_up(NULL);
  assert_ok(tdm_cuda_kernel_stream_product(&stream, &product));
  driver.code = TDM_CUDA_BLAS_EXECUTION_FAILED;
  assert_status(tdm_cuda_kernel_stream_product(&stream, &product), TDM_INTERNAL);
  assert_string_equal(tdm_last_message(),
                      "a product by cuBLAS: CUDA refused (so it says, code 100013)");
  driver.blas_code = TDM_CUDA_BLAS_ARCH_MISMATCH; /* setting the stream fails */
  assert_status(tdm_cuda_kernel_stream_product(&stream, &product), TDM_UNAVAILABLE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(every_code_has_a_status, set_up),
      cmocka_unit_test_setup(absence_is_told_in_full, set_up),
      cmocka_unit_test_setup(reports_become_messages, set_up),
      cmocka_unit_test_setup(what_is_enqueued_is_asked_of_the_stream, set_up),
      cmocka_unit_test_setup(blas_is_opened_once, set_up),
      cmocka_unit_test_setup(what_kept_blas_from_working_is_found, set_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
