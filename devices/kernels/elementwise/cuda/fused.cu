/* Fused nodes: a thread computes all members for an element, each by the element function of its
 * own kernel. Only results that other nodes read are written to memory. Invariant: an element of a
 * result has the same bits as with separate nodes, because no two members become one expression. */
#include "devices/kernels/elementwise/cuda/broadcast.h"
#include "devices/kernels/elementwise/cuda/convert.h"
#include "devices/kernels/elementwise/cuda/elements.h"
#include "devices/kernels/elementwise/dropout.h"
#include "devices/kernels/elementwise/fused.h"

/* How an input of the node is read. */
enum input_reading {
  READS_NOTHING,
  READS_ONE,    /* the same element for all i */
  READS_EACH,   /* element i */
  READS_PLACED, /* each member finds the element: the input is broadcast */
};

/* A member as the threads receive it. Values 0 to TDM_FUSED_INPUTS - 1 are the node's inputs; those
 * after them are the results of members. */
struct fused_step {
  uint8_t element; /* element_number */
  uint8_t input_count;
  uint8_t inputs[TDM_FUSED_INPUTS];
  uint8_t placed; /* bit k: operand k is an input that is broadcast */
  tdm_dtype from; /* dtype of the first operand */
  tdm_dtype to;
  tdm_element_settings settings;
  broadcast_sizes shape;   /* shape of the broadcast; only set if an operand is placed */
  dropout_pattern pattern; /* only set for dropout */
};

/* A parameter of the kernel: no pointers inside. */
struct fused_program {
  int32_t step_count;
  uint8_t readings[TDM_FUSED_INPUTS]; /* input_reading */
  uint8_t input_bytes[TDM_FUSED_INPUTS];
  uint8_t output_bytes[TDM_FUSED_OUTPUTS];
  uint8_t outputs[TDM_FUSED_OUTPUTS]; /* values */
  fused_step steps[TDM_FUSED_MEMBERS];
};
static_assert(sizeof(fused_program) <= 3840, "a kernel's parameters have 4096 bytes");

struct fused_state {
  fused_program program;
  tdm_dtype real; /* dtype of all values except bools; NONE: they differ */
  bool places;    /* some inputs are broadcast */
  size_t input_count;
  size_t output_count;
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
    where_settings,
    tdm_no_settings,
    tdm_no_settings};

static fused_step step_of(const tdm_fused_member *member, const uint8_t *readings) {
  const tdm_spec *result = &member->specs[member->input_count];
  fused_step step = {};
  step.element = (uint8_t)member->kernel->element;
  step.input_count = member->input_count;
  step.from = member->specs[0].dtype;
  step.to = result->dtype;
  for (int k = 0; k < member->input_count; k++) {
    const uint8_t input = step.inputs[k] = member->inputs[k];
    if (input < TDM_FUSED_INPUTS && readings[input] == READS_PLACED) step.placed |= 1u << k;
  }
  step.settings = settings_readers[step.element](member->attributes);
  if (step.placed != 0) step.shape = broadcast_sizes_of(member->specs, step.input_count, result);
  if (step.element == ELEMENT_DROPOUT)
    step.pattern =
        pattern_of(static_cast<const tdm_dropout_attributes *>(member->attributes), result);
  return step;
}

static uint8_t reading_of(int64_t read, int64_t count) {
  return read == count ? READS_EACH : read == 1 ? READS_ONE : READS_PLACED;
}

/* Returns the dtype of all values of the program except bools; NONE: they differ. */
static tdm_dtype only_real_of(const tdm_fused_attributes *attributes) {
  tdm_dtype real = TDM_DTYPE_NONE;
  for (int64_t m = 0; m < attributes->member_count; m++) {
    const tdm_fused_member *member = &attributes->members[m];
    for (int k = 0; k <= member->input_count; k++) {
      const tdm_dtype dtype = member->specs[k].dtype;
      if (dtype == TDM_BOOL || dtype == TDM_DTYPE_NONE || dtype == real) continue;
      if (real != TDM_DTYPE_NONE || !tdm_dtype_is_floating(dtype)) return TDM_DTYPE_NONE;
      real = dtype;
    }
  }
  return real;
}

