/* Products of matrices, batch by batch. Invariant: a task is a fixed block of rows of one batch's
 * result, so results do not depend on the team; a row of it depends on its own row of a alone. */
#include "core/status.h"
#include "devices/cpu/kernels/product.h"
#include "devices/cpu/kernels/vector.h"
#include "devices/matmul_batches.h"

typedef struct matmul_state {
  tdm_matmul_batches batches;
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t rows_per_task;
  bool transpose_a;
  bool transpose_b;
  bool splits;
} matmul_state;

typedef struct matmul_job {
  const matmul_state *state;
  const real *a; /* (a's batches, m, k), or (k, m) */
  const real *b; /* (b's batches, k, n), or (n, k) */
  real *y;       /* (batches, m, n) */
} matmul_job;

static tdm_status matmul_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_matmul_attributes *attributes = request->attributes;
  const tdm_shape *a = &request->inputs[0].shape, *y = &request->outputs[0].shape;
  matmul_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->transpose_a = attributes->transpose_a != 0;
  state->transpose_b = attributes->transpose_b != 0;
  state->m = y->dims[y->rank - 2];
  state->n = y->dims[y->rank - 1];
  state->k = a->dims[a->rank - (state->transpose_a ? 2 : 1)];
  state->batches = tdm_matmul_batches_of(a, &request->inputs[1].shape, y);
  const double rows = (double)state->batches.count * (double)state->m;
  const int64_t wanted = (int64_t)(rows / (4.0 * (double)request->team_size)) + 1;
  state->rows_per_task = wanted > PRODUCT_ROWS ? PRODUCT_ROWS : wanted < 32 ? 32 : wanted;
  state->splits = answer->splits =
      tdm_cpu_splits(request, rows * (double)state->k * (double)state->n / 40.0);
  return TDM_OK;
}

static void run_tasks(void *user, int64_t begin, int64_t end) {
  const matmul_job *job = user;
  const matmul_state *state = job->state;
  const int64_t m = state->m, n = state->n, k = state->k;
  const int64_t row_tasks = ceil_div(m, state->rows_per_task);
  for (int64_t task = begin; task < end; task++) {
    const int64_t batch = task / row_tasks, row = task % row_tasks * state->rows_per_task;
    const int64_t rows = lesser_of(m - row, state->rows_per_task);
    int64_t a_batch, b_batch;
    tdm_matmul_operands(&state->batches, batch, &a_batch, &b_batch);
    const real *a = job->a + a_batch * m * k;
    const real *b = job->b + b_batch * k * n;
    real *y = job->y + batch * m * n + row * n; /* (rows, n) */
    if (state->transpose_a) {
      product_of_transposed(rows, n, k, a + row, m, b, n, PRODUCT_SET, y, n);
    } else {
      const matrix right = {b, state->transpose_b ? k : n, state->transpose_b};
      product_direct(rows, k, n, right, 0, n, a + row * k, k, NULL, y, n);
    }
  }
}

static tdm_status matmul_execute(const tdm_kernel_call *call) {
  const matmul_state *state = call->state;
  matmul_job job = {
      .state = state, .a = call->inputs[0], .b = call->inputs[1], .y = call->outputs[0]};
  const int64_t tasks = state->batches.count * ceil_div(state->m, state->rows_per_task);
  tdm_team_run(state->splits ? call->team : NULL, tasks, 1, run_tasks, &job);
  return TDM_OK;
}

KERNELS(matmul, KERNEL(TDM_OP_MATMUL, matmul_prepare, matmul_execute))
