/* The products of pairs of vectors, and their gradient, sample by sample (Naumov et al., "Deep
 * learning recommendation model for personalization and recommendation systems", 2019). Invariant:
 * a sample is computed by one thread, a few rows of its square at a time. */
#include "core/status.h"
#include "devices/cpu/kernels/product.h"
#include "devices/cpu/kernels/vector.h"

#define ROWS 16 /* of a sample's square that are computed at once */

typedef struct interaction_state {
  int64_t batch;
  int64_t vectors;
  int64_t dim;
  int64_t pairs;
  int64_t self; /* 1: a vector's product with itself too */
  bool splits;
} interaction_state;

typedef struct interaction_job {
  const interaction_state *state;
  const real *x;   /* (batch, vectors, dim) */
  const real *d_y; /* (batch, pairs) */
  real *y;         /* (batch, pairs) */
  real *d_x;       /* (batch, vectors, dim) */
} interaction_job;

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                          const tdm_spec *x) {
  const tdm_dot_interaction_attributes *attributes = request->attributes;
  interaction_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->batch = x->shape.dims[0];
  state->vectors = x->shape.dims[1];
  state->dim = x->shape.dims[2];
  state->self = attributes->self;
  state->pairs = state->vectors * (state->vectors - 1) / 2 + state->self * state->vectors;
  const double square = (double)state->vectors * (double)state->vectors;
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->batch * square * (double)state->dim / 30.0);
  return TDM_OK;
}

/* How many pairs come before those of vector i. */
static int64_t pairs_before(const interaction_state *state, int64_t i) {
  return i * (i - 1) / 2 + state->self * i;
}

static void forward_range(void *user, int64_t begin, int64_t end) {
  const interaction_job *job = user;
  const interaction_state *state = job->state;
  const int64_t dim = state->dim;
  _Alignas(64) real square[ROWS * TDM_MAX_INTERACTING];
  for (int64_t sample = begin; sample < end; sample++) {
    const real *x = job->x + sample * state->vectors * dim; /* (vectors, dim) */
    const matrix transposed = {x, dim, true};
    for (int64_t first = 0; first < state->vectors; first += ROWS) {
      const int64_t rows = lesser_of(state->vectors - first, ROWS), columns = first + rows;
      product_direct(rows, dim, columns, transposed, 0, columns, x + first * dim, dim, NULL, square,
                     columns);
      for (int64_t i = first; i < first + rows; i++)
        row_copy(job->y + sample * state->pairs + pairs_before(state, i),
                 square + (i - first) * columns, i + state->self);
    }
  }
}

static tdm_status dot_interaction_prepare(const tdm_kernel_request *request,
                                          tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->inputs[0]);
}

static tdm_status dot_interaction_execute(const tdm_kernel_call *call) {
  const interaction_state *state = call->state;
  interaction_job job = {.state = state, .x = call->inputs[0], .y = call->outputs[0]};
  tdm_team_run(state->splits ? call->team : NULL, state->batch, 8, forward_range, &job);
  return TDM_OK;
}

/* Row i of G + G^T, where G holds d_y of one sample below its diagonal: (vectors). */
static void symmetric_row(const interaction_state *state, const real *d_y, int64_t i, real *row) {
  row_copy(row, d_y + pairs_before(state, i), i);
  row[i] = state->self ? 2 * d_y[pairs_before(state, i) + i] : 0;
  for (int64_t j = i + 1; j < state->vectors; j++)
    row[j] = d_y[pairs_before(state, j) + i];
}

static void gradient_range(void *user, int64_t begin, int64_t end) {
  const interaction_job *job = user;
  const interaction_state *state = job->state;
  const int64_t dim = state->dim, vectors = state->vectors;
  _Alignas(64) real square[ROWS * TDM_MAX_INTERACTING];
  for (int64_t sample = begin; sample < end; sample++) {
    const real *d_y = job->d_y + sample * state->pairs;             /* (pairs) */
    const matrix x = {job->x + sample * vectors * dim, dim, false}; /* (vectors, dim) */
    real *d_x = job->d_x + sample * vectors * dim;                  /* (vectors, dim) */
    for (int64_t first = 0; first < vectors; first += ROWS) {
      const int64_t rows = lesser_of(vectors - first, ROWS);
      for (int64_t i = 0; i < rows; i++)
        symmetric_row(state, d_y, first + i, square + i * vectors);
      product_direct(rows, vectors, dim, x, 0, dim, square, vectors, NULL, d_x + first * dim, dim);
    }
  }
}

static tdm_status dot_interaction_gradient_prepare(const tdm_kernel_request *request,
                                                   tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->inputs[1]);
}

static tdm_status dot_interaction_gradient_execute(const tdm_kernel_call *call) {
  const interaction_state *state = call->state;
  interaction_job job = {
      .state = state, .d_y = call->inputs[0], .x = call->inputs[1], .d_x = call->outputs[0]};
  tdm_team_run(state->splits ? call->team : NULL, state->batch, 8, gradient_range, &job);
  return TDM_OK;
}

KERNELS(interaction,
        KERNEL(TDM_OP_DOT_INTERACTION, dot_interaction_prepare, dot_interaction_execute),
        KERNEL(TDM_OP_DOT_INTERACTION_GRADIENT, dot_interaction_gradient_prepare,
               dot_interaction_gradient_execute))
