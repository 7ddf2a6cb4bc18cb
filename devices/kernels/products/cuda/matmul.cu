/* Products of matrices, batch by batch. Invariant: with `deterministic` a row of the result depends
 * only on its own row of a. */
#include "devices/kernels/products/cuda/products.h"
#include "devices/kernels/products/matmul_batches.h"
#include "devices/kernels/products/products.h"

struct matmul_state : tdm_matmul_sizes {
  bool alone; /* rows do not depend on each other */
};

static tdm_status matmul_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  matmul_state *state = state_create<matmul_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  tdm_matmul_sizes_read(state, request);
  state->alone = request->deterministic && !state->transpose_a;
  return TDM_OK;
}

/* Computes y (batches, m, n) from a (a's batches, m, k) or (k, m), and b (b's batches, k, n) or (n,
 * k). */
template <class stored> static tdm_status matmul_execute(const tdm_kernel_call *call) {
  const matmul_state *state = state_of<matmul_state>(call);
  const int64_t m = state->m, n = state->n, k = state->k, bytes = sizeof(stored);
  for (int64_t batch = 0; batch < state->batches.count; batch++) {
    int64_t a_batch, b_batch;
    tdm_matmul_operands(&state->batches, batch, &a_batch, &b_batch);
    const char *a = input_of<char>(call, 0) + a_batch * m * k * bytes;
    const char *b = input_of<char>(call, 1) + b_batch * k * n * bytes;
    char *y = output_of<char>(call, 0) + batch * m * n * bytes;
    const tdm_cuda_product product =
        state->transpose_a   ? product_of_transposed<stored>(a, b, y, m, n, k, 0)
        : state->transpose_b ? product_with_transposed<stored>(a, b, y, m, n, k, 0)
                             : product_with<stored>(a, b, y, m, n, k, 0);
    TDM_TRY(product_run<stored>(call, &product, state->alone));
  }
  return TDM_OK;
}

KERNELS(matmul, KERNEL(TDM_OP_MATMUL, matmul_prepare, matmul_execute<stored>))
