/* The gradient of attention: probabilities are recomputed from scores and the logarithms of their
 * sums (Dao et al., "FlashAttention", 2022). The formulas are described in the cpu's kernel. A
 * block computes one query of d_q, or one key of d_k and d_v. Invariant: one block computes an
 * element, and sums in order. */
#include "devices/kernels/attention/attention.h"
#include "devices/kernels/attention/attention_sizes.h"
#include "devices/kernels/attention/cuda/attention.h"

static const int PARTNERS = 128; /* threads of a block, and partners at a time */

/* Computes means (batch, queries, heads) = d_y . y of each query. d_y, y: (batch, queries, heads
 * width). */
template <class stored>
static __global__ void multiply_outputs(const stored *d_y, const stored *y, int64_t width,
                                        stored *means, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    real sum = 0;
    for (int64_t j = 0; j < width; j++)
      sum += d_y[i * width + j] * y[i * width + j];
    means[i] = sum;
  }
}

/* Computes one pair's probability, its probability after dropout, and the gradient of its score. */
template <class stored>
static __device__ inline void slope_of(const stored *q, const stored *k, const stored *v,
                                       const stored *d_y, int64_t dim, int64_t width, double scale,
                                       bool sees, real_of<stored> more, real_of<stored> kept,
                                       real_of<stored> log_sum, real_of<stored> mean,
                                       real_of<stored> *out_dropped, real_of<stored> *out_slope) {
  typedef real_of<stored> real;
  const real score = score_of(q, k, dim, scale, sees, more);
  const real p = sees ? exp(score - log_sum) : 0;
  real d_p = 0;
  for (int64_t j = 0; j < width; j++)
    d_p += d_y[j] * v[j];
  *out_dropped = p * kept;
  *out_slope = p * (d_p * kept - mean) * (real)scale;
}

/* of_keys: a block a key, whose partners are queries: d_k and d_v; else a block a query: d_q.
 * Operands as in the forward kernel; means: (batch, queries, heads). */
template <class stored>
static __global__ void
gather_slopes(bool of_keys, const stored *d_y, const stored *q, const stored *k, const stored *v,
              const stored *means, const stored *log_sums, const uint8_t *padding,
              const uint8_t *hidden, const stored *added, stored *d_q, stored *d_k, stored *d_v,
              attention_sizes shape, uint64_t seed, uint32_t step) {
  typedef real_of<stored> real;
  const int64_t queries = shape.queries, keys = shape.keys, heads = shape.heads;
  const int64_t dim = shape.dim, width = shape.width;
  TDM_SHARED(real, slopes, PARTNERS);
  TDM_SHARED(real, dropped, PARTNERS);
  const int64_t own_count = of_keys ? keys : queries, partner_count = of_keys ? queries : keys;
  EACH_OF_GRID(number, shape.batch * heads * own_count) {
    const int64_t own = number % own_count, head = number / own_count % heads;
    const int64_t batch = number / own_count / heads;
    const int64_t own_row = (batch * own_count + own) * heads + head;
    stored *d_own = (of_keys ? d_k : d_q) + own_row * dim;
    EACH_OF_BLOCK(j, dim) {
      d_own[j] = 0;
    }
    EACH_OF_BLOCK(j, of_keys ? width : 0) {
      d_v[own_row * width + j] = 0;
    }
    for (int64_t first = 0; first < partner_count; first += PARTNERS) {
      const bool is_there = first + threadIdx.x < partner_count;
      const int64_t partner = is_there ? first + threadIdx.x : 0;
      const int64_t query = of_keys ? partner : own, key = of_keys ? own : partner;
      const bool sees =
          is_there && !(shape.causal && key > query) && !(padding && padding[batch * keys + key]);
      const int64_t query_row = (batch * queries + query) * heads + head;
      const int64_t key_row = (batch * keys + key) * heads + head;
      const int64_t before = ((shape.first_batch + batch) * heads + head) * queries + query;
      const real kept = kept_at<real>((uint64_t)(before * keys + key), shape, seed, step);
      const real more =
          sees ? mask_at(hidden, added,
                         ((shape.mask_each ? batch * heads + head : 0) * queries + query) * keys +
                             key)
               : 0;
      slope_of(q + query_row * dim, k + key_row * dim, v + key_row * width, d_y + query_row * width,
               dim, width, shape.scale, sees, more, kept,
               log_sums[(batch * heads + head) * queries + query], means[query_row],
               &dropped[threadIdx.x], &slopes[threadIdx.x]);
      __syncthreads();
      const int64_t left = partner_count - first < PARTNERS ? partner_count - first : PARTNERS;
      const stored *partners = of_keys ? q : k;
      EACH_OF_BLOCK(j, dim) {
        real sum = d_own[j];
        for (int64_t i = 0; i < left; i++)
          sum +=
              slopes[i] * partners[((batch * partner_count + first + i) * heads + head) * dim + j];
        d_own[j] = sum;
      }
      EACH_OF_BLOCK(j, of_keys ? width : 0) {
        real sum = d_v[own_row * width + j];
        for (int64_t i = 0; i < left; i++)
          sum += dropped[i] * d_y[((batch * queries + first + i) * heads + head) * width + j];
        d_v[own_row * width + j] = sum;
      }
      __syncthreads(); /* slopes are written again */
    }
  }
}

template <class stored>
static tdm_status attention_gradient_prepare(const tdm_kernel_request *request,
                                             tdm_kernel_answer *answer) {
  const attention_sizes *state =
      attention_prepare(request, answer, &request->inputs[1], &request->inputs[3], 7, true);
  if (!state) return TDM_OUT_OF_MEMORY;
  answer->workspace_bytes = (size_t)(state->batch * state->queries * state->heads) * sizeof(stored);
  return TDM_OK;
}

template <class stored> static tdm_status run_side(const tdm_kernel_call *call, bool of_keys) {
  const attention_sizes *state = state_of<attention_sizes>(call);
  const int64_t count = state->batch * state->heads * (of_keys ? state->keys : state->queries);
  return kernel_launch(
      call, of_keys ? "gather_slopes_of_keys" : "gather_slopes_of_queries", gather_slopes<stored>,
      blocks_of(count), PARTNERS, of_keys, input_of<stored>(call, 0), input_of<stored>(call, 1),
      input_of<stored>(call, 2), input_of<stored>(call, 3),
      static_cast<const stored *>(call->workspace), input_of<stored>(call, 5),
      input_of<uint8_t>(call, 6), hidden_of(call, 7), added_of<stored>(call, 7),
      output_of<stored>(call, 0), output_of<stored>(call, 1), output_of<stored>(call, 2), *state,
      call->scalars->seed, (uint32_t)call->scalars->step);
}

/* Computes d_q, d_k, d_v from d_y, q, k, v, y, log_sums, [padding]. */
template <class stored> static tdm_status attention_gradient_run(const tdm_kernel_call *call) {
  const attention_sizes *state = state_of<attention_sizes>(call);
  const int64_t rows = state->batch * state->queries * state->heads;
  TDM_TRY(kernel_launch(call, "multiply_outputs", multiply_outputs<stored>, blocks_for(rows), BLOCK,
                        input_of<stored>(call, 0), input_of<stored>(call, 4), state->width,
                        static_cast<stored *>(call->workspace), rows));
  TDM_TRY(run_side<stored>(call, false));
  return run_side<stored>(call, true);
}

KERNELS(attention_gradient, KERNEL(TDM_OP_ATTENTION_GRADIENT, attention_gradient_prepare<stored>,
                                   attention_gradient_run<stored>))
