/* Products of matrices, batch by batch. Invariant: a task is a fixed block of rows of one batch's
 * result, so results do not depend on the team; a row of it depends only on its own row of a. */
#include "core/status.h"
#include "devices/kernels/cpu/vector.h"
#include "devices/kernels/products/cpu/product.h"
#include "devices/kernels/products/matmul_batches.h"
#include "devices/kernels/products/products.h"

typedef struct matmul_state {
  tdm_matmul_sizes sizes;
  int64_t rows_per_task;
  bool splits;
} matmul_state;

typedef struct matmul_job {
  const matmul_state *state;
  const real *a; /* (a's batches, m, k), or (k, m) */
  const real *b; /* (b's batches, k, n), or (n, k) */
  real *y;       /* (batches, m, n) */
} matmul_job;

static tdm_status matmul_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  matmul_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  tdm_matmul_sizes_read(&state->sizes, request);
  const double rows = (double)state->sizes.batches.count * (double)state->sizes.m;
  const int64_t wanted = (int64_t)(rows / (4.0 * (double)request->team_size)) + 1;
  state->rows_per_task = wanted > PRODUCT_ROWS ? PRODUCT_ROWS : wanted < 32 ? 32 : wanted;
  state->splits = answer->splits =
      tdm_cpu_splits(request, rows * (double)state->sizes.k * (double)state->sizes.n / 40.0);
  return TDM_OK;
}

static void run_tasks(void *user, int64_t begin, int64_t end) {
  const matmul_job *job = user;
  const matmul_state *state = job->state;
  const int64_t m = state->sizes.m, n = state->sizes.n, k = state->sizes.k;
  const int64_t row_tasks = ceil_div(m, state->rows_per_task);
  for (int64_t task = begin; task < end; task++) {
    const int64_t batch = task / row_tasks, row = task % row_tasks * state->rows_per_task;
    const int64_t rows = lesser_of(m - row, state->rows_per_task);
    int64_t a_batch, b_batch;
    tdm_matmul_operands(&state->sizes.batches, batch, &a_batch, &b_batch);
    const real *a = job->a + a_batch * m * k;
    const real *b = job->b + b_batch * k * n;
    real *y = job->y + batch * m * n + row * n; /* (rows, n) */
    if (state->sizes.transpose_a) {
      product_of_transposed(rows, n, k, a + row, m, b, n, PRODUCT_SET, y, n);
    } else {
      const matrix right = {b, state->sizes.transpose_b ? k : n, state->sizes.transpose_b};
      product_direct(rows, k, n, right, 0, n, a + row * k, k, NULL, y, n);
    }
  }
}

static tdm_status matmul_execute(const tdm_kernel_call *call) {
  const matmul_state *state = call->state;
  matmul_job job = {
      .state = state, .a = call->inputs[0], .b = call->inputs[1], .y = call->outputs[0]};
  const int64_t tasks = state->sizes.batches.count * ceil_div(state->sizes.m, state->rows_per_task);
  tdm_team_run(state->splits ? call->team : NULL, tasks, 1, run_tasks, &job);
  return TDM_OK;
}

KERNELS(matmul, KERNEL(TDM_OP_MATMUL, matmul_prepare, matmul_execute))
