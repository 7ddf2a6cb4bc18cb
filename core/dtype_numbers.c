/* The range of each dtype. Invariant: each dtype has one row, whose bounds and text agree. */
#include "core/dtype_numbers.h"

#include <float.h>
#include <math.h>

#include "core/status.h"

typedef struct range_row {
  double least;
  double most; /* excluded for int64: 2^63, because no double equals 2^63 - 1 */
  const char *text;
} range_row;

static const range_row range_rows[TDM_DTYPE_COUNT] = {
    [TDM_FLOAT32] = {-(double)FLT_MAX, (double)FLT_MAX,
                     "numbers from -3.4028235e+38 to 3.4028235e+38, infinities and NaN"},
    [TDM_FLOAT64] = {-DBL_MAX, DBL_MAX, "every double"},
    [TDM_INT32] = {INT32_MIN, INT32_MAX, "whole numbers from -2147483648 to 2147483647"},
    [TDM_INT64] = {-0x1p63, 0x1p63,
                   "whole numbers from -9223372036854775808 to 9223372036854775807"},
    [TDM_UINT8] = {0, UINT8_MAX, "whole numbers from 0 to 255"},
    [TDM_BOOL] = {0, 1, "0 and 1"},
    [TDM_FLOAT16] = {-65504, 65504, "numbers from -65504 to 65504, infinities and NaN"},
    [TDM_BFLOAT16] = {-0x1.fep127, 0x1.fep127,
                      "numbers from -3.3895314e+38 to 3.3895314e+38, infinities and NaN"},
};

bool tdm_dtype_holds(tdm_dtype dtype, double number) {
  if (tdm_dtype_bytes(dtype) == 0) return false;
  const range_row *row = &range_rows[dtype];
  if (tdm_dtype_is_floating(dtype) && !isfinite(number)) return true;
  if (!(number >= row->least && number <= row->most)) return false;
  if (tdm_dtype_is_floating(dtype)) return true;
  return number == floor(number) && number < 0x1p63;
}

double tdm_dtype_least(tdm_dtype dtype) {
  return range_rows[dtype].least;
}

double tdm_dtype_floor(tdm_dtype dtype, double number) {
  const range_row *row = &range_rows[dtype];
  const bool floats = tdm_dtype_is_floating(dtype);
  if (floats && isinf(number)) return number;
  if (number >= row->most) return row->most;
  if (number < row->least) return -INFINITY;
  if (!floats) return floor(number);
  if (dtype != TDM_FLOAT32) return number;
  const float nearest = (float)number;
  return (double)(nearest > number ? nextafterf(nearest, -INFINITY) : nearest);
}

tdm_status tdm_dtype_check(tdm_dtype dtype, const char *what, double number) {
  if (tdm_dtype_holds(dtype, number)) return TDM_OK;
  if (tdm_dtype_bytes(dtype) == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%d is no dtype", (int)dtype);
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is %.15g, and %s holds %s", what, number,
                  tdm_dtype_name(dtype), range_rows[dtype].text);
}

tdm_status tdm_dtype_check_range(tdm_dtype dtype, double start, double step, int64_t count) {
  if (count == 0) return TDM_OK;
  TDM_TRY(tdm_dtype_check(dtype, "its first element", start));
  if (!tdm_dtype_is_floating(dtype)) TDM_TRY(tdm_dtype_check(TDM_INT64, "its step", step));
  /* If the last element is beyond int64, its rounded value is too, because 2^63 is a double. */
  return tdm_dtype_check(dtype, "its last element", start + (double)(count - 1) * step);
}
