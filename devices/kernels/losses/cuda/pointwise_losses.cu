/* Losses of two tensors of one shape, element by element, by the formulas of
 * devices/kernels/losses/losses.h. */
#include "devices/kernels/cuda/sums.h"
#include "devices/kernels/losses/losses.h"

struct loss_state {
  int64_t count;
  int32_t reduction; /* tdm_reduction */
  double divisor;    /* of the sum; 1 where there is no mean */
  tdm_loss_attributes attributes;
  double spread;       /* smoothing / classes */
  int64_t weights;     /* how many there are, which repeat; 0: none */
  int64_t pos_weights; /* likewise */
};

/* The attributes in the type of computations, and the numbers of weights. */
template <class real> struct loss_options {
  real beta;
  real scale;
  real kept; /* 1 - smoothing */
  real spread;
  bool logarithms;
  bool entropy;
  int64_t weights;
  int64_t pos_weights;
};

template <class stored> static loss_options<real_of<stored>> options_of(const loss_state *state) {
  typedef real_of<stored> real;
  const tdm_loss_attributes *attributes = &state->attributes;
  const loss_options<real> options = {
      (real)attributes->beta, (real)attributes->scale,     (real)(1 - attributes->smoothing),
      (real)state->spread,    attributes->logarithms != 0, attributes->entropy != 0,
      state->weights,         state->pos_weights};
  return options;
}

/* ---- The losses, and what is made of them ---------------------------------------------------- */

template <class real> static __device__ inline real sigmoid_of(real x) {
  return 1 / (1 + exp(-x));
}

/* 1 for a weight of 1, whatever the target is. */
template <class real> static __device__ inline real positive_of(real target, real pos) {
  return pos == 1 ? (real)1 : 1 + (pos - 1) * target;
}

#define number real
#define absolute_of fabs
#define exp_of exp
#define log1p_of_fraction log1p
#define choose(condition, yes, no) ((condition) ? (yes) : (no))
#define every(number) ((real)(number))
#define WEIGHT weight
#define POSITIVE(t) positive_of(t, pos)
#define ADD_ENTROPY(loss, p)                                                                       \
  if (p != 0) loss += p * log(p)

/* One element: its loss and its slope. */
#define FORMULAS(name, ...)                                                                        \
  struct name##_formulas {                                                                         \
    template <class real>                                                                          \
    static __device__ real loss(real x, real t, real weight, real pos,                             \
                                const loss_options<real> *o) {                                     \
      (void)weight, (void)pos, (void)o;                                                            \
      TDM_LOSS_##name                                                                              \
    }                                                                                              \
    template <class real>                                                                          \
    static __device__ real slope(real x, real t, real weight, real pos,                            \
                                 const loss_options<real> *o) {                                    \
      (void)x, (void)weight, (void)pos, (void)o;                                                   \
      TDM_SLOPE_##name                                                                             \
    }                                                                                              \
  };
TDM_ELEMENT_LOSSES(FORMULAS)

/* Returns the weight of element i: that of a list, which repeats, or 1 if the list is empty. */
template <class stored>
static __device__ real_of<stored> weight_at(const stored *list, int64_t count, int64_t i) {
  typedef real_of<stored> real;
  return count == 0 ? (real)1 : (real)list[i % count];
}

/* x, target, losses: (count); weight: (weights), pos_weight: (pos_weights). */
template <class kind, class stored>
static __global__ void losses_of(const stored *x, const stored *target, const stored *weight,
                                 const stored *pos_weight, loss_options<real_of<stored>> options,
                                 stored *losses, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    losses[i] = kind::loss((real)x[i], (real)target[i], weight_at(weight, options.weights, i),
                           weight_at(pos_weight, options.pos_weights, i), &options);
  }
}

