/* CUDA's table with functions of the test instead of cuBLAS's library: how cuBLAS is opened and
 * closed, how it is called, and the errors for its failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cublas_v2.h>
#include <dlfcn.h>
#include <string.h>

#include "devices/cuda/library/api.h"

static struct {
  bool missing;             /* the library is missing */
  const char *lacks;        /* a function that it has not */
  cublasStatus_t created;   /* the result of its initialisation */
  cublasStatus_t mode_set;  /* what setting the mode does */
  cublasStatus_t answers;   /* the result of all other functions */
  cublasMath_t mode;        /* mode that was set last */
  cudaStream_t stream;      /* the same */
  int opened, begun, ended; /* numbers of calls */
  bool is_double;           /* the requested product is in double precision */
  cublasOperation_t operations[2];
  int64_t sizes[6]; /* n, m, k, and strides */
  double factors[2];
  const void *operands[3];
} blas_double;

static char library, handle;

static cublasStatus_t create(cublasHandle_t *out) {
  if (blas_double.created != CUBLAS_STATUS_SUCCESS) return blas_double.created;
  blas_double.begun++;
  *out = (cublasHandle_t)(void *)&handle;
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy(cublasHandle_t given) {
  assert_ptr_equal((void *)given, &handle);
  blas_double.ended++;
  return blas_double.answers;
}

static cublasStatus_t set_stream(cublasHandle_t given, cudaStream_t stream) {
  assert_ptr_equal((void *)given, &handle);
  blas_double.stream = stream;
  return blas_double.answers;
}

static cublasStatus_t set_math_mode(cublasHandle_t given, cublasMath_t mode) {
  assert_ptr_equal((void *)given, &handle);
  blas_double.mode = mode;
  return blas_double.mode_set;
}

static cublasStatus_t note(bool is_double, cublasOperation_t first, cublasOperation_t second,
                           const int64_t *sizes, const double *factors, const void *a,
                           const void *b, const void *c) {
  blas_double.is_double = is_double;
  blas_double.operations[0] = first;
  blas_double.operations[1] = second;
  memcpy(blas_double.sizes, sizes, sizeof blas_double.sizes);
  memcpy(blas_double.factors, factors, sizeof blas_double.factors);
  blas_double.operands[0] = a;
  blas_double.operands[1] = b;
  blas_double.operands[2] = c;
  return blas_double.answers;
}

static cublasStatus_t product32(cublasHandle_t given, cublasOperation_t first,
                                cublasOperation_t second, int64_t m, int64_t n, int64_t k,
                                const float *alpha, const float *a, int64_t a_stride,
                                const float *b, int64_t b_stride, const float *beta, float *c,
                                int64_t c_stride) {
  assert_ptr_equal((void *)given, &handle);
  return note(false, first, second, (const int64_t[]){m, n, k, a_stride, b_stride, c_stride},
              (const double[]){*alpha, *beta}, a, b, c);
}

static cublasStatus_t product64(cublasHandle_t given, cublasOperation_t first,
                                cublasOperation_t second, int64_t m, int64_t n, int64_t k,
                                const double *alpha, const double *a, int64_t a_stride,
                                const double *b, int64_t b_stride, const double *beta, double *c,
                                int64_t c_stride) {
  assert_ptr_equal((void *)given, &handle);
  return note(true, first, second, (const int64_t[]){m, n, k, a_stride, b_stride, c_stride},
              (const double[]){*alpha, *beta}, a, b, c);
}

/* Replacements for dlopen and related functions of the program (--wrap). */
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *from, const char *name);
char *__wrap_dlerror(void);
int __wrap_dlclose(void *from);

