/* How the kernels of every kind convert an element from one dtype to another: through double if the
 * source is floating, and through int64 if it is an integer or bool. Both represent every such
 * element. Float to integer truncates toward zero and saturates, and NaN becomes 0. Conversion to
 * bool is != 0. Integer to a narrower integer wraps. */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_CONVERSIONS_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_CONVERSIONS_H

#include <stdint.h>

/* Does X(dtype, element, of a double x, of an int64 x) for every dtype of elements. Each kind
 * defines saturate(x, least, most, top). least and most are whole numbers, and most may be rounded
 * up; from most on the result is top. */
#define TDM_CONVERSIONS(X)                                                                         \
  X(TDM_FLOAT64, double, x, (double)x)                                                             \
  X(TDM_FLOAT32, float, (float)x, (float)x)                                                        \
  X(TDM_INT64, int64_t, saturate(x, -0x1p63, 0x1p63, INT64_MAX), x)                                \
  X(TDM_INT32, int32_t, (int32_t)saturate(x, -0x1p31, 0x1p31, INT32_MAX), (int32_t)(uint32_t)x)    \
  X(TDM_UINT8, uint8_t, (uint8_t)saturate(x, 0, 256, 255), (uint8_t)x)                             \
  X(TDM_BOOL, uint8_t, x != 0, x != 0)

#endif
