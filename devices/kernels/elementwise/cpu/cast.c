/* Conversion between dtypes, block by block through int64 or double
 * (devices/kernels/elementwise/conversions.h), and of one number, with which a value is filled. */
#include <string.h>

#include "devices/kernels/cpu/family.h"
#include "devices/kernels/elementwise/conversions.h"
#include "devices/kernels/elementwise/cpu/convert.h"
#include "devices/kernels/elementwise/pointwise.h"

#define BLOCK 512

/* ---- To the wide type, and from it -------------------------------------------------------------
 */

#define WIDEN(dtype, element)                                                                      \
  case dtype: {                                                                                    \
    const element *values = from;                                                                  \
    for (int64_t i = 0; i < count; i++)                                                            \
      to[i] = values[i];                                                                           \
    break;                                                                                         \
  }

void convert_to_double(tdm_dtype dtype, const void *from, double *to, int64_t count) {
  switch (dtype) {
    WIDEN(TDM_FLOAT32, float)
  default:
    WIDEN(TDM_FLOAT64, double)
  }
}

void convert_to_int64(tdm_dtype dtype, const void *from, int64_t *to, int64_t count) {
  switch (dtype) {
    WIDEN(TDM_INT64, int64_t)
    WIDEN(TDM_INT32, int32_t)
  default: /* uint8, bool */
    WIDEN(TDM_UINT8, uint8_t)
  }
}

static inline int64_t saturate(double x, double least, double most, int64_t top) {
  if (!(x > least)) return x <= least ? (int64_t)least : 0; /* NaN: 0 */
  return x >= most ? top : (int64_t)x;
}

#define NARROW(dtype, element, wide, formula)                                                      \
  case dtype: {                                                                                    \
    element *values = to;                                                                          \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const wide x = from[i];                                                                      \
      values[i] = formula;                                                                         \
    }                                                                                              \
    break;                                                                                         \
  }
#define OF_DOUBLE(dtype, element, of_double, of_int64) NARROW(dtype, element, double, of_double)
#define OF_INT64(dtype, element, of_double, of_int64) NARROW(dtype, element, int64_t, of_int64)

void convert_from_double(tdm_dtype dtype, const double *from, void *to, int64_t count) {
  switch (dtype) {
    TDM_CONVERSIONS(OF_DOUBLE)
  default:
    break;
  }
}

void convert_from_int64(tdm_dtype dtype, const int64_t *from, void *to, int64_t count) {
  switch (dtype) {
    TDM_CONVERSIONS(OF_INT64)
  default:
    break;
  }
}

/* ---- Casting --------------------------------------------------------------------------------- */

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
  if (!state) return TDM_OUT_OF_MEMORY;
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

/* ---- Filling --------------------------------------------------------------------------------- */

typedef struct fill_state {
  int64_t count;
  tdm_dtype dtype;
  double value;
} fill_state;

static tdm_status fill_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_fill_attributes *attributes = request->attributes;
  fill_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->dtype = request->outputs[0].dtype;
  state->value = attributes->value;
  return TDM_OK;
}

static tdm_status fill_execute(const tdm_kernel_call *call) {
  const fill_state *state = call->state;
  const size_t element_bytes = tdm_dtype_bytes(state->dtype);
  const size_t bytes = (size_t)state->count * element_bytes;
  char *out = call->outputs[0];
  if (bytes == 0) return TDM_OK;
  memset(out, 0, element_bytes); /* 16-bit dtypes are only filled with 0 */
  convert_from_double(state->dtype, &state->value, out, 1);
  for (size_t done = element_bytes; done < bytes;) { /* doubles what is filled */
    const size_t more = done < bytes - done ? done : bytes - done;
    memcpy(out + done, out, more);
    done += more;
  }
  return TDM_OK;
}

KERNELS(cast, KERNEL_OF_ALL(TDM_OP_CAST, cast_prepare, cast_execute, cast_part),
        KERNEL_OF_EVERY(TDM_OP_FILL, fill_prepare, fill_execute, NULL))
