/* Losses of two tensors of one shape, element by element: squared errors, smooth L1 (with Huber's
 * and L1), binary cross-entropy of logits with weights, and the divergence of probabilities. */
#include "devices/kernels/cuda/sums.h"
#include "devices/kernels/losses/losses.h"

/* The interpretation of a divergence's targets; other losses ignore it. */
struct target_rule {
  double kept;   /* 1 - smoothing */
  double spread; /* smoothing / classes */
  bool logarithms;
  bool entropy;
};

struct loss_state {
  int64_t count;
  int32_t reduction; /* tdm_reduction */
  double divisor;    /* of the sum; 1 where there is no mean */
  target_rule rule;
  double beta;
  double scale;
  int64_t weights;     /* how many there are, which repeat; 0: none */
  int64_t pos_weights; /* likewise */
};

/* ---- The losses, and what is made of them ------------------------------------------------ */

/* One element: its loss and its slope. a, b: the options (beta, scale), or the element's weights
 * (weight, pos_weight). */
struct squared_error {
  static const bool weighs = false;
  template <class real> static __device__ real loss(real x, real target, real, real, target_rule) {
    const real d = x - target;
    return d * d;
  }
  template <class real> static __device__ real slope(real x, real target, real, real, target_rule) {
    return (x - target) * 2;
  }
};

struct smooth_l1 {
  static const bool weighs = false;
  template <class real>
  static __device__ real loss(real x, real target, real beta, real scale, target_rule) {
    const real d = fabs(x - target);
    return (d < beta ? d * d * (real)0.5 / beta : d - beta * (real)0.5) * scale;
  }
  template <class real>
  static __device__ real slope(real x, real target, real beta, real scale, target_rule) {
    const real d = x - target;
    const real sign = d > 0 ? 1 : d < 0 ? -1 : d;
    return (fabs(d) < beta ? d / beta : sign) * scale;
  }
};

struct binary_cross_entropy {
  static const bool weighs = true;
  /* 1 for a weight of 1, whatever the target is. */
  template <class real> static __device__ real positive(real target, real pos) {
    return pos == 1 ? (real)1 : 1 + (pos - 1) * target;
  }
  template <class real>
  static __device__ real loss(real x, real target, real weight, real pos, target_rule) {
    const real softplus = log1p(exp(-fabs(x))) + (x < 0 ? -x : 0); /* of -x */
    return ((1 - target) * x + positive(target, pos) * softplus) * weight;
  }
  template <class real>
  static __device__ real slope(real x, real target, real weight, real pos, target_rule) {
    const real other = 1 / (1 + exp(x)); /* the sigmoid of -x */
    return ((1 - target) - positive(target, pos) * other) * weight;
  }
};

struct divergence {
  static const bool weighs = true;
  template <class real> static __device__ real probability(real target, target_rule rule) {
    return rule.logarithms ? exp(target) : (real)rule.kept * target + (real)rule.spread;
  }
  template <class real>
  static __device__ real loss(real x, real target, real weight, real, target_rule rule) {
    const real p = probability(target, rule);
    real loss = -p * x;
    if (rule.entropy && rule.logarithms)
      loss = p * (target - x);
    else if (rule.entropy && p != 0)
      loss += p * log(p);
    return loss * weight;
  }
  template <class real>
  static __device__ real slope(real, real target, real weight, real, target_rule rule) {
    return -probability(target, rule) * weight;
  }
};

/* Parameters of kernels other than tensors: the numbers of elements of the lists a and b, which
 * repeat. 0 elements: the option is used instead. */
struct loss_options {
  int64_t a_count;
  int64_t b_count;
  double a;
  double b;
  target_rule rule;
};

static loss_options options_of(const loss_state *state) {
  const loss_options options = {state->weights, state->pos_weights, state->beta, state->scale,
                                state->rule};
  return options;
}

/* Returns the value of a list for element i, or the option's value if the list is empty. */
template <class stored>
static __device__ real_of<stored> option_at(const stored *list, int64_t count, double otherwise,
                                            int64_t i) {
  typedef real_of<stored> real;
  return count == 0 ? (real)otherwise : (real)list[i % count];
}

/* x, target, losses: (count); a_list: (a_count), b_list: (b_count). */
template <class kind, class stored>
static __global__ void losses_of(const stored *x, const stored *target, const stored *a_list,
                                 const stored *b_list, loss_options options, stored *losses,
                                 int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    losses[i] =
        kind::loss((real)x[i], (real)target[i], option_at(a_list, options.a_count, options.a, i),
                   option_at(b_list, options.b_count, options.b, i), options.rule);
  }
}

