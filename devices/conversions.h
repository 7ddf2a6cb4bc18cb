/* How an element of one dtype is made of another's, for the kernels of every kind: through double
 * where that is floating, through int64 where it is an integer or bool, both of which hold every
 * element of what goes through them. Float to integer truncates toward zero and saturates, NaN
 * gives 0; to bool is != 0; integer to a narrower integer wraps. */
#ifndef TANDEM_DEVICES_CONVERSIONS_H
#define TANDEM_DEVICES_CONVERSIONS_H

#include <stdint.h>

/* Does X(dtype, element, of a double x, of an int64 x) of every dtype that elements are made of.
 * saturate(x, least, most, top) is the kind's: least and most are whole numbers, most possibly
 * rounded up, from where on the result is top. */
#define TDM_CONVERSIONS(X)                                                                         \
  X(TDM_FLOAT64, double, x, (double)x)                                                             \
  X(TDM_FLOAT32, float, (float)x, (float)x)                                                        \
  X(TDM_INT64, int64_t, saturate(x, -0x1p63, 0x1p63, INT64_MAX), x)                                \
  X(TDM_INT32, int32_t, (int32_t)saturate(x, -0x1p31, 0x1p31, INT32_MAX), (int32_t)(uint32_t)x)    \
  X(TDM_UINT8, uint8_t, (uint8_t)saturate(x, 0, 256, 255), (uint8_t)x)                             \
  X(TDM_BOOL, uint8_t, x != 0, x != 0)

#endif
