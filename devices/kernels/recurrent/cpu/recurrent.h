/* Code that a recurrent layer and its gradient share: sizes, each row's steps, and the packing of
 * weights. Invariant: a row of the batch depends only on its own row, however rows are divided
 * among tasks. */
#ifndef TANDEM_DEVICES_KERNELS_RECURRENT_CPU_RECURRENT_H
#define TANDEM_DEVICES_KERNELS_RECURRENT_CPU_RECURRENT_H

#include "devices/kernels/cpu/vector_math.h"
#include "devices/kernels/products/cpu/product.h"
#include "devices/kernels/recurrent/recurrent_sizes.h"

typedef struct recurrent_state {
  recurrent_sizes sizes;
  int64_t kept;          /* columns that a step stores for the gradient */
  int64_t rows_per_task; /* rows of the batch in a task */
  int64_t weight_rows;   /* rows of the weights' gradients in a task */
  int64_t unit_panels;   /* panels of the state's units that a task takes of a step; 0: rows are
                            shared out */
  bool trains;           /* forward: gates are stored; gradient: d_x is computed */
  bool splits;
} recurrent_state;

/* Returns the rows of a task: few enough that every thread has some and that they stay in the
 * nearest cache beside a panel, and so many that reading the weights does not cost more than the
 * products. */
static inline int64_t recurrent_rows(int64_t batch, size_t team_size) {
  const int64_t wanted = ceil_div(batch, (int64_t)team_size);
  return wanted > 32 ? 32 : wanted < 12 ? 12 : wanted;
}

/* Units of the state, first <= j < end; first is a multiple of a panel's width. */
typedef struct unit_range {
  int64_t first;
  int64_t end;
} unit_range;

enum {
  UNITS_FROM_BYTES = 512 << 10, /* bytes of weights; sharing fewer costs as much as reading them */
  UNITS_ALWAYS_BYTES = 8 << 20, /* bytes of weights that exceed the caches, so that reading them
                                 * twice is slower */
  UNITS_ROWS = 10,      /* rows per thread; with fewer, reading takes longer than multiplying */
  UNITS_MOST_ROWS = 64, /* rows per thread */
};

/* Returns the number of panels of units that a task computes in each step, or 0 if tasks divide the
 * rows instead. With panels, a thread reads the same part of the weights in every step, not all of
 * them. */
static inline int64_t recurrent_unit_panels(const recurrent_state *state, size_t team_size) {
  const int64_t threads = (int64_t)team_size;
  const int64_t weight_bytes = state->sizes.columns * state->sizes.hidden * (int64_t)sizeof(real);
  const int64_t rows = weight_bytes < UNITS_ALWAYS_BYTES ? UNITS_ROWS : UNITS_MOST_ROWS;
  if (state->sizes.batch > rows * threads || weight_bytes < UNITS_FROM_BYTES) return 0;
  if (state->sizes.hidden % PRODUCT_WIDTH != 0)
    return 0; /* a gate's first panel has another's units */
  return ceil_div(state->sizes.hidden / PRODUCT_WIDTH, 2 * threads);
}

/* Initializes the state. x (length, batch, in), y (length, batch, hidden). */
static inline void recurrent_state_init(recurrent_state *state, const tdm_kernel_request *request,
                                        const tdm_spec *x, const tdm_spec *y,
                                        const tdm_spec *lengths) {
  recurrent_sizes_read(&state->sizes, request, x, y, lengths);
  state->kept =
      state->sizes.columns > state->sizes.hidden ? 4 * state->sizes.hidden : state->sizes.hidden;
  state->rows_per_task = recurrent_rows(state->sizes.batch, request->team_size);
  state->weight_rows = product_gradient_rows(state->sizes.columns, request->team_size);
  state->unit_panels = recurrent_unit_panels(state, request->team_size);
}

/* Multiplications and additions of the forward pass, as one each. */
static inline double recurrent_operations(const recurrent_state *state) {
  return (double)state->sizes.length * (double)state->sizes.batch * (double)state->sizes.columns *
         (double)(state->sizes.in + state->sizes.hidden);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Returns the number of steps whose products with the input, or with its weight, are computed
 * together. If one block is the whole batch, rows of neighbouring steps are contiguous, and steps
 * are combined to at most 64 rows. Otherwise it is 1. */
static inline int64_t recurrent_steps_at_once(const recurrent_state *state) {
  const bool whole = state->sizes.batch > 0 && state->sizes.batch <= state->rows_per_task;
  const int64_t steps = whole ? 64 / state->sizes.batch : 1;
  return steps > 1 ? lesser_of(steps, state->sizes.length) : 1;
}

/* Steps of a row; lengths may be NULL. */
static inline int64_t recurrent_steps(const recurrent_state *state, const void *lengths,
                                      int64_t row) {
  if (!lengths) return state->sizes.length;
  const tdm_cpu_ids ids = {lengths, state->sizes.batch, state->sizes.wide_lengths};
  return tdm_cpu_id(&ids, row);
}

/* Returns true if t is the first time of a row of so many steps. */
static inline bool recurrent_is_first(const recurrent_state *state, int64_t t, int64_t steps) {
  return t == (state->sizes.reverse ? steps - 1 : 0);
}

/* "lengths 9 at position 3 is outside 0 to 8" */
static inline tdm_status recurrent_lengths_check(const recurrent_state *state,
                                                 const void *lengths) {
  const tdm_cpu_ids ids = {lengths, state->sizes.batch, state->sizes.wide_lengths};
  return !lengths ? TDM_OK : tdm_cpu_lengths_check(&ids, state->sizes.length);
}

/* ---- Packing --------------------------------------------------------------------------------- */

typedef struct recurrent_packing {
  packed_matrix to;
  matrix weight;
} recurrent_packing;

static inline void recurrent_pack_tasks(void *user, int64_t begin, int64_t end) {
  const recurrent_packing *packing = user;
  product_pack(packing->to, begin * PRODUCT_COLUMNS,
               lesser_of(packing->to.n, end * PRODUCT_COLUMNS), packing->weight);
}

/* Packs a whole weight. */
static inline void recurrent_pack(packed_matrix to, matrix weight, tdm_team *team) {
  recurrent_packing packing = {to, weight};
  tdm_team_run(team, ceil_div(to.n, PRODUCT_COLUMNS), 1, recurrent_pack_tasks, &packing);
}

/* Takes count elements from a workspace. */
static inline real *recurrent_take(char **workspace, int64_t count) {
  real *taken = (real *)*workspace;
  *workspace += aligned_bytes((size_t)count * sizeof(real));
  return taken;
}

#endif
