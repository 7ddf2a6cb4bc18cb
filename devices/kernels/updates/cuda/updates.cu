/* Updates of parameters by the formulas of devices/kernels/updates/optimizers.h, of all elements or
 * of the rows that a sparse gradient names. If an update has scalar states, which are on the
 * device, one thread computes the numbers of a step there, in float64, before the elements. */
#include "devices/kernels/cuda/kernel.h"
#include "devices/kernels/updates/update_sizes.h"

#define number real
#define root_of sqrt
#define absolute_of fabs
#define choose(condition, yes, no) ((condition) ? (yes) : (no))
#define FOR_REAL template <class real>
#define FOR_STORED template <class stored>
#define FOR_REAL_FUNCTION template <class real> static __device__ inline
#define FOR_STORED_FUNCTION template <class stored> static inline
#define ON_DEVICES __host__ __device__
#define OF_REAL(type) type<real>
#define OF_STORED(type) type<stored>
#define REAL_OF_STORED(type) type<real_of<stored>>
#define USING_REAL typedef real_of<stored> real;
#define WIDENED(x) ((double)(x))
#define NARROWED(x) (x)
#include "devices/kernels/updates/formulas.h"

struct update_state {
  update_sizes sizes;
  bool on_device; /* numbers are computed there */
};

static tdm_status update_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                 const int counts[UPDATE_SHAPES], size_t numbers_bytes,
                                 bool of_rows) {
  update_state *state = state_create<update_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  if (of_rows)
    update_rows_sizes_read(&state->sizes, request);
  else
    update_sizes_read(&state->sizes, request);
  state->on_device = counts[UPDATE_NUMBER] > 0;
  if (state->on_device) answer->workspace_bytes = numbers_bytes;
  return TDM_OK;
}

/* States as parameters of kernels, which must not be inside a struct. */
#define STATES stored *state0, stored *state1, stored *state2, stored *state3
#define SET_STATE(state, shape, condition, initial) at.state = states[i++];
#define SET_OPERANDS(name)                                                                         \
  name##_operands<stored> at;                                                                      \
  stored *const states[UPDATE_MOST_STATES] = {state0, state1, state2, state3};                     \
  size_t i = 0;                                                                                    \
  at.gradient = gradient;                                                                          \
  at.parameter = parameter;                                                                        \
  TDM_STATES_##name(SET_STATE)
#define LISTED_STATE(state, shape, condition, initial) states[i++] = at.state;

#define LOAD(state, shape, condition, initial) LOAD_##shape(state)
#define LOAD_ELEMENTS(state) e.state = at.state ? (real)at.state[to] : (real)0;
#define LOAD_NUMBER(state)
#define STORE(state, shape, condition, initial) STORE_##shape(state)
#define STORE_ELEMENTS(state)                                                                      \
  if (at.state) at.state[to] = e.state;
#define STORE_NUMBER(state)

/* clang-format off */

/* The numbers of a step: computed by NAME_begin_step, or else given by the host. NAME_element_at
 * updates element `to` by element `from` of the gradient. NAME_launch launches the kernel `step`.
 */
#define UPDATE(name, replaced)                                                                     \
  template <class stored>                                                                          \
  static __global__ void name##_begin_step(const stored *gradient, stored *parameter, STATES,      \
                                           tdm_##name##_attributes attributes, double learning,    \
                                           name##_numbers<real_of<stored>> *numbers) {             \
    if (threadIdx.x != 0) return;                                                                  \
    SET_OPERANDS(name)                                                                             \
    name##_begin<stored>(&attributes, learning, &at, numbers);                                     \
  }                                                                                                \
  template <class stored>                                                                          \
  static __device__ inline void name##_element_at(const name##_numbers<real_of<stored>> &n,        \
                                                  const name##_operands<stored> &at, int64_t from, \
                                                  int64_t to) {                                    \
    typedef real_of<stored> real;                                                                  \
    name##_element<real> e;                                                                        \
    e.gradient = at.gradient[from];                                                                \
    e.parameter = at.parameter[to];                                                                \
    TDM_STATES_##name(LOAD)                                                                        \
    name##_update<real>(&n, &e);                                                                   \
    at.parameter[to] = e.parameter;                                                                \
    TDM_STATES_##name(STORE)                                                                       \
  }                                                                                                \
  template <class stored, class... parameters, class... others>                                    \
  static tdm_status name##_launch(const tdm_kernel_call *call, const char *label, int64_t blocks,  \
                                  int threads, void (*step)(parameters...), others... rest) {      \
    typedef name##_numbers<real_of<stored>> numbers_type;                                          \
    tdm_##name##_attributes attributes;                                                            \
    name##_operands<stored> at;                                                                    \
    numbers_type given = {}, *computed = NULL;                                                     \
    stored *states[UPDATE_MOST_STATES] = {};                                                       \
    const double learning = call->scalars->learning_rate;                                          \
    size_t i = 0;                                                                                  \
    name##_read<stored>(call, &attributes, &at);                                                   \
    TDM_STATES_##name(LISTED_STATE) if (state_of<update_state>(call)->on_device) {                 \
      computed = static_cast<numbers_type *>(call->workspace);                                     \
      TDM_TRY(kernel_launch(call, #name "_begin", name##_begin_step<stored>, 1, WARP, at.gradient, \
                            at.parameter, states[0], states[1], states[2], states[3], attributes,  \
                            learning, computed));                                                  \
    }                                                                                              \
    else {                                                                                         \
      name##_begin<stored>(&attributes, learning, &at, &given);                                    \
    }                                                                                              \
    return kernel_launch(call, label, step, blocks, threads, at.gradient, at.parameter, states[0], \
                         states[1], states[2], states[3], computed, given, rest...);               \
  }

