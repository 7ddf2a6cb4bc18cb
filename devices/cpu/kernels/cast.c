/* Conversion between dtypes, block by block through int64 or double (see convert.h). */
#include <string.h>

#include "core/status.h"
#include "devices/cpu/kernels/convert.h"
#include "devices/cpu/kernels/family.h"

#define BLOCK 512

/* ---- To the wide type --------------------------------------------------------------------------
 */

void convert_to_double(tdm_dtype dtype, const void *from, double *to, int64_t count) {
  if (dtype == TDM_FLOAT64) {
    memcpy(to, from, (size_t)count * sizeof(double));
    return;
  }
  const float *values = from;
  for (int64_t i = 0; i < count; i++)
    to[i] = (double)values[i];
}

void convert_to_int64(tdm_dtype dtype, const void *from, int64_t *to, int64_t count) {
  if (dtype == TDM_INT64) {
    memcpy(to, from, (size_t)count * sizeof(int64_t));
  } else if (dtype == TDM_INT32) {
    const int32_t *values = from;
    for (int64_t i = 0; i < count; i++)
      to[i] = values[i];
  } else { /* uint8, bool */
    const uint8_t *values = from;
    for (int64_t i = 0; i < count; i++)
      to[i] = values[i];
  }
}

/* ---- From the wide type ------------------------------------------------------------------------
 */

/* least and most are whole numbers, most possibly rounded up: from there on the result is `top`. */
static inline int64_t saturate(double x, double least, double most, int64_t top) {
  if (!(x > least)) return x <= least ? (int64_t)least : 0; /* NaN: 0 */
  return x >= most ? top : (int64_t)x;
}

void convert_from_double(tdm_dtype dtype, const double *from, void *to, int64_t count) {
  if (dtype == TDM_FLOAT64) {
    memcpy(to, from, (size_t)count * sizeof(double));
  } else if (dtype == TDM_FLOAT32) {
    float *values = to;
    for (int64_t i = 0; i < count; i++)
      values[i] = (float)from[i];
  } else if (dtype == TDM_INT64) {
    int64_t *values = to;
    for (int64_t i = 0; i < count; i++) {
      values[i] = saturate(from[i], -0x1p63, 0x1p63, INT64_MAX);
    }
  } else if (dtype == TDM_INT32) {
    int32_t *values = to;
    for (int64_t i = 0; i < count; i++) {
      values[i] = (int32_t)saturate(from[i], -0x1p31, 0x1p31, INT32_MAX);
    }
  } else if (dtype == TDM_UINT8) {
    uint8_t *values = to;
    for (int64_t i = 0; i < count; i++)
      values[i] = (uint8_t)saturate(from[i], 0, 256, 255);
  } else {
    uint8_t *values = to;
    for (int64_t i = 0; i < count; i++)
      values[i] = from[i] != 0;
  }
}

void convert_from_int64(tdm_dtype dtype, const int64_t *from, void *to, int64_t count) {
  if (dtype == TDM_FLOAT64) {
    double *values = to;
    for (int64_t i = 0; i < count; i++)
      values[i] = (double)from[i];
  } else if (dtype == TDM_FLOAT32) {
    float *values = to;
    for (int64_t i = 0; i < count; i++)
      values[i] = (float)from[i];
  } else if (dtype == TDM_INT64) {
    memcpy(to, from, (size_t)count * sizeof(int64_t));
  } else if (dtype == TDM_INT32) {
    uint32_t *values = to;
    for (int64_t i = 0; i < count; i++)
      values[i] = (uint32_t)from[i];
  } else if (dtype == TDM_UINT8) {
    uint8_t *values = to;
    for (int64_t i = 0; i < count; i++)
      values[i] = (uint8_t)from[i];
  } else {
    uint8_t *values = to;
    for (int64_t i = 0; i < count; i++)
      values[i] = from[i] != 0;
  }
}

/* ---- The kernel ------------------------------------------------------------------------------ */

typedef struct cast_state {
  int64_t count;
  tdm_dtype from;
  tdm_dtype to;
  bool splits;
} cast_state;

static tdm_status cast_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  const cast_state *state = call->state;
  const size_t from_bytes = tdm_dtype_bytes(state->from), to_bytes = tdm_dtype_bytes(state->to);
  for (int64_t i = begin; i < end; i += BLOCK) {
    const int64_t count = lesser_of(end - i, BLOCK);
    const char *from = (const char *)call->inputs[0] + (size_t)i * from_bytes;
    char *to = (char *)call->outputs[0] + (size_t)i * to_bytes;
    if (tdm_dtype_is_floating(state->from)) {
      double values[BLOCK];
      convert_to_double(state->from, from, values, count);
      convert_from_double(state->to, values, to, count);
    } else {
      int64_t values[BLOCK];
      convert_to_int64(state->from, from, values, count);
      convert_from_int64(state->to, values, to, count);
    }
  }
  return TDM_OK;
}

static tdm_status cast_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  cast_state *state = kernel_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->from = request->inputs[0].dtype;
  state->to = request->outputs[0].dtype;
  state->splits = answer->splits = tdm_cpu_splits(request, (double)state->count);
  return TDM_OK;
}

static tdm_status cast_execute(const tdm_kernel_call *call) {
  const cast_state *state = call->state;
  return tdm_cpu_run_parts(call, cast_part, state->splits, state->count, 8 * BLOCK);
}

KERNELS(cast, KERNEL_OF_ALL(TDM_OP_CAST, cast_prepare, cast_execute, cast_part))
