/* See half.h. */
#include "devices/tensors/half.h"

#include <math.h>
#include <string.h>

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* 1 sign bit, 5 of the exponent (bias 15), 10 of the fraction. */
static float widen_float16(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t rest = half & 0x7FFFu;
  if (rest >= 0x7C00u) return float_of(sign | 0x7F800000u | (rest & 0x3FFu) << 13);
  if (rest >= 0x400u) return float_of(sign | ((rest << 13) + (112u << 23)));
  return float_of(sign | bits_of((float)rest * 0x1p-24F));
}

static uint16_t narrow_float16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
  if (rest > 0x7F800000u) return (uint16_t)(sign | 0x7E00u);
  if (rest >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520 and more */
  if (rest < 0x38800000u) /* smaller than 2^-14: multiples of 2^-24 */
    return (uint16_t)(sign | (uint32_t)lrintf(float_of(rest) * 0x1p24F));
  return (uint16_t)(sign | (rest - (112u << 23) + 0xFFFu + (rest >> 13 & 1u)) >> 13);
}

static uint16_t narrow_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0u;
  return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

void tdm_half_widen(tdm_dtype dtype, const uint16_t *from, float *to, int64_t count) {
  const bool is_float16 = dtype == TDM_FLOAT16;
  for (int64_t i = 0; i < count; i++)
    to[i] = is_float16 ? widen_float16(from[i]) : float_of((uint32_t)from[i] << 16);
}

void tdm_half_narrow(tdm_dtype dtype, const float *from, uint16_t *to, int64_t count) {
  const bool is_float16 = dtype == TDM_FLOAT16;
  for (int64_t i = 0; i < count; i++)
    to[i] = is_float16 ? narrow_float16(from[i]) : narrow_bfloat16(from[i]);
}
