/* Sums, scaling and updates of whole tensors, element by element. Invariant: an element of the
 * result depends on the same element of the operands alone. */
#include "core/status.h"
#include "devices/cpu/kernels/vector.h"

#define GRAIN 4096

typedef struct elementwise_state {
  int64_t count;
  int64_t inputs;
  bool splits;
} elementwise_state;

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  elementwise_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = tdm_cpu_count(&request->outputs[0]);
  state->inputs = (int64_t)request->input_count;
  const double bytes = (double)state->count * (double)(state->inputs + 1) * sizeof(real);
  state->splits = answer->splits = tdm_cpu_splits(request, bytes / 20.0);
  return TDM_OK;
}

static tdm_status run(const tdm_kernel_call *call,
                      void (*range)(void *call, int64_t begin, int64_t end)) {
  const elementwise_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, state->count, GRAIN, range, (void *)call);
  return TDM_OK;
}

/* ---- accumulate ------------------------------------------------------------------------------ */

static void accumulate_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const int64_t inputs = ((const elementwise_state *)call->state)->inputs;
  real *out = call->outputs[0]; /* (count), like every input */
  for (int64_t i = begin; i < end; i += LANES) {
    const int64_t left = end - i;
    vec sum = vec_load_first((const real *)call->inputs[0] + i, left);
    for (int64_t k = 1; k < inputs; k++) {
      sum += vec_load_first((const real *)call->inputs[k] + i, left);
    }
    vec_store_first(out + i, sum, left);
  }
}

tdm_status TDM_NAME(tdm_accumulate_prepare)(const tdm_kernel_request *request,
                                            tdm_kernel_answer *answer) {
  return prepare(request, answer);
}

tdm_status TDM_NAME(tdm_accumulate_execute)(const tdm_kernel_call *call) {
  return run(call, accumulate_range);
}

ELEMENT_PART(accumulate)

/* ---- scale ----------------------------------------------------------------------------------- */

static void scale_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const real *x = call->inputs[0];               /* (count) */
  const real s = *(const real *)call->inputs[1]; /* () */
  real *out = call->outputs[0];                  /* (count) */
  for (int64_t i = begin; i < end; i += LANES) {
    vec_store_first(out + i, vec_load_first(x + i, end - i) * s, end - i);
  }
}

tdm_status TDM_NAME(tdm_scale_prepare)(const tdm_kernel_request *request,
                                       tdm_kernel_answer *answer) {
  return prepare(request, answer);
}

tdm_status TDM_NAME(tdm_scale_execute)(const tdm_kernel_call *call) {
  return run(call, scale_range);
}

ELEMENT_PART(scale)

/* ---- divide ---------------------------------------------------------------------------------- */

static void divide_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const real *x = call->inputs[0];               /* (count) */
  const real s = *(const real *)call->inputs[1]; /* () */
  real *out = call->outputs[0];                  /* (count) */
  for (int64_t i = begin; i < end; i += LANES) {
    vec_store_first(out + i, vec_load_first(x + i, end - i) / s, end - i);
  }
}

tdm_status TDM_NAME(tdm_divide_prepare)(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer) {
  return prepare(request, answer);
}

tdm_status TDM_NAME(tdm_divide_execute)(const tdm_kernel_call *call) {
  return run(call, divide_range);
}

ELEMENT_PART(divide)
