/* The linear layer and its gradients. Invariant: a task is a fixed block of rows and columns of the
 * result, so results do not depend on the team; a row of the output depends only on its own row. */
#include "core/status.h"
#include "devices/kernels/cpu/vector.h"
#include "devices/kernels/products/cpu/product.h"
#include "devices/kernels/products/products.h"

#define DIRECT_ROWS 64 /* with at most as many rows, the weight is packed during the product */

typedef struct linear_state {
  int64_t rows; /* the batch, all leading dimensions */
  int64_t in;
  int64_t out;
  int64_t rows_per_task;
  bool splits;
} linear_state;

/* A product of rows with a weight, in tasks of rows and columns. */
typedef struct rows_job {
  int64_t rows;
  int64_t rows_per_task;
  int64_t k;
  int64_t n;
  matrix weight; /* (k, n) */
  packed_matrix packed;
  const real *x;    /* (rows, k) */
  const real *bias; /* (n) or NULL */
  real *y;          /* (rows, n) */
  int64_t column_tasks;
} rows_job;

/* Returns the rows of a task: enough to share a panel, and few enough that every thread has
 * some. */
static int64_t rows_of_task(int64_t rows, size_t team_size) {
  const int64_t wanted = ceil_div(rows, 4 * (int64_t)team_size);
  return wanted > 240 ? 240 : wanted < DIRECT_ROWS ? DIRECT_ROWS : wanted;
}

/* Returns true if the weight is packed before the product, because it is used more than once. */
static bool packs(int64_t rows) {
  return rows > DIRECT_ROWS;
}

static linear_state *state_create(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                  const tdm_spec *x, const tdm_spec *y) {
  linear_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return NULL;
  state->rows = rows_of(x);
  state->in = last_dim_of(x);
  state->out = last_dim_of(y);
  state->rows_per_task = rows_of_task(state->rows, request->team_size);
  const double operations = (double)state->rows * (double)state->in * (double)state->out;
  state->splits = answer->splits = tdm_cpu_splits(request, operations / 40.0);
  return state;
}

/* Columns of column task `task`. */
static void columns_of(int64_t n, int64_t task, int64_t *first, int64_t *end) {
  *first = task * PRODUCT_COLUMNS;
  *end = lesser_of(n, *first + PRODUCT_COLUMNS);
}

static void pack_tasks(void *user, int64_t begin, int64_t end) {
  const rows_job *job = user;
  for (int64_t task = begin; task < end; task++) {
    int64_t first, last;
    columns_of(job->n, task, &first, &last);
    product_pack(job->packed, first, last, job->weight);
  }
}

static void product_tasks(void *user, int64_t begin, int64_t end) {
  const rows_job *job = user;
  const int64_t k = job->k, n = job->n;
  for (int64_t task = begin; task < end; task++) {
    const int64_t row = task / job->column_tasks * job->rows_per_task;
    const int64_t count = lesser_of(job->rows - row, job->rows_per_task);
    const real *x = job->x + row * k; /* (count, k) */
    real *y = job->y + row * n;       /* (count, n) */
    int64_t first, last;
    columns_of(n, task % job->column_tasks, &first, &last);
    if (packs(job->rows)) {
      product_packed(count, job->packed, first, last, x, k, job->bias, PRODUCT_SET, y, n);
    } else {
      product_direct(count, k, n, job->weight, first, last, x, k, job->bias, y, n);
    }
  }
}

static void rows_run(rows_job *job, const tdm_kernel_call *call) {
  const linear_state *state = call->state;
  tdm_team *team = state->splits ? call->team : NULL;
  job->column_tasks = ceil_div(job->n, PRODUCT_COLUMNS);
  job->packed = (packed_matrix){call->workspace, job->k, job->n};
  if (packs(job->rows)) tdm_team_run(team, job->column_tasks, 1, pack_tasks, job);
  job->rows_per_task = state->rows_per_task;
  const int64_t row_tasks = ceil_div(job->rows, job->rows_per_task);
  tdm_team_run(team, row_tasks * job->column_tasks, 1, product_tasks, job);
}

/* ---- Forward --------------------------------------------------------------------------------- */

static tdm_status linear_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const linear_state *state =
      state_create(request, answer, &request->inputs[0], &request->outputs[0]);
  if (!state) return TDM_OUT_OF_MEMORY;
  if (packs(state->rows)) answer->workspace_bytes = product_packed_bytes(state->in, state->out);
  return TDM_OK;
}

static tdm_status linear_execute(const tdm_kernel_call *call) {
  const linear_state *state = call->state;
  rows_job job = {.rows = state->rows,
                  .k = state->in,
                  .n = state->out,
                  .weight = {call->inputs[1], state->in, true},
                  .x = call->inputs[0],
                  .bias = call->inputs[2],
                  .y = call->outputs[0]};
  rows_run(&job, call);
  return TDM_OK;
}

/* ---- Gradient of the input ---------------------------------------------------------------------
 */

static tdm_status linear_input_gradient_prepare(const tdm_kernel_request *request,
                                                tdm_kernel_answer *answer) {
  const linear_state *state =
      state_create(request, answer, &request->outputs[0], &request->inputs[0]);
  if (!state) return TDM_OUT_OF_MEMORY;
  if (packs(state->rows)) answer->workspace_bytes = product_packed_bytes(state->out, state->in);
  return TDM_OK;
}

static tdm_status linear_input_gradient_execute(const tdm_kernel_call *call) {
  const linear_state *state = call->state;
  rows_job job = {.rows = state->rows,
                  .k = state->out,
                  .n = state->in,
                  .weight = {call->inputs[1], state->in, false},
                  .x = call->inputs[0],
                  .y = call->outputs[0]};
  rows_run(&job, call);
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
    const int64_t first = task * job->state->rows_per_task;
    const int64_t count = lesser_of(out - first, job->state->rows_per_task);
    product_of_transposed(count, in, rows, job->d_out + first, out, job->x, in, PRODUCT_SET,
                          job->d_weight + first * in, in);
    column_sums(rows, count, job->d_out + first, out, job->d_bias + first);
  }
}

static tdm_status linear_parameter_gradient_prepare(const tdm_kernel_request *request,
                                                    tdm_kernel_answer *answer) {
  linear_state *state = state_create(request, answer, &request->inputs[1], &request->inputs[0]);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->rows_per_task = product_gradient_rows(state->out, request->team_size);
  return TDM_OK;
}

static tdm_status linear_parameter_gradient_execute(const tdm_kernel_call *call) {
  const linear_state *state = call->state;
  parameter_job job = {.state = state,
                       .d_out = call->inputs[0],
                       .x = call->inputs[1],
                       .d_weight = call->outputs[0],
                       .d_bias = call->outputs[1]};
  tdm_team_run(state->splits ? call->team : NULL, ceil_div(state->out, state->rows_per_task), 1,
               parameter_tasks, &job);
  return TDM_OK;
}

KERNELS(linear, KERNEL(TDM_OP_LINEAR, linear_prepare, linear_execute),
        KERNEL(TDM_OP_LINEAR_INPUT_GRADIENT, linear_input_gradient_prepare,
               linear_input_gradient_execute),
        KERNEL(TDM_OP_LINEAR_PARAMETER_GRADIENT, linear_parameter_gradient_prepare,
               linear_parameter_gradient_execute))
