/* Attention: a block of threads computes one query of one head. It reads as many keys at a time as
 * it has threads. Sums are rescaled when a larger score is found (Milakov, Gimelshein, "Online
 * normalizer calculation for softmax", 2018). */
#include "devices/kernels/attention/attention.h"
#include "devices/kernels/attention/attention_sizes.h"
#include "devices/kernels/attention/cuda/attention.h"

static const int KEYS = 128; /* threads of a block, and keys at a time */

/* q: (batch, queries, heads dim), k: (batch, keys, heads dim), v: (batch, keys, heads width),
 * padding: (batch, keys) or NULL, y: like q with width, log_sums: (batch, heads, queries). */
template <class stored>
static __global__ void attend(const stored *q, const stored *k, const stored *v,
                              const uint8_t *padding, const uint8_t *hidden, const stored *added,
                              stored *y, stored *log_sums, attention_sizes shape, uint64_t seed,
                              uint32_t step) {
  typedef real_of<stored> real;
  const int64_t queries = shape.queries, keys = shape.keys, heads = shape.heads;
  const int64_t dim = shape.dim, width = shape.width;
  TDM_SHARED(real, weights, KEYS);
  EACH_OF_GRID(number, shape.batch * heads * queries) {
    const int64_t query = number % queries, head = number / queries % heads;
    const int64_t batch = number / queries / heads;
    const stored *a = q + ((batch * queries + query) * heads + head) * dim;
    stored *out = y + ((batch * queries + query) * heads + head) * width;
    const uint64_t place =
        (uint64_t)((((shape.first_batch + batch) * heads + head) * queries + query) * keys);
    real most = -(real)INFINITY, sum = 0;
    EACH_OF_BLOCK(j, width) {
      out[j] = 0;
    }
    for (int64_t first = 0; first < keys; first += KEYS) {
      const int64_t key = first + threadIdx.x;
      const bool sees =
          key < keys && !(shape.causal && key > query) && !(padding && padding[batch * keys + key]);
      const int64_t row = key < keys ? key : 0;
      const real more =
          sees ? mask_at(hidden, added,
                         ((shape.mask_each ? batch * heads + head : 0) * queries + query) * keys +
                             key)
               : 0;
      const real score = score_of(a, k + ((batch * keys + row) * heads + head) * dim, dim,
                                  shape.scale, sees, more);
      const real larger = larger_of_two::of(most, block_reduce<larger_of_two>(score));
      const bool is_nothing = larger == -(real)INFINITY && score == larger;
      const real weight = is_nothing || !sees ? 0 : exp(score - larger);
      const real factor = sum == 0 ? 0 : exp(most - larger);
      sum = sum * factor + block_sum(weight);
      most = larger;
      weights[threadIdx.x] = weight * kept_at<real>(place + (uint64_t)row, shape, seed, step);
      __syncthreads();
      EACH_OF_BLOCK(j, width) {
        real value = out[j] * factor;
        for (int64_t i = 0; i < KEYS && first + i < keys; i++)
          value += weights[i] * v[((batch * keys + first + i) * heads + head) * width + j];
        out[j] = value;
      }
      __syncthreads(); /* weights are written again */
    }
    /* The result of a query without keys is 0, or NaN if all its scores are minus infinity. */
    const bool hides = shape.causal || padding || hidden || added || keys == 0;
    const real none = hides ? (real)0 : (real)NAN;
    EACH_OF_BLOCK(j, width) {
      out[j] = sum != 0 ? out[j] / sum : none;
    }
    if (threadIdx.x == 0)
      log_sums[(batch * heads + head) * queries + query] =
          sum != 0 ? most + log(sum) : (real)INFINITY + none;
  }
}

template <class stored> static tdm_status attention_run(const tdm_kernel_call *call) {
  const attention_sizes *state = state_of<attention_sizes>(call);
  return kernel_launch(
      call, "attend", attend<stored>, blocks_of(state->batch * state->heads * state->queries), KEYS,
      input_of<stored>(call, 0), input_of<stored>(call, 1), input_of<stored>(call, 2),
      input_of<uint8_t>(call, 3), hidden_of(call, 4), added_of<stored>(call, 4),
      output_of<stored>(call, 0), output_of<stored>(call, 1), *state, call->scalars->seed,
      (uint32_t)call->scalars->step);
}

static tdm_status attention_prepare_state(const tdm_kernel_request *request,
                                          tdm_kernel_answer *answer, bool drops) {
  const attention_sizes *state =
      attention_prepare(request, answer, &request->inputs[0], &request->inputs[2], 4, drops);
  return state ? TDM_OK : TDM_OUT_OF_MEMORY;
}

static tdm_status attention_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return attention_prepare_state(request, answer, false);
}

static tdm_status attention_dropout_prepare(const tdm_kernel_request *request,
                                            tdm_kernel_answer *answer) {
  return attention_prepare_state(request, answer, true);
}

KERNELS(attention, KERNEL(TDM_OP_ATTENTION, attention_prepare, attention_run<stored>),
        KERNEL(TDM_OP_ATTENTION_DROPOUT, attention_dropout_prepare, attention_run<stored>))
