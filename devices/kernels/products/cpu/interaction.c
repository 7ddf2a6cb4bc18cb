/* The products of pairs of vectors, and their gradient, sample by sample (Naumov et al., "Deep
 * learning recommendation model for personalization and recommendation systems", 2019). Invariant:
 * a sample is computed by one thread, a few rows of its square at a time. */
#include "core/status.h"
#include "devices/kernels/cpu/vector.h"
#include "devices/kernels/products/cpu/product.h"
#include "devices/kernels/products/interaction_sizes.h"
#include "devices/kernels/products/products.h"

#define ROWS 16 /* rows of a sample's square that are computed at once */

typedef struct interaction_state {
  interaction_sizes sizes;
  bool splits;
} interaction_state;

typedef struct interaction_job {
  const interaction_state *state;
  const real *x;   /* (batch, vectors, dim) */
  const real *d_y; /* (batch, pairs) */
  real *y;         /* (batch, pairs) */
  real *d_x;       /* (batch, vectors, dim) */
} interaction_job;

static tdm_status interaction_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                      const tdm_spec *x) {
  interaction_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  interaction_sizes_read(&state->sizes, request, x);
  const double square = (double)state->sizes.vectors * (double)state->sizes.vectors;
  state->splits = answer->splits = tdm_cpu_splits(request, (double)state->sizes.batch * square *
                                                               (double)state->sizes.dim / 30.0);
  return TDM_OK;
}

/* Returns the number of pairs before those of vector i. */
static int64_t pairs_before(const interaction_state *state, int64_t i) {
  return i * (i - 1) / 2 + state->sizes.self * i;
}

static void forward_range(void *user, int64_t begin, int64_t end) {
  const interaction_job *job = user;
  const interaction_state *state = job->state;
  const int64_t dim = state->sizes.dim;
  _Alignas(64) real square[ROWS * TDM_MAX_INTERACTING];
  for (int64_t sample = begin; sample < end; sample++) {
    const real *x = job->x + sample * state->sizes.vectors * dim; /* (vectors, dim) */
    const matrix transposed = {x, dim, true};
    for (int64_t first = 0; first < state->sizes.vectors; first += ROWS) {
      const int64_t rows = lesser_of(state->sizes.vectors - first, ROWS), columns = first + rows;
      product_direct(rows, dim, columns, transposed, 0, columns, x + first * dim, dim, NULL, square,
                     columns);
      for (int64_t i = first; i < first + rows; i++)
        row_copy(job->y + sample * state->sizes.pairs + pairs_before(state, i),
                 square + (i - first) * columns, i + state->sizes.self);
    }
  }
}

static tdm_status dot_interaction_prepare(const tdm_kernel_request *request,
                                          tdm_kernel_answer *answer) {
  return interaction_prepare(request, answer, &request->inputs[0]);
}

static tdm_status dot_interaction_execute(const tdm_kernel_call *call) {
  const interaction_state *state = call->state;
  interaction_job job = {.state = state, .x = call->inputs[0], .y = call->outputs[0]};
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.batch, 8, forward_range, &job);
  return TDM_OK;
}

/* Computes row i (vectors) of G + G^T, where G holds d_y of one sample below its diagonal. */
static void symmetric_row(const interaction_state *state, const real *d_y, int64_t i, real *row) {
  row_copy(row, d_y + pairs_before(state, i), i);
  row[i] = state->sizes.self ? 2 * d_y[pairs_before(state, i) + i] : 0;
  for (int64_t j = i + 1; j < state->sizes.vectors; j++)
    row[j] = d_y[pairs_before(state, j) + i];
}

static void gradient_range(void *user, int64_t begin, int64_t end) {
  const interaction_job *job = user;
  const interaction_state *state = job->state;
  const int64_t dim = state->sizes.dim, vectors = state->sizes.vectors;
  _Alignas(64) real square[ROWS * TDM_MAX_INTERACTING];
  for (int64_t sample = begin; sample < end; sample++) {
    const real *d_y = job->d_y + sample * state->sizes.pairs;       /* (pairs) */
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
  return interaction_prepare(request, answer, &request->inputs[1]);
}

static tdm_status dot_interaction_gradient_execute(const tdm_kernel_call *call) {
  const interaction_state *state = call->state;
  interaction_job job = {
      .state = state, .d_y = call->inputs[0], .x = call->inputs[1], .d_x = call->outputs[0]};
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.batch, 8, gradient_range, &job);
  return TDM_OK;
}

KERNELS(interaction,
        KERNEL(TDM_OP_DOT_INTERACTION, dot_interaction_prepare, dot_interaction_execute),
        KERNEL(TDM_OP_DOT_INTERACTION_GRADIENT, dot_interaction_gradient_prepare,
               dot_interaction_gradient_execute))