/* The same, summed: a sum a piece, sums: (blocks). */
template <class kind, class stored>
static __global__ void losses_of_pieces(const stored *x, const stored *target, const stored *a_list,
                                        const stored *b_list, loss_options options,
                                        real_of<stored> *sums, int64_t count) {
  typedef real_of<stored> real;
  const int64_t begin = (int64_t)blockIdx.x * SUM_PIECE;
  const int64_t left = count - begin < SUM_PIECE ? count - begin : SUM_PIECE;
  real part = 0;
  EACH_OF_BLOCK(j, left) {
    const int64_t i = begin + j;
    part +=
        kind::loss((real)x[i], (real)target[i], option_at(a_list, options.a_count, options.a, i),
                   option_at(b_list, options.b_count, options.b, i), options.rule);
  }
  const real sum = block_sum(part);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* d_loss: () or, each, (count); d_x: (count). */
template <class kind, class stored>
static __global__ void slopes_of(const stored *d_loss, bool each, const stored *x,
                                 const stored *target, const stored *a_list, const stored *b_list,
                                 loss_options options, real_of<stored> share, stored *d_x,
                                 int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    const real slope =
        kind::slope((real)x[i], (real)target[i], option_at(a_list, options.a_count, options.a, i),
                    option_at(b_list, options.b_count, options.b, i), options.rule);
    d_x[i] = slope * share * d_loss[each ? i : 0];
  }
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static double divisor_of(int32_t reduction, const tdm_spec *x) {
  if (reduction == TDM_REDUCTION_MEAN) return (double)count_of(x);
  return reduction == TDM_REDUCTION_BATCH_MEAN && x->shape.rank > 0 ? (double)x->shape.dims[0] : 1;
}

/* x: the operand of that number, after which target, weight and pos_weight follow. */
template <class kind, class stored>
static tdm_status prepare_from(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                               size_t x) {
  const tdm_loss_attributes *attributes = attributes_of<tdm_loss_attributes>(request);
  loss_state *state = state_create<loss_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->inputs[x]);
  state->reduction = attributes->reduction;
  const tdm_shape *shape = &request->inputs[x].shape;
  state->divisor = divisor_of(attributes->reduction, &request->inputs[x]);
  state->rule.kept = 1 - attributes->smoothing;
  if (attributes->smoothing != 0)
    state->rule.spread = attributes->smoothing / (double)shape->dims[shape->rank - 1];
  state->rule.logarithms = attributes->logarithms != 0;
  state->rule.entropy = attributes->entropy != 0;
  state->beta = kind::weighs ? 1 : attributes->beta;
  state->scale = kind::weighs ? 1 : attributes->scale;
  for (size_t k = x + 2; kind::weighs && k < request->input_count; k++) {
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
                         x, target, weight, pos_weight, options_of(state),
                         output_of<stored>(call, 0), state->count);
  }
  const int64_t pieces = ceil_div(state->count, SUM_PIECE);
  real_of<stored> *sums = static_cast<real_of<stored> *>(call->workspace);
  TDM_TRY(kernel_launch(call, "losses_of_pieces", losses_of_pieces<kind, stored>, pieces, BLOCK, x,
                        target, weight, pos_weight, options_of(state), sums, state->count));
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
                       options_of(state), share, output_of<stored>(call, 0), state->count);
}

template <class kind, class stored, size_t x>
static tdm_status pointwise_losses_prepare(const tdm_kernel_request *request,
                                           tdm_kernel_answer *answer) {
  return prepare_from<kind, stored>(request, answer, x);
}

#define LOSS(operation, kind)                                                                      \
  KERNEL(operation, (pointwise_losses_prepare<kind, stored, 0>),                                   \
         (pointwise_losses_run<kind, stored>)),                                                    \
      KERNEL(operation##_GRADIENT, (pointwise_losses_prepare<kind, stored, 1>),                    \
             (run_gradient<kind, stored>))

KERNELS(pointwise_losses, LOSS(TDM_OP_MSE, squared_error), LOSS(TDM_OP_SMOOTH_L1, smooth_l1),
        LOSS(TDM_OP_BINARY_CROSS_ENTROPY, binary_cross_entropy),
        LOSS(TDM_OP_DIVERGENCE, divergence))