/* ---- All elements ---------------------------------------------------------------------------- */

/* gradient, parameter and states of its shape: (count); computed: (), NULL if given. */
#define DENSE(name, replaced)                                                                      \
  UPDATE(name, replaced)                                                                           \
  template <class stored>                                                                          \
  static __global__ void name##_step(const stored *gradient, stored *parameter, STATES,            \
                                     const name##_numbers<real_of<stored>> *computed,              \
                                     name##_numbers<real_of<stored>> given, int64_t count) {       \
    SET_OPERANDS(name)                                                                             \
    const name##_numbers<real_of<stored>> n = computed ? *computed : given;                        \
    EACH_ELEMENT(k, count) {                                                                       \
      name##_element_at<stored>(n, at, k, k);                                                      \
    }                                                                                              \
  }                                                                                                \
  template <class stored>                                                                          \
  static tdm_status name##_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) { \
    int counts[UPDATE_SHAPES];                                                                     \
    name##_count(attributes_of<tdm_##name##_attributes>(request), counts);                         \
    return update_prepare(request, answer, counts, sizeof(name##_numbers<real_of<stored>>),        \
                          false);                                                                  \
  }                                                                                                \
  template <class stored> static tdm_status name##_run(const tdm_kernel_call *call) {              \
    const int64_t count = state_of<update_state>(call)->sizes.count;                               \
    return name##_launch<stored>(call, #name, blocks_for(count), BLOCK, name##_step<stored>,       \
                                 count);                                                           \
  }
TDM_UPDATES(DENSE)
UPDATE(adam_sparse, beta1)

/* ---- The rows of a sparse gradient ----------------------------------------------------------- */

/* A block a row of the gradient. gradient: (n, dim), indices: (n), distinct as far as used ();
 * parameter and states of its shape: (rows, dim). */
#define ROWS(operation, name)                                                                      \
  template <class stored>                                                                          \
  static __global__ void operation##_step(                                                         \
      const stored *gradient, stored *parameter, STATES,                                           \
      const name##_numbers<real_of<stored>> *computed, name##_numbers<real_of<stored>> given,      \
      const int64_t *indices, const int64_t *used, int64_t dim) {                                  \
    SET_OPERANDS(name)                                                                             \
    const name##_numbers<real_of<stored>> n = computed ? *computed : given;                        \
    EACH_OF_GRID(row, *used) {                                                                     \
      EACH_OF_BLOCK(k, dim) {                                                                      \
        name##_element_at<stored>(n, at, row * dim + k, indices[row] * dim + k);                   \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  template <class stored>                                                                          \
  static tdm_status operation##_prepare(const tdm_kernel_request *request,                         \
                                        tdm_kernel_answer *answer) {                               \
    int counts[UPDATE_SHAPES];                                                                     \
    name##_count(attributes_of<tdm_##name##_attributes>(request), counts);                         \
    return update_prepare(request, answer, counts, sizeof(name##_numbers<real_of<stored>>), true); \
  }                                                                                                \
  template <class stored> static tdm_status operation##_run(const tdm_kernel_call *call) {         \
    const update_sizes *sizes = &state_of<update_state>(call)->sizes;                              \
    return name##_launch<stored>(call, #operation, blocks_of(sizes->count),                        \
                                 threads_for_row(sizes->dim), operation##_step<stored>,            \
                                 input_of<int64_t>(call, 2), input_of<int64_t>(call, 3),           \
                                 sizes->dim);                                                      \
  }
TDM_ROW_UPDATES(ROWS)
/* clang-format on */

#define LISTED(name, other) KERNEL(#name, name##_prepare<stored>, name##_run<stored>),
KERNELS(updates, TDM_UPDATES(LISTED) TDM_ROW_UPDATES(LISTED))
