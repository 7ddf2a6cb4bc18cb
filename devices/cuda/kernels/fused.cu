/* Fused nodes: a thread takes an element through all members, each the element function of its own
 * kernel, and only what others read goes back to memory. Invariant: an element of a result has the
 * bits that the members by themselves give it, since no two of them become one expression. */
#include "devices/cuda/kernels/elements.h"
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/kernel.h"

/* A member, told to the threads: values 0 to TDM_FUSED_INPUTS - 1 are the node's inputs, those
 * behind them what members make. */
struct fused_step {
  uint8_t element; /* tdm_element */
  uint8_t input_count;
  uint8_t inputs[TDM_FUSED_INPUTS];
  double setting;
  dropout_pattern pattern; /* of dropout */
};

/* A parameter of the kernel: no pointers inside. */
struct fused_program {
  int32_t step_count;
  uint32_t numbers;                   /* bit k: input k is one number for all elements */
  uint8_t outputs[TDM_FUSED_OUTPUTS]; /* values */
  fused_step steps[TDM_FUSED_MEMBERS];
};

struct fused_state {
  fused_program program;
  int64_t count;
  bool wide;
};

/* ---- Preparing ------------------------------------------------------------------------------- */

typedef double (*setting_function)(const void *attributes);

static const setting_function settings[] = {no_setting,
#define SETTING(operation, name) element<TDM_ELEMENT_##name>::setting_of,
                                            TDM_ELEMENT_KERNELS(SETTING)
#undef SETTING
};

static fused_step step_of(const tdm_fused_member *member) {
  fused_step step = {};
  step.element = (uint8_t)member->kernel->element;
  step.input_count = member->input_count;
  for (int k = 0; k < member->input_count; k++)
    step.inputs[k] = member->inputs[k];
  step.setting = settings[step.element](member->attributes);
  if (step.element == TDM_ELEMENT_dropout)
    step.pattern = pattern_of(static_cast<const tdm_dropout_attributes *>(member->attributes),
                              &member->specs[member->input_count]);
  return step;
}

tdm_status tdm_cuda_fused_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_fused_attributes *attributes =
      static_cast<const tdm_fused_attributes *>(request->attributes);
  fused_state *state = state_create<fused_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->wide = request->outputs[0].dtype == TDM_FLOAT64;
  fused_program *program = &state->program;
  program->step_count = (int32_t)attributes->member_count;
  for (size_t k = 0; k < request->input_count; k++)
    program->numbers |= (uint32_t)(count_of(&request->inputs[k]) == 1) << k;
  for (int64_t m = 0; m < attributes->member_count; m++) {
    const tdm_fused_member *member = &attributes->members[m];
    program->steps[m] = step_of(member);
    if (member->output != 0) program->outputs[member->output - 1] = (uint8_t)(TDM_FUSED_INPUTS + m);
  }
  return TDM_OK;
}

/* ---- Executing ------------------------------------------------------------------------------- */

template <class real>
static __device__ real compute(const fused_step &step, const real *values, int64_t i, uint64_t seed,
                               uint32_t run_step) {
  const real a = values[step.inputs[0]];
  const real b = values[step.inputs[step.input_count > 1 ? 1 : 0]];
  const dropout_pattern &pattern = step.pattern;
  if (step.element == TDM_ELEMENT_dropout &&
      is_dropped(i, pattern.stretch, pattern.whole_stretch, pattern.first, seed, pattern.stream,
                 run_step, pattern.threshold))
    return 0;
  if (step.element == TDM_ELEMENT_accumulate) {
    real sum = a;
    for (int k = 1; k < step.input_count; k++)
      sum = element<TDM_ELEMENT_accumulate>::of(sum, values[step.inputs[k]], step.setting);
    return sum;
  }
  switch (step.element) {
#define CASE(operation, name)                                                                      \
  case TDM_ELEMENT_##name:                                                                         \
    return element<TDM_ELEMENT_##name>::of(a, b, step.setting);
    TDM_ELEMENT_KERNELS(CASE)
#undef CASE
  default:
    return a;
  }
}

/* x0 to x7: (count), or (); y0 to y3: (count); NULL behind the last. */
template <class real>
static __global__ void fused(fused_program program, const real *x0, const real *x1, const real *x2,
                             const real *x3, const real *x4, const real *x5, const real *x6,
                             const real *x7, real *y0, real *y1, real *y2, real *y3, uint64_t seed,
                             uint32_t run_step, int64_t count) {
  const real *const inputs[TDM_FUSED_INPUTS] = {x0, x1, x2, x3, x4, x5, x6, x7};
  real *const outputs[TDM_FUSED_OUTPUTS] = {y0, y1, y2, y3};
  EACH_ELEMENT(i, count) {
    real values[TDM_FUSED_INPUTS + TDM_FUSED_MEMBERS];
    for (int k = 0; k < TDM_FUSED_INPUTS; k++)
      values[k] = inputs[k] == NULL ? 0 : inputs[k][program.numbers >> k & 1 ? 0 : i];
    for (int m = 0; m < program.step_count; m++)
      values[TDM_FUSED_INPUTS + m] = compute(program.steps[m], values, i, seed, run_step);
    for (int k = 0; k < TDM_FUSED_OUTPUTS; k++)
      if (outputs[k] != NULL) outputs[k][i] = values[program.outputs[k]];
  }
}

template <class real>
static tdm_status run(const tdm_kernel_call *call, const void *const *x, void *const *y) {
  const fused_state *state = static_cast<const fused_state *>(call->state);
  const real *in[TDM_FUSED_INPUTS];
  real *out[TDM_FUSED_OUTPUTS];
  for (int k = 0; k < TDM_FUSED_INPUTS; k++)
    in[k] = static_cast<const real *>(x[k]);
  for (int k = 0; k < TDM_FUSED_OUTPUTS; k++)
    out[k] = static_cast<real *>(y[k]);
  return kernel_launch(call, "fused", fused<real>, blocks_for(state->count), BLOCK, state->program,
                       in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], out[0], out[1],
                       out[2], out[3], call->scalars->seed, (uint32_t)call->scalars->step,
                       state->count);
}

tdm_status tdm_cuda_fused_execute(const tdm_kernel_call *call) {
  const tdm_fused_attributes *attributes =
      static_cast<const tdm_fused_attributes *>(call->attributes);
  const void *x[TDM_FUSED_INPUTS] = {};
  void *y[TDM_FUSED_OUTPUTS] = {};
  for (int64_t m = 0; m < attributes->member_count; m++) {
    const tdm_fused_member *member = &attributes->members[m];
    for (int k = 0; k < member->input_count; k++)
      if (member->inputs[k] < TDM_FUSED_INPUTS)
        x[member->inputs[k]] = call->inputs[member->inputs[k]];
    if (member->output != 0) y[member->output - 1] = call->outputs[member->output - 1];
  }
  return static_cast<const fused_state *>(call->state)->wide ? run<double>(call, x, y)
                                                             : run<float>(call, x, y);
}
