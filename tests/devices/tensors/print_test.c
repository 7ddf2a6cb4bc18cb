/* Tensors as they are printed: what PyTorch 1.13 prints of the same, letter for letter. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/core/comma_locale.h"
#include "tests/devices/support.h"

typedef struct print_case {
  const char *name;
  tdm_dtype dtype;
  int64_t dims[3];
  int rank;
  double step; /* element i is i * step; 0: they are those below */
  double values[5];
  const char *text;
} print_case;

static const print_case cases[] = {
    {"scalar", TDM_FLOAT32, {0}, 0, 0, {3.5}, "tensor(3.5000)\n"},
    {"whole scalar", TDM_FLOAT32, {0}, 0, 0, {-2.0}, "tensor(-2.)\n"},
    {"vector",
     TDM_FLOAT32,
     {4},
     1,
     0,
     {0.5, -1.0, 2.0, 0.25},
     "tensor([ 0.5000, -1.0000,  2.0000,  0.2500])\n"},
    {"whole",
     TDM_FLOAT32,
     {2, 2},
     2,
     0,
     {1.0, 2.0, 3.0, -40.0},
     "tensor([[  1.,   2.],\n"
     "        [  3., -40.]])\n"},
    {"mixed zeros", TDM_FLOAT32, {3}, 1, 0, {0.0, 0.0, 1.5}, "tensor([0.0000, 0.0000, 1.5000])\n"},
    {"odd",
     TDM_FLOAT32,
     {4},
     1,
     0,
     {NAN, INFINITY, -INFINITY, 0.0},
     "tensor([nan, inf, -inf, 0.])\n"},
    {"odd and real",
     TDM_FLOAT32,
     {3},
     1,
     0,
     {NAN, INFINITY, 1.25},
     "tensor([   nan,    inf, 1.2500])\n"},
    {"odd and whole", TDM_FLOAT32, {3}, 1, 0, {NAN, -INFINITY, 7.0}, "tensor([nan, -inf, 7.])\n"},
    {"far",
     TDM_FLOAT32,
     {3},
     1,
     0,
     {0.0010000000474974513, 1.0, 2000.5},
     "tensor([1.0000e-03, 1.0000e+00, 2.0005e+03])\n"},
    {"small",
     TDM_FLOAT32,
     {2},
     1,
     0,
     {9.999999747378752e-06, 1.9999999494757503e-05},
     "tensor([1.0000e-05, 2.0000e-05])\n"},
    {"large whole",
     TDM_FLOAT32,
     {2},
     1,
     0,
     {1.0, 1000000000.0},
     "tensor([1.0000e+00, 1.0000e+09])\n"},
    {"int64", TDM_INT64, {5}, 1, 0, {0, 1, 2, 3, 4}, "tensor([0, 1, 2, 3, 4])\n"},
    {"int32",
     TDM_INT32,
     {2, 2},
     2,
     0,
     {1, -2, 300, 4},
     "tensor([[  1,  -2],\n"
     "        [300,   4]], dtype=torch.int32)\n"},
    {"bool", TDM_BOOL, {2}, 1, 0, {1, 0}, "tensor([ True, False])\n"},
    {"bfloat16",
     TDM_BFLOAT16,
     {3},
     1,
     0,
     {0.5, -1.25, 3.0},
     "tensor([ 0.5000, -1.2500,  3.0000], dtype=torch.bfloat16)\n"},
    {"float16",
     TDM_FLOAT16,
     {2},
     1,
     0,
     {0.1, 2.0},
     "tensor([0.1000, 2.0000], dtype=torch.float16)\n"},
    {"empty float16", TDM_FLOAT16, {0}, 1, 0, {0}, "tensor([], dtype=torch.float16)\n"},
    {"uint8", TDM_UINT8, {2}, 1, 0, {1, 255}, "tensor([  1, 255], dtype=torch.uint8)\n"},
    {"float64",
     TDM_FLOAT64,
     {2},
     1,
     0,
     {0.1, 0.2},
     "tensor([0.1000, 0.2000], dtype=torch.float64)\n"},
    {"cube",
     TDM_FLOAT32,
     {2, 2, 2},
     3,
     1.0,
     {0},
     "tensor([[[0., 1.],\n"
     "         [2., 3.]],\n"
     "\n"
     "        [[4., 5.],\n"
     "         [6., 7.]]])\n"},
    {"lines",
     TDM_FLOAT32,
     {30},
     1,
     1.5,
     {0},
     "tensor([ 0.0000,  1.5000,  3.0000,  4.5000,  6.0000,  7.5000,  9.0000, 10.5000,\n"
     "        12.0000, 13.5000, 15.0000, 16.5000, 18.0000, 19.5000, 21.0000, 22.5000,\n"
     "        24.0000, 25.5000, 27.0000, 28.5000, 30.0000, 31.5000, 33.0000, 34.5000,\n"
     "        36.0000, 37.5000, 39.0000, 40.5000, 42.0000, 43.5000])\n"},
    {"long",
     TDM_INT64,
     {1001},
     1,
     1.0,
     {0},
     "tensor([   0,    1,    2,  ...,  998,  999, 1000])\n"},
    {"wide",
     TDM_FLOAT32,
     {2, 1000},
     2,
     0.3333333333333333,
     {0},
     "tensor([[0.0000e+00, 3.3333e-01, 6.6667e-01,  ..., 3.3233e+02, 3.3267e+02,\n"
     "         3.3300e+02],\n"
     "        [3.3333e+02, 3.3367e+02, 3.3400e+02,  ..., 6.6567e+02, 6.6600e+02,\n"
     "         6.6633e+02]])\n"},
    {"tall",
     TDM_FLOAT32,
     {500, 4},
     2,
     1.0,
     {0},
     "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00, 3.0000e+00],\n"
     "        [4.0000e+00, 5.0000e+00, 6.0000e+00, 7.0000e+00],\n"
     "        [8.0000e+00, 9.0000e+00, 1.0000e+01, 1.1000e+01],\n"
     "        ...,\n"
     "        [1.9880e+03, 1.9890e+03, 1.9900e+03, 1.9910e+03],\n"
     "        [1.9920e+03, 1.9930e+03, 1.9940e+03, 1.9950e+03],\n"
     "        [1.9960e+03, 1.9970e+03, 1.9980e+03, 1.9990e+03]])\n"},
    {"deep",
     TDM_FLOAT32,
     {10, 10, 12},
     3,
     1.0,
     {0},
     "tensor([[[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.0000e+00,\n"
     "          1.0000e+01, 1.1000e+01],\n"
     "         [1.2000e+01, 1.3000e+01, 1.4000e+01,  ..., 2.1000e+01,\n"
     "          2.2000e+01, 2.3000e+01],\n"
     "         [2.4000e+01, 2.5000e+01, 2.6000e+01,  ..., 3.3000e+01,\n"
     "          3.4000e+01, 3.5000e+01],\n"
     "         ...,\n"
     "         [8.4000e+01, 8.5000e+01, 8.6000e+01,  ..., 9.3000e+01,\n"
     "          9.4000e+01, 9.5000e+01],\n"
     "         [9.6000e+01, 9.7000e+01, 9.8000e+01,  ..., 1.0500e+02,\n"
     "          1.0600e+02, 1.0700e+02],\n"
     "         [1.0800e+02, 1.0900e+02, 1.1000e+02,  ..., 1.1700e+02,\n"
     "          1.1800e+02, 1.1900e+02]],\n"
     "\n"
     "        [[1.2000e+02, 1.2100e+02, 1.2200e+02,  ..., 1.2900e+02,\n"
     "          1.3000e+02, 1.3100e+02],\n"
     "         [1.3200e+02, 1.3300e+02, 1.3400e+02,  ..., 1.4100e+02,\n"
     "          1.4200e+02, 1.4300e+02],\n"
     "         [1.4400e+02, 1.4500e+02, 1.4600e+02,  ..., 1.5300e+02,\n"
     "          1.5400e+02, 1.5500e+02],\n"
     "         ...,\n"
     "         [2.0400e+02, 2.0500e+02, 2.0600e+02,  ..., 2.1300e+02,\n"
     "          2.1400e+02, 2.1500e+02],\n"
     "         [2.1600e+02, 2.1700e+02, 2.1800e+02,  ..., 2.2500e+02,\n"
     "          2.2600e+02, 2.2700e+02],\n"
     "         [2.2800e+02, 2.2900e+02, 2.3000e+02,  ..., 2.3700e+02,\n"
     "          2.3800e+02, 2.3900e+02]],\n"
     "\n"
     "        [[2.4000e+02, 2.4100e+02, 2.4200e+02,  ..., 2.4900e+02,\n"
     "          2.5000e+02, 2.5100e+02],\n"
     "         [2.5200e+02, 2.5300e+02, 2.5400e+02,  ..., 2.6100e+02,\n"
     "          2.6200e+02, 2.6300e+02],\n"
     "         [2.6400e+02, 2.6500e+02, 2.6600e+02,  ..., 2.7300e+02,\n"
     "          2.7400e+02, 2.7500e+02],\n"
     "         ...,\n"
     "         [3.2400e+02, 3.2500e+02, 3.2600e+02,  ..., 3.3300e+02,\n"
     "          3.3400e+02, 3.3500e+02],\n"
     "         [3.3600e+02, 3.3700e+02, 3.3800e+02,  ..., 3.4500e+02,\n"
     "          3.4600e+02, 3.4700e+02],\n"
     "         [3.4800e+02, 3.4900e+02, 3.5000e+02,  ..., 3.5700e+02,\n"
     "          3.5800e+02, 3.5900e+02]],\n"
     "\n"
     "        ...,\n"
     "\n"
     "        [[8.4000e+02, 8.4100e+02, 8.4200e+02,  ..., 8.4900e+02,\n"
     "          8.5000e+02, 8.5100e+02],\n"
     "         [8.5200e+02, 8.5300e+02, 8.5400e+02,  ..., 8.6100e+02,\n"
     "          8.6200e+02, 8.6300e+02],\n"
     "         [8.6400e+02, 8.6500e+02, 8.6600e+02,  ..., 8.7300e+02,\n"
     "          8.7400e+02, 8.7500e+02],\n"
     "         ...,\n"
     "         [9.2400e+02, 9.2500e+02, 9.2600e+02,  ..., 9.3300e+02,\n"
     "          9.3400e+02, 9.3500e+02],\n"
     "         [9.3600e+02, 9.3700e+02, 9.3800e+02,  ..., 9.4500e+02,\n"
     "          9.4600e+02, 9.4700e+02],\n"
     "         [9.4800e+02, 9.4900e+02, 9.5000e+02,  ..., 9.5700e+02,\n"
     "          9.5800e+02, 9.5900e+02]],\n"
     "\n"
     "        [[9.6000e+02, 9.6100e+02, 9.6200e+02,  ..., 9.6900e+02,\n"
     "          9.7000e+02, 9.7100e+02],\n"
     "         [9.7200e+02, 9.7300e+02, 9.7400e+02,  ..., 9.8100e+02,\n"
     "          9.8200e+02, 9.8300e+02],\n"
     "         [9.8400e+02, 9.8500e+02, 9.8600e+02,  ..., 9.9300e+02,\n"
     "          9.9400e+02, 9.9500e+02],\n"
     "         ...,\n"
     "         [1.0440e+03, 1.0450e+03, 1.0460e+03,  ..., 1.0530e+03,\n"
     "          1.0540e+03, 1.0550e+03],\n"
     "         [1.0560e+03, 1.0570e+03, 1.0580e+03,  ..., 1.0650e+03,\n"
     "          1.0660e+03, 1.0670e+03],\n"
     "         [1.0680e+03, 1.0690e+03, 1.0700e+03,  ..., 1.0770e+03,\n"
     "          1.0780e+03, 1.0790e+03]],\n"
     "\n"
     "        [[1.0800e+03, 1.0810e+03, 1.0820e+03,  ..., 1.0890e+03,\n"
     "          1.0900e+03, 1.0910e+03],\n"
     "         [1.0920e+03, 1.0930e+03, 1.0940e+03,  ..., 1.1010e+03,\n"
     "          1.1020e+03, 1.1030e+03],\n"
     "         [1.1040e+03, 1.1050e+03, 1.1060e+03,  ..., 1.1130e+03,\n"
     "          1.1140e+03, 1.1150e+03],\n"
     "         ...,\n"
     "         [1.1640e+03, 1.1650e+03, 1.1660e+03,  ..., 1.1730e+03,\n"
     "          1.1740e+03, 1.1750e+03],\n"
     "         [1.1760e+03, 1.1770e+03, 1.1780e+03,  ..., 1.1850e+03,\n"
     "          1.1860e+03, 1.1870e+03],\n"
     "         [1.1880e+03, 1.1890e+03, 1.1900e+03,  ..., 1.1970e+03,\n"
     "          1.1980e+03, 1.1990e+03]]])\n"},
    {"empty", TDM_FLOAT32, {0}, 1, 0, {0}, "tensor([])\n"},
    {"empty matrix", TDM_FLOAT32, {0, 3}, 2, 0, {0}, "tensor([], size=(0, 3))\n"},
    {"empty int64", TDM_INT64, {2, 0}, 2, 0, {0}, "tensor([], size=(2, 0), dtype=torch.int64)\n"},
    {"suffix",
     TDM_INT32,
     {9},
     1,
     100000.0,
     {0},
     "tensor([     0, 100000, 200000, 300000, 400000, 500000, 600000, 700000, 800000],\n"
     "       dtype=torch.int32)\n"},
};