static tdm_status fused_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_fused_attributes *attributes = attributes_of<tdm_fused_attributes>(request);
  fused_state *state = state_create<fused_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->real = only_real_of(attributes);
  state->input_count = request->input_count;
  state->output_count = request->output_count;
  fused_program *program = &state->program;
  program->step_count = (int32_t)attributes->member_count;
  for (size_t k = 0; k < request->input_count; k++) {
    program->readings[k] = reading_of(count_of(&request->inputs[k]), state->count);
    state->places = state->places || program->readings[k] == READS_PLACED;
    program->input_bytes[k] = (uint8_t)tdm_dtype_bytes(request->inputs[k].dtype);
  }
  for (size_t k = 0; k < request->output_count; k++)
    program->output_bytes[k] = (uint8_t)tdm_dtype_bytes(request->outputs[k].dtype);
  for (int64_t m = 0; m < attributes->member_count; m++) {
    const tdm_fused_member *member = &attributes->members[m];
    program->steps[m] = step_of(member, program->readings);
    if (member->output != 0) program->outputs[member->output - 1] = (uint8_t)(TDM_FUSED_INPUTS + m);
  }
  return TDM_OK;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* A value of a program of several dtypes: its bits, which each step takes for its own dtype. */
struct fused_word {
  uint64_t bits;
};

/* Loads and stores values of a program of one real dtype; bools are 0 and 1. */
template <class word> struct value_of {
  static __device__ word load(const void *from, int bytes, int64_t i) {
    if (bytes == 1) return static_cast<const uint8_t *>(from)[i] != 0 ? 1 : 0;
    return static_cast<const word *>(from)[i];
  }
  static __device__ void store(word value, void *to, int bytes, int64_t i) {
    if (bytes == 1)
      static_cast<uint8_t *>(to)[i] = value != 0;
    else
      static_cast<word *>(to)[i] = value;
  }
  template <class number> static __device__ number taken(word value) {
    return value;
  }
  static __device__ word of(word value) {
    return value;
  }
  static __device__ word of_truth(bool truth) {
    return truth ? 1 : 0;
  }
  static __device__ bool is_true(word value) {
    return value != 0;
  }
  static __device__ word converted(const fused_step &step, word value) {
    return step.to == TDM_BOOL ? of_truth(value != 0) : value;
  }
};

template <> struct value_of<fused_word> {
  static __device__ fused_word load(const void *from, int bytes, int64_t i) {
    fused_word value = {static_cast<const uint8_t *>(from)[i * bytes]};
    if (bytes == 2) value.bits = static_cast<const uint16_t *>(from)[i];
    if (bytes == 4) value.bits = static_cast<const uint32_t *>(from)[i];
    if (bytes == 8) value.bits = static_cast<const uint64_t *>(from)[i];
    return value;
  }
  static __device__ void store(fused_word value, void *to, int bytes, int64_t i) {
    if (bytes == 1) static_cast<uint8_t *>(to)[i] = (uint8_t)value.bits;
    if (bytes == 2) static_cast<uint16_t *>(to)[i] = (uint16_t)value.bits;
    if (bytes == 4) static_cast<uint32_t *>(to)[i] = (uint32_t)value.bits;
    if (bytes == 8) static_cast<uint64_t *>(to)[i] = value.bits;
  }
  template <class number> static __device__ number taken(fused_word value) {
    number taken;
    memcpy(&taken, &value.bits, sizeof taken);
    return taken;
  }
  template <class number> static __device__ fused_word of(number value) {
    fused_word made = {0};
    memcpy(&made.bits, &value, sizeof value);
    return made;
  }
  static __device__ fused_word of_truth(bool truth) {
    const fused_word made = {truth};
    return made;
  }
  static __device__ bool is_true(fused_word value) {
    return (value.bits & 0xff) != 0;
  }
  static __device__ fused_word converted(const fused_step &step, fused_word value) {
    fused_word made = {0};
    convert_element(step.from, &value.bits, step.to, &made.bits, 0);
    return made;
  }
};