/* The same, summed: a sum a piece, sums: (blocks). */
template <class kind, class stored>
static __global__ void losses_of_pieces(const stored *x, const stored *target, const stored *weight,
                                        const stored *pos_weight,
                                        loss_options<real_of<stored>> options,
                                        real_of<stored> *sums, int64_t count) {
  typedef real_of<stored> real;
  const int64_t begin = (int64_t)blockIdx.x * SUM_PIECE;
  const int64_t left = count - begin < SUM_PIECE ? count - begin : SUM_PIECE;
  real part = 0;
  EACH_OF_BLOCK(j, left) {
    const int64_t i = begin + j;
    part += kind::loss((real)x[i], (real)target[i], weight_at(weight, options.weights, i),
                       weight_at(pos_weight, options.pos_weights, i), &options);
  }
  const real sum = block_sum(part);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* d_loss: () or, each, (count); d_x: (count). */
template <class kind, class stored>
static __global__ void slopes_of(const stored *d_loss, bool each, const stored *x,
                                 const stored *target, const stored *weight,
                                 const stored *pos_weight, loss_options<real_of<stored>> options,
                                 real_of<stored> share, stored *d_x, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    const real slope =
        kind::slope((real)x[i], (real)target[i], weight_at(weight, options.weights, i),
                    weight_at(pos_weight, options.pos_weights, i), &options);
    d_x[i] = slope * share * d_loss[each ? i : 0];
  }
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static double divisor_of(int32_t reduction, const tdm_spec *x) {
  if (reduction == TDM_REDUCTION_MEAN) return (double)count_of(x);
  return reduction == TDM_REDUCTION_BATCH_MEAN && x->shape.rank > 0 ? (double)x->shape.dims[0] : 1;
}

/* x: the operand of that number, after which target, weight and pos_weight follow. */
template <class stored, size_t x, size_t weights>
static tdm_status pointwise_losses_prepare(const tdm_kernel_request *request,
                                           tdm_kernel_answer *answer) {
  const tdm_loss_attributes *attributes = attributes_of<tdm_loss_attributes>(request);
  const tdm_shape *shape = &request->inputs[x].shape;
  loss_state *state = state_create<loss_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->inputs[x]);
  state->reduction = attributes->reduction;
  state->divisor = divisor_of(attributes->reduction, &request->inputs[x]);
  state->attributes = *attributes;
  if (attributes->smoothing != 0)
    state->spread = attributes->smoothing / (double)shape->dims[shape->rank - 1];
  for (size_t k = x + 2; k < x + 2 + weights && k < request->input_count; k++) {
    if (request->inputs[k].dtype == TDM_DTYPE_NONE) continue;
    *(k == x + 2 ? &state->weights : &state->pos_weights) = count_of(&request->inputs[k]);
  }
  if (x == 0 && state->reduction != TDM_REDUCTION_NONE)
    answer->workspace_bytes = sum_workspace_bytes<stored>(state->count);
  return TDM_OK;
}

/* ---- Executing ------------------------------------------------------------------------------- */

template <class kind, class stored>
static tdm_status pointwise_losses_run(const tdm_kernel_call *call) {
  const loss_state *state = state_of<loss_state>(call);
  const stored *x = input_of<stored>(call, 0), *target = input_of<stored>(call, 1);
  const stored *weight = state->weights > 0 ? input_of<stored>(call, 2) : NULL;
  const stored *pos_weight = state->pos_weights > 0 ? input_of<stored>(call, 3) : NULL;
  if (state->reduction == TDM_REDUCTION_NONE) {
    return kernel_launch(call, "losses", losses_of<kind, stored>, blocks_for(state->count), BLOCK,
                         x, target, weight, pos_weight, options_of<stored>(state),
                         output_of<stored>(call, 0), state->count);
  }
  const int64_t pieces = ceil_div(state->count, SUM_PIECE);
  real_of<stored> *sums = static_cast<real_of<stored> *>(call->workspace);
  TDM_TRY(kernel_launch(call, "losses_of_pieces", losses_of_pieces<kind, stored>, pieces, BLOCK, x,
                        target, weight, pos_weight, options_of<stored>(state), sums, state->count));
  return kernel_launch(call, "sum_of_pieces", sum_of_pieces<stored>, 1, BLOCK, sums, pieces,
                       state->divisor, output_of<stored>(call, 0));
}

template <class kind, class stored> static tdm_status run_gradient(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const loss_state *state = state_of<loss_state>(call);
  const stored *weight = state->weights > 0 ? input_of<stored>(call, 3) : NULL;
  const stored *pos_weight = state->pos_weights > 0 ? input_of<stored>(call, 4) : NULL;
  const real share = (real)(1.0 / state->divisor);
  return kernel_launch(call, "slopes", slopes_of<kind, stored>, blocks_for(state->count), BLOCK,
                       input_of<stored>(call, 0), state->reduction == TDM_REDUCTION_NONE,
                       input_of<stored>(call, 1), input_of<stored>(call, 2), weight, pos_weight,
                       options_of<stored>(state), share, output_of<stored>(call, 0), state->count);
}

#define LISTED(name, operands, x, t, weights)                                                      \
  KERNEL(#name, (pointwise_losses_prepare<stored, 0, weights>),                                    \
         (pointwise_losses_run<name##_formulas, stored>)),                                         \
      KERNEL(#name "_gradient", (pointwise_losses_prepare<stored, 1, weights>),                    \
             (run_gradient<name##_formulas, stored>)),
KERNELS(pointwise_losses, TDM_ELEMENT_LOSSES(LISTED))