static tdm_tensor *make(tdm_context *context, const char *device, const print_case *asked) {
  const tdm_shape shape = tdm_shape_make(asked->rank, asked->dims);
  const int64_t count = tdm_shape_count(&shape);
  double *values = calloc((size_t)count + 1, sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < count; i++)
    values[i] = asked->step > 0 ? (double)i * asked->step : asked->values[i];
  tdm_tensor *wide = tdm_tensor_from(context, TDM_FLOAT64, shape, values);
  tdm_tensor *tensor = tdm_tensor_to(wide, device, asked->dtype);
  assert_non_null(tensor);
  tdm_tensor_release(wide);
  free(values);
  return tensor;
}

static char *printed(const tdm_tensor *tensor) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_ok(tdm_tensor_print(tensor, out));
  assert_int_equal(fclose(out), 0);
  return text;
}

static void tensors_are_printed_as_pytorch_prints_them(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    tdm_tensor *tensor = make(context, "cpu:0", &cases[i]);
    char *text = printed(tensor);
    if (strcmp(text, cases[i].text) != 0)
      fail_msg("%s:\n%s\nis not\n%s", cases[i].name, text, cases[i].text);
    free(text);
    tdm_tensor_release(tensor);
  }
  tdm_context_release(context);
}

static void numbers_have_a_point_in_any_locale(void **state) {
  tensors_are_printed_as_pytorch_prints_them(state);
}

static void the_device_is_printed_where_it_is_another(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_tensor *tensor = tdm_tensor_eye(context, "sim:1", TDM_FLOAT64, 2, 2);
  char *text = printed(tensor);
  assert_string_equal(text, "tensor([[1., 0.],\n        [0., 1.]], device='sim:1', "
                            "dtype=torch.float64)\n");
  free(text);
  assert_status(tdm_tensor_print(NULL, stdout), TDM_INVALID_ARGUMENT);
  assert_status(tdm_tensor_print(tensor, NULL), TDM_INVALID_ARGUMENT);
  tdm_tensor_release(tensor);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensors_are_printed_as_pytorch_prints_them),
      cmocka_unit_test_setup_teardown(numbers_have_a_point_in_any_locale, enter_comma_locale,
                                      leave_comma_locale),
      cmocka_unit_test(the_device_is_printed_where_it_is_another),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