/* ---- Members --------------------------------------------------------------------------------- */

/* The operands of a step for element i. */
template <class word, bool places> struct step_operands {
  const fused_program &program;
  const fused_step &step;
  const void *const *inputs;
  const word *values;
  int64_t at[TDM_BROADCAST_OPERANDS]; /* where each broadcast operand is read */

  __device__ bool has(int k) const {
    return k < step.input_count && step.inputs[k] != TDM_FUSED_ABSENT;
  }
  __device__ word get(int k) const {
    const int input = step.inputs[k];
    if (!places || !(step.placed >> k & 1)) return values[input];
    return value_of<word>::load(inputs[input], program.input_bytes[input], at[k]);
  }
  template <class number> __device__ number take(int k, number absent) const {
    return has(k) ? value_of<word>::template taken<number>(get(k)) : absent;
  }
};

/* The position of a run in the sequence of random numbers. */
struct random_place {
  uint64_t seed;
  uint32_t step;
};

template <class stored, class word, bool places>
static __device__ word compute_real(const fused_step &step,
                                    const step_operands<word, places> &operands, int64_t i,
                                    random_place random) {
  typedef value_of<word> value;
  typedef real_of<stored> real;
  const formula_settings<real> settings = settings_in<real>(step.settings);
  const stored absent = (stored)settings.second;
  const real a = operands.take(0, absent), b = operands.take(1, absent);
  switch (step.element) {
#define CASE(name, ...)                                                                            \
  case ELEMENT_##name:                                                                             \
    return value::of((stored)element<ELEMENT_##name>::of(a, b, settings));
    TDM_CUDA_ELEMENTS(CASE, CASE, CASE)
#undef CASE
  case ELEMENT_COMPARE:
    return value::of_truth(holds((int)step.settings.first, a, b));
  case ELEMENT_DROPOUT:
    return value::of(
        (stored)dropped_or_scaled(a, i, step.pattern, random.seed, random.step, settings.first));
  case ELEMENT_WHERE:
    return value::of(value::is_true(operands.get(0)) ? (stored)b : operands.take(2, absent));
  default: { /* accumulate */
    real sum = a;
    for (int k = 1; k < step.input_count; k++)
      sum += (real)operands.take(k, absent);
    return value::of((stored)sum);
  }
  }
}

/* Computes a step of integers: comparisons, choices, and arithmetic, which wraps. */
template <class number, bool places>
static __device__ fused_word compute_integer(const fused_step &step,
                                             const step_operands<fused_word, places> &operands) {
  typedef value_of<fused_word> value;
  fused_word absent = {0};
  store_double(step.to == TDM_BOOL ? step.from : step.to, &absent.bits, 0, step.settings.second);
  const number a = operands.take(0, value::taken<number>(absent));
  const number b = operands.take(1, value::taken<number>(absent));
  if (step.element == ELEMENT_COMPARE)
    return value::of_truth(holds((int)step.settings.first, a, b));
  if (step.element == ELEMENT_WHERE)
    return value::of(
        value::is_true(operands.get(0)) ? b : operands.take(2, value::taken<number>(absent)));
  if (step.element == ELEMENT_affine) {
    const uint64_t scale = (uint64_t)(int64_t)step.settings.first;
    return value::of((number)(scale * (uint64_t)a + (uint64_t)(int64_t)step.settings.second));
  }
  return value::of(integer_of(step.element, a, b));
}

template <class real, bool places>
static __device__ real compute(const fused_step &step, const step_operands<real, places> &operands,
                               int64_t i, random_place random) {
  return compute_real<real>(step, operands, i, random);
}

template <bool places>
static __device__ fused_word compute(const fused_step &step,
                                     const step_operands<fused_word, places> &operands, int64_t i,
                                     random_place random) {
  switch (step.to == TDM_BOOL ? step.from : step.to) {
#define CASE(stored, real, dtype, ...)                                                             \
  case dtype:                                                                                      \
    return compute_real<stored>(step, operands, i, random);
    TDM_CUDA_PRECISIONS(CASE)
#undef CASE
  case TDM_INT32:
    return compute_integer<int32_t>(step, operands);
  default:
    return compute_integer<int64_t>(step, operands);
  }
}

/* ---- Executing ------------------------------------------------------------------------------- */

/* x0 to x7: (count), (), or, if any of them `places`, broadcast; y0 to y3: (count); pointers after
 * the last are NULL. Finding places doubles the number of registers, so programs without it are
 * compiled separately. */
template <class word, bool places>
static __global__ void fused(const __grid_constant__ fused_program program, const void *x0,
                             const void *x1, const void *x2, const void *x3, const void *x4,
                             const void *x5, const void *x6, const void *x7, void *y0, void *y1,
                             void *y2, void *y3, random_place random, int64_t count) {
  const void *const inputs[TDM_FUSED_INPUTS] = {x0, x1, x2, x3, x4, x5, x6, x7};
  void *const outputs[TDM_FUSED_OUTPUTS] = {y0, y1, y2, y3};
  EACH_ELEMENT(i, count) {
    word values[TDM_FUSED_INPUTS + TDM_FUSED_MEMBERS];
    for (int k = 0; k < TDM_FUSED_INPUTS; k++)
      if (program.readings[k] == READS_ONE || program.readings[k] == READS_EACH)
        values[k] = value_of<word>::load(inputs[k], program.input_bytes[k],
                                         program.readings[k] == READS_ONE ? 0 : i);
    for (int m = 0; m < program.step_count; m++) {
      const fused_step &step = program.steps[m];
      step_operands<word, places> operands = {program, step, inputs, values, {}};
      if (places && step.placed != 0)
        find_places<TDM_BROADCAST_OPERANDS>(i, step.shape, operands.at);
      values[TDM_FUSED_INPUTS + m] = step.element == ELEMENT_CAST
                                         ? value_of<word>::converted(step, operands.get(0))
                                         : compute(step, operands, i, random);
    }
    for (int k = 0; k < TDM_FUSED_OUTPUTS; k++)
      if (outputs[k])
        value_of<word>::store(values[program.outputs[k]], outputs[k], program.output_bytes[k], i);
  }
}

template <class word, bool places> static tdm_status fused_run(const tdm_kernel_call *call) {
  const fused_state *state = state_of<fused_state>(call);
  const void *x[TDM_FUSED_INPUTS] = {};
  void *y[TDM_FUSED_OUTPUTS] = {};
  for (size_t k = 0; k < state->input_count; k++)
    x[k] = call->inputs[k];
  for (size_t k = 0; k < state->output_count; k++)
    y[k] = call->outputs[k];
  const random_place random = {call->scalars->seed, (uint32_t)call->scalars->step};
  return kernel_launch(call, "fused", (fused<word, places>), blocks_for(state->count), BLOCK,
                       state->program, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], y[0], y[1],
                       y[2], y[3], random, state->count);
}

static tdm_status fused_execute(const tdm_kernel_call *call) {
  const fused_state *state = state_of<fused_state>(call);
#define RUN(stored, real_, dtype, ...)                                                             \
  if (state->real == dtype && state->places) return fused_run<stored, true>(call);                 \
  if (state->real == dtype) return fused_run<stored, false>(call);
  TDM_CUDA_PRECISIONS(RUN)
  return fused_run<fused_word, true>(call);
}

/* Accepts members of any dtypes, independent of the first result's dtype. */
KERNELS(fused, KERNEL(TDM_OP_FUSED, fused_prepare, fused_execute))
