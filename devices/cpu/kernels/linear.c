/* The linear layer and its gradients. Invariant: a task is a fixed block of rows and columns of the
 * result, so results do not depend on the team; a row of the output depends on its own row alone.
 */
#include "core/status.h"
#include "devices/cpu/kernels/product.h"
#include "devices/cpu/kernels/vector.h"

#define ROWS_PER_TASK 64

typedef struct linear_state {
  int64_t rows; /* the batch, all leading dimensions */
  int64_t in;
  int64_t out;
  bool splits;
} linear_state;

/* A product of rows with a packed weight, in tasks. */
typedef struct rows_job {
  int64_t rows;
  packed_matrix packed;
  product_layout layout;
  const real *weight; /* (out, in) */
  int64_t weight_stride;
  const real *x;    /* (rows, k) */
  const real *bias; /* (n) or NULL */
  real *y;          /* (rows, n) */
  int64_t column_tasks;
} rows_job;

static bool worth_splitting(const tdm_kernel_request *request, const linear_state *state) {
  const double operations = (double)state->rows * (double)state->in * (double)state->out;
  return tdm_cpu_splits(request, operations / 30.0);
}

/* Columns of column task `task`. */
static void columns_of(int64_t n, int64_t task, int64_t *first, int64_t *end) {
  *first = task * PRODUCT_COLUMNS;
  *end = tdm_cpu_min(n, *first + PRODUCT_COLUMNS);
}

static void pack_tasks(void *user, int64_t begin, int64_t end) {
  const rows_job *job = user;
  for (int64_t task = begin; task < end; task++) {
    int64_t first, last;
    columns_of(job->packed.n, task, &first, &last);
    product_pack(job->packed, first, last, job->layout, job->weight, job->weight_stride);
  }
}

static void product_tasks(void *user, int64_t begin, int64_t end) {
  const rows_job *job = user;
  const int64_t k = job->packed.k, n = job->packed.n;
  for (int64_t task = begin; task < end; task++) {
    const int64_t row = task / job->column_tasks * ROWS_PER_TASK;
    int64_t first, last;
    columns_of(n, task % job->column_tasks, &first, &last);
    product(tdm_cpu_min(job->rows - row, ROWS_PER_TASK), job->packed, first, last, job->x + row * k,
            k, job->bias, PRODUCT_SET, job->y + row * n, n);
  }
}

static void rows_run(rows_job *job, tdm_team *team) {
  job->column_tasks = tdm_cpu_chunks(job->packed.n, PRODUCT_COLUMNS);
  const int64_t row_tasks = tdm_cpu_chunks(job->rows, ROWS_PER_TASK);
  if (team == NULL) {
    pack_tasks(job, 0, job->column_tasks);
    product_tasks(job, 0, row_tasks * job->column_tasks);
    return;
  }
  tdm_team_run(team, job->column_tasks, 1, pack_tasks, job);
  tdm_team_run(team, row_tasks * job->column_tasks, 1, product_tasks, job);
}

/* ---- Forward --------------------------------------------------------------------------------- */

tdm_status TDM_NAME(tdm_linear_prepare)(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer) {
  linear_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->rows = tdm_cpu_rows(&request->inputs[0]);
  state->in = tdm_cpu_last_dim(&request->inputs[0]);
  state->out = tdm_cpu_last_dim(&request->outputs[0]);
  state->splits = answer->splits = worth_splitting(request, state);
  answer->workspace_bytes = product_packed_bytes(state->in, state->out);
  return TDM_OK;
}

tdm_status TDM_NAME(tdm_linear_execute)(const tdm_kernel_call *call) {
  const linear_state *state = call->state;
  rows_job job = {.rows = state->rows,
                  .packed = {.data = call->workspace, .k = state->in, .n = state->out},
                  .layout = PRODUCT_TRANSPOSED,
                  .weight = call->inputs[1],
                  .weight_stride = state->in,
                  .x = call->inputs[0],
                  .bias = call->inputs[2],
                  .y = call->outputs[0]};
  rows_run(&job, state->splits ? call->team : NULL);
  return TDM_OK;
}

/* ---- Gradient of the input ---------------------------------------------------------------------
 */

tdm_status TDM_NAME(tdm_linear_input_gradient_prepare)(const tdm_kernel_request *request,
                                                       tdm_kernel_answer *answer) {
  linear_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->rows = tdm_cpu_rows(&request->inputs[0]);
  state->in = tdm_cpu_last_dim(&request->outputs[0]);
  state->out = tdm_cpu_last_dim(&request->inputs[0]);
  state->splits = answer->splits = worth_splitting(request, state);
  answer->workspace_bytes = product_packed_bytes(state->out, state->in);
  return TDM_OK;
}

tdm_status TDM_NAME(tdm_linear_input_gradient_execute)(const tdm_kernel_call *call) {
  const linear_state *state = call->state;
  rows_job job = {.rows = state->rows,
                  .packed = {.data = call->workspace, .k = state->out, .n = state->in},
                  .layout = PRODUCT_PLAIN,
                  .weight = call->inputs[1],
                  .weight_stride = state->in,
                  .x = call->inputs[0],
                  .y = call->outputs[0]};
  rows_run(&job, state->splits ? call->team : NULL);
  return TDM_OK;
}

/* ---- Gradient of the parameters ----------------------------------------------------------------
 */

typedef struct parameter_job {
  const linear_state *state;
  const real *d_out; /* (rows, out) */
  const real *x;     /* (rows, in) */
  real *d_weight;    /* (out, in) */
  real *d_bias;      /* (out) */
} parameter_job;

static void parameter_tasks(void *user, int64_t begin, int64_t end) {
  const parameter_job *job = user;
  const int64_t rows = job->state->rows, in = job->state->in, out = job->state->out;
  for (int64_t task = begin; task < end; task++) {
    const int64_t first = task * PRODUCT_ROWS;
    const int64_t count = tdm_cpu_min(out - first, PRODUCT_ROWS);
    product_of_transposed(count, in, rows, job->d_out + first, out, job->x, in, PRODUCT_SET,
                          job->d_weight + first * in, in);
    column_sums(rows, count, job->d_out + first, out, PRODUCT_SET, job->d_bias + first);
  }
}

tdm_status TDM_NAME(tdm_linear_parameter_gradient_prepare)(const tdm_kernel_request *request,
                                                           tdm_kernel_answer *answer) {
  linear_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->rows = tdm_cpu_rows(&request->inputs[0]);
  state->in = tdm_cpu_last_dim(&request->inputs[1]);
  state->out = tdm_cpu_last_dim(&request->inputs[0]);
  state->splits = answer->splits = worth_splitting(request, state);
  return TDM_OK;
}

tdm_status TDM_NAME(tdm_linear_parameter_gradient_execute)(const tdm_kernel_call *call) {
  const linear_state *state = call->state;
  parameter_job job = {.state = state,
                       .d_out = call->inputs[0],
                       .x = call->inputs[1],
                       .d_weight = call->outputs[0],
                       .d_bias = call->outputs[1]};
  tdm_team_run(state->splits ? call->team : NULL, tdm_cpu_chunks(state->out, PRODUCT_ROWS), 1,
               parameter_tasks, &job);
  return TDM_OK;
}
