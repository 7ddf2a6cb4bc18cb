/* Fused nodes: a thread takes an element through all members, each the element function of its own
 * kernel, and only what others read goes back to memory. Invariant: an element of a result has the
 * bits that the members by themselves give it, since no two of them become one expression. */
#include "devices/cuda/kernels/elements.h"
#include "devices/fused.h"

/* A member, told to the threads: values 0 to TDM_FUSED_INPUTS - 1 are the node's inputs, those
 * behind them what members make. */
struct fused_step {
  uint8_t element; /* element_number */
  uint8_t input_count;
  uint8_t inputs[TDM_FUSED_INPUTS];
  tdm_element_settings settings;
  dropout_pattern pattern; /* of dropout */
};

/* A parameter of the kernel: no pointers inside. */
struct fused_program {
  int32_t step_count;
  uint32_t numbers;                   /* bit k: input k is one number for all elements */
  uint32_t conditions;                /* bit k: input k is bool */
  uint32_t comparisons;               /* bit k: output k is bool */
  uint8_t outputs[TDM_FUSED_OUTPUTS]; /* values */
  fused_step steps[TDM_FUSED_MEMBERS];
};

struct fused_state {
  fused_program program;
  int64_t count;
};

/* ---- Preparing ------------------------------------------------------------------------------- */

/* In the order of element_number. */
static const tdm_element_settings_reader settings_readers[] = {
    tdm_no_settings,
#define READER(name, ...) element<ELEMENT_##name>::settings_of,
    TDM_CUDA_ELEMENTS(READER, READER, READER)
#undef READER
        tdm_no_settings,
    tdm_no_settings,
    compare_settings,
    dropout_settings,
    where_settings};

static fused_step step_of(const tdm_fused_member *member) {
  fused_step step = {};
  step.element = (uint8_t)member->kernel->element;
  step.input_count = member->input_count;
  for (int k = 0; k < member->input_count; k++)
    step.inputs[k] = member->inputs[k];
  step.settings = settings_readers[step.element](member->attributes);
  if (step.element == ELEMENT_CAST)
    step.settings.flag = member->specs[member->input_count].dtype == TDM_BOOL;
  if (step.element == ELEMENT_DROPOUT)
    step.pattern = pattern_of(static_cast<const tdm_dropout_attributes *>(member->attributes),
                              &member->specs[member->input_count]);
  return step;
}

static tdm_status fused_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_fused_attributes *attributes =
      static_cast<const tdm_fused_attributes *>(request->attributes);
  fused_state *state = state_create<fused_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  fused_program *program = &state->program;
  program->step_count = (int32_t)attributes->member_count;
  for (size_t k = 0; k < request->input_count; k++) {
    program->numbers |= (uint32_t)(count_of(&request->inputs[k]) == 1) << k;
    program->conditions |= (uint32_t)(request->inputs[k].dtype == TDM_BOOL) << k;
  }
  for (size_t k = 0; k < request->output_count; k++)
    program->comparisons |= (uint32_t)(request->outputs[k].dtype == TDM_BOOL) << k;
  for (int64_t m = 0; m < attributes->member_count; m++) {
    const tdm_fused_member *member = &attributes->members[m];
    program->steps[m] = step_of(member);
    if (member->output != 0) program->outputs[member->output - 1] = (uint8_t)(TDM_FUSED_INPUTS + m);
  }
  return TDM_OK;
}

/* ---- Executing ------------------------------------------------------------------------------- */

/* Operand k of a step. */
template <class real>
static __device__ real operand_of(const fused_step &step, const real *values, int k, real absent) {
  return step.inputs[k] == TDM_FUSED_ABSENT ? absent : values[step.inputs[k]];
}