void *__wrap_dlopen(const char *name, int flags) {
  assert_true(strncmp(name, "libcublas.so.", 13) == 0);
  assert_int_equal(flags, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (blas_double.missing) return NULL;
  blas_double.opened++;
  return &library;
}

void *__wrap_dlsym(void *from, const char *name) {
  static const struct {
    const char *name;
    void *function;
  } symbols[] = {
      {"cublasCreate_v2", (void *)create},        {"cublasDestroy_v2", (void *)destroy},
      {"cublasSetStream_v2", (void *)set_stream}, {"cublasSetMathMode", (void *)set_math_mode},
      {"cublasSgemm_v2_64", (void *)product32},   {"cublasDgemm_v2_64", (void *)product64}};
  assert_ptr_equal(from, &library);
  if (blas_double.lacks && strcmp(blas_double.lacks, name) == 0) return NULL;
  for (size_t i = 0; i < sizeof(symbols) / sizeof symbols[0]; i++)
    if (strcmp(symbols[i].name, name) == 0) return symbols[i].function;
  fail_msg("%s is asked for", name);
  return NULL;
}

char *__wrap_dlerror(void) {
  static char words[] = "no such library";
  return blas_double.missing ? words : NULL;
}

int __wrap_dlclose(void *from) {
  assert_ptr_equal(from, &library);
  blas_double.opened--;
  return 0;
}

static int set_up(void **state) {
  (void)state;
  memset(&blas_double, 0, sizeof blas_double);
  return 0;
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static void what_is_missing_is_told(void **state) {
  (void)state;
  static const char *const names[] = {"cublasCreate_v2",    "cublasDestroy_v2",
                                      "cublasSetStream_v2", "cublasSetMathMode",
                                      "cublasSgemm_v2_64",  "cublasDgemm_v2_64"};
  const tdm_cuda_api *api = tdm_cuda_api_linked();
  assert_null(api->blas_absence());
  assert_int_equal(blas_double.opened, 0);
  for (size_t i = 0; i < sizeof(names) / sizeof names[0]; i++) {
    blas_double.lacks = names[i];
    const char *absence = api->blas_absence(), *reason = NULL;
    tdm_cuda_blas blas = (tdm_cuda_blas)(void *)&handle;
    assert_non_null(absence);
    assert_non_null(strstr(absence, " lacks a function"));
    assert_int_equal(api->blas_create(&blas, false, &reason), TDM_CUDA_UNKNOWN);
    assert_string_equal(reason, absence);
    assert_null(blas);
    assert_int_equal(blas_double.opened, 0);
  }
  blas_double.missing = true;
  const char *reason = NULL;
  tdm_cuda_blas blas = (tdm_cuda_blas)(void *)&handle;
  assert_string_equal(api->blas_absence(), "no such library");
  assert_int_equal(api->blas_create(&blas, false, &reason), TDM_CUDA_UNKNOWN);
  assert_non_null(strstr(reason, " cannot be opened"));
  assert_null(blas);
}

static void what_does_not_begin_is_ended(void **state) {
  (void)state;
  const tdm_cuda_api *api = tdm_cuda_api_linked();
  for (int late = 0; late < 2; late++) {
    (void)set_up(NULL);
    tdm_cuda_blas blas = (tdm_cuda_blas)(void *)&handle;
    const char *reason = "one before";
    blas_double.created = late ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
    blas_double.mode_set = CUBLAS_STATUS_NOT_INITIALIZED;
    assert_int_equal(api->blas_create(&blas, false, &reason),
                     late ? TDM_CUDA_BLAS_NOT_INITIALIZED : TDM_CUDA_BLAS_ALLOC_FAILED);
    assert_null(blas);
    assert_null(reason);
    assert_int_equal(blas_double.begun, late);
    assert_int_equal(blas_double.ended, late);
    assert_int_equal(blas_double.opened, 0);
  }
}

static void products_round_to_tf32_where_they_may(void **state) {
  (void)state;
  const tdm_cuda_api *api = tdm_cuda_api_linked();
  for (int tf32 = 0; tf32 < 2; tf32++) {
    tdm_cuda_blas blas = NULL;
    const char *reason = NULL;
    assert_int_equal(api->blas_create(&blas, tf32 == 1, &reason), TDM_CUDA_SUCCESS);
    assert_int_equal(blas_double.mode, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH);
    assert_int_equal(api->blas_destroy(blas), TDM_CUDA_SUCCESS);
    assert_int_equal(blas_double.begun, tf32 + 1);
    assert_int_equal(blas_double.ended, tf32 + 1);
    assert_int_equal(blas_double.opened, 0);
  }
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* A row-major product is computed as the column-major product of the transposes, swapped. */
static void a_product_goes_down_columns(void **state) {
  (void)state;
  const tdm_cuda_api *api = tdm_cuda_api_linked();
  tdm_cuda_blas blas = NULL;
  const char *reason = NULL;
  assert_int_equal(api->blas_create(&blas, false, &reason), TDM_CUDA_SUCCESS);
  static double a, b, c;
  for (int kind = 0; kind < 8; kind++) {
    const tdm_cuda_product product = {.dtype = kind & 4 ? TDM_FLOAT64 : TDM_FLOAT32,
                                      .transpose_a = (kind & 1) != 0,
                                      .transpose_b = (kind & 2) != 0,
                                      .m = 2,
                                      .n = 3,
                                      .k = 4,
                                      .a = &a,
                                      .a_stride = 5,
                                      .b = &b,
                                      .b_stride = 6,
                                      .beta = 0.5,
                                      .c = &c,
                                      .c_stride = 7};
    assert_int_equal(api->blas_product(blas, &product), TDM_CUDA_SUCCESS);
    assert_int_equal(blas_double.is_double, (kind & 4) != 0);
    assert_int_equal(blas_double.operations[0], kind & 2 ? CUBLAS_OP_T : CUBLAS_OP_N);
    assert_int_equal(blas_double.operations[1], kind & 1 ? CUBLAS_OP_T : CUBLAS_OP_N);
    static const int64_t sizes[] = {3, 2, 4, 6, 5, 7};
    assert_memory_equal(blas_double.sizes, sizes, sizeof sizes);
    assert_true(blas_double.factors[0] == 1 && blas_double.factors[1] == 0.5);
    assert_ptr_equal(blas_double.operands[0], &b);
    assert_ptr_equal(blas_double.operands[1], &a);
    assert_ptr_equal(blas_double.operands[2], &c);
  }
  const tdm_cuda_stream stream = (tdm_cuda_stream)(void *)&library;
  assert_int_equal(api->blas_set_stream(blas, stream), TDM_CUDA_SUCCESS);
  assert_ptr_equal((void *)blas_double.stream, &library);
  assert_int_equal(api->blas_destroy(blas), TDM_CUDA_SUCCESS);
}

static void failures_have_names(void **state) {
  (void)state;
  static const struct {
    cublasStatus_t status;
    const char *words;
  } failures[] = {{CUBLAS_STATUS_NOT_INITIALIZED, "cuBLAS is not initialised"},
                  {CUBLAS_STATUS_ALLOC_FAILED, "cuBLAS is short of memory"},
                  {CUBLAS_STATUS_ARCH_MISMATCH, "cuBLAS does not know this GPU"},
                  {CUBLAS_STATUS_EXECUTION_FAILED, "cuBLAS could not execute"},
                  {CUBLAS_STATUS_INVALID_VALUE, "cuBLAS refused"}};
  const tdm_cuda_api *api = tdm_cuda_api_linked();
  for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
    (void)set_up(NULL);
    tdm_cuda_blas blas = NULL;
    const char *reason = NULL;
    assert_int_equal(api->blas_create(&blas, false, &reason), TDM_CUDA_SUCCESS);
    blas_double.answers = failures[i].status;
    const tdm_cuda_code expected = TDM_CUDA_BLAS + (int)failures[i].status;
    const tdm_cuda_product single = {.dtype = TDM_FLOAT32}, twice = {.dtype = TDM_FLOAT64};
    assert_int_equal(api->blas_product(blas, &single), expected);
    assert_int_equal(api->blas_product(blas, &twice), expected);
    assert_int_equal(api->blas_set_stream(blas, NULL), expected);
    assert_int_equal(api->blas_destroy(blas), expected);
    assert_int_equal(blas_double.opened, 0);
    assert_string_equal(api->error_text(expected), failures[i].words);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(what_is_missing_is_told, set_up),
      cmocka_unit_test_setup(what_does_not_begin_is_ended, set_up),
      cmocka_unit_test_setup(products_round_to_tf32_where_they_may, set_up),
      cmocka_unit_test_setup(a_product_goes_down_columns, set_up),
      cmocka_unit_test_setup(failures_have_names, set_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