template <class real>
static __device__ real compute(const fused_step &step, const real *values, int64_t i, uint64_t seed,
                               uint32_t run_step) {
  const formula_settings<real> settings = settings_in<real>(step.settings);
  const real a = values[step.inputs[0]]; /* always there */
  const real b = operand_of(step, values, step.input_count > 1 ? 1 : 0, settings.second);
  switch (step.element) {
#define CASE(name, ...)                                                                            \
  case ELEMENT_##name:                                                                             \
    return element<ELEMENT_##name>::of(a, b, settings);
    TDM_CUDA_ELEMENTS(CASE, CASE, CASE)
#undef CASE
  case ELEMENT_CAST:
    return settings.flag ? (real)(a != 0) : a;
  case ELEMENT_COMPARE:
    return holds((int)step.settings.first, a, b) ? 1 : 0;
  case ELEMENT_DROPOUT:
    return dropped_or_scaled(a, i, step.pattern, seed, run_step, settings.first);
  case ELEMENT_WHERE:
    return a != 0 ? b : operand_of(step, values, 2, settings.second);
  default: { /* accumulate */
    real sum = a;
    for (int k = 1; k < step.input_count; k++)
      sum += values[step.inputs[k]];
    return sum;
  }
  }
}

/* Element i of input k; 0 where there is none. */
template <class real>
static __device__ real read_input(const fused_program &program, const void *input, int k,
                                  int64_t i) {
  if (!input) return 0;
  const int64_t at = program.numbers >> k & 1 ? 0 : i;
  if (program.conditions >> k & 1) return static_cast<const uint8_t *>(input)[at] != 0 ? 1 : 0;
  return static_cast<const real *>(input)[at];
}

template <class real>
static __device__ void write_output(const fused_program &program, void *output, int k, int64_t i,
                                    real value) {
  if (!output) return;
  if (program.comparisons >> k & 1)
    static_cast<uint8_t *>(output)[i] = value != 0;
  else
    static_cast<real *>(output)[i] = value;
}

/* x0 to x7: (count), or (); y0 to y3: (count); NULL behind the last. */
template <class real>
static __global__ void fused(fused_program program, const void *x0, const void *x1, const void *x2,
                             const void *x3, const void *x4, const void *x5, const void *x6,
                             const void *x7, void *y0, void *y1, void *y2, void *y3, uint64_t seed,
                             uint32_t run_step, int64_t count) {
  const void *const inputs[TDM_FUSED_INPUTS] = {x0, x1, x2, x3, x4, x5, x6, x7};
  void *const outputs[TDM_FUSED_OUTPUTS] = {y0, y1, y2, y3};
  EACH_ELEMENT(i, count) {
    real values[TDM_FUSED_INPUTS + TDM_FUSED_MEMBERS];
    for (int k = 0; k < TDM_FUSED_INPUTS; k++)
      values[k] = read_input<real>(program, inputs[k], k, i);
    for (int m = 0; m < program.step_count; m++)
      values[TDM_FUSED_INPUTS + m] = compute(program.steps[m], values, i, seed, run_step);
    for (int k = 0; k < TDM_FUSED_OUTPUTS; k++)
      write_output(program, outputs[k], k, i, values[program.outputs[k]]);
  }
}

template <class real> static tdm_status fused_run(const tdm_kernel_call *call) {
  const tdm_fused_attributes *attributes =
      static_cast<const tdm_fused_attributes *>(call->attributes);
  const fused_state *state = static_cast<const fused_state *>(call->state);
  const void *x[TDM_FUSED_INPUTS] = {};
  void *y[TDM_FUSED_OUTPUTS] = {};
  for (int64_t m = 0; m < attributes->member_count; m++) {
    const tdm_fused_member *member = &attributes->members[m];
    for (int k = 0; k < member->input_count; k++)
      if (member->inputs[k] < TDM_FUSED_INPUTS)
        x[member->inputs[k]] = call->inputs[member->inputs[k]];
    if (member->output != 0) y[member->output - 1] = call->outputs[member->output - 1];
  }
  return kernel_launch(call, "fused", fused<real>, blocks_for(state->count), BLOCK, state->program,
                       x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], y[0], y[1], y[2], y[3],
                       call->scalars->seed, (uint32_t)call->scalars->step, state->count);
}

KERNELS(fused, KERNEL(TDM_OP_FUSED, fused_prepare, fused_run<real>))
