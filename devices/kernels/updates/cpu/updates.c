/* Updates of parameters by the formulas of devices/kernels/updates/optimizers.h, of all elements or
 * of the rows that a sparse gradient names. Numbers of a step are computed in double, elements in
 * the parameter's dtype. */
#include "core/status.h"
#include "devices/kernels/cpu/fetch.h"
#include "devices/kernels/cpu/vector_math.h"
#include "devices/kernels/updates/update_sizes.h"

#define number vec
#define root_of vec_sqrt
#define absolute_of vec_absolute
#define choose vec_select
#define FOR_REAL
#define FOR_STORED
#define FOR_REAL_FUNCTION ALWAYS_INLINE
#define FOR_STORED_FUNCTION static inline
#define ON_DEVICES
#define OF_REAL(type) struct type
#define OF_STORED(type) struct type
#define REAL_OF_STORED(type) struct type
#define USING_REAL
#define WIDENED(x) ((double)widened(x))
#define NARROWED(x) narrowed(x)
#include "devices/kernels/updates/formulas.h"

typedef struct update_state {
  update_sizes sizes;
  int64_t tables; /* the parameter and the states of its shape */
  bool splits;
} update_state;

static tdm_status update_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                 const int counts[UPDATE_SHAPES], bool of_rows) {
  update_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->tables = 1 + counts[UPDATE_ELEMENTS];
  const double tables = (double)state->tables;
  double each_ns = (1 + tables) * sizeof(real) / 16;
  if (of_rows) {
    update_rows_sizes_read(&state->sizes, request);
    each_ns = tables * (10 + (double)state->sizes.dim / 4);
  } else {
    update_sizes_read(&state->sizes, request);
  }
  state->splits = answer->splits = tdm_cpu_splits(request, (double)state->sizes.count * each_ns);
  return TDM_OK;
}

#define LOAD(state, shape, condition, initial) LOAD_##shape(state)
#define LOAD_ELEMENTS(state)                                                                       \
  if (at->state) e.state = element_load(at->state + i, left);
#define LOAD_NUMBER(state)
#define STORE(state, shape, condition, initial) STORE_##shape(state)
#define STORE_ELEMENTS(state)                                                                      \
  if (at->state) element_store(at->state + i, e.state, left);
#define STORE_NUMBER(state)

/* ---- All elements ---------------------------------------------------------------------------- */

/* clang-format off */
#define UPDATE(name, replaced)                                                                     \
  typedef struct name##_job {                                                                      \
    struct name##_numbers numbers;                                                                 \
    struct name##_operands operands; /* (count), or (rows, dim) and a gradient (n, dim) */         \
    const int64_t *indices;          /* (n), of which the first count are distinct */              \
    int64_t count;                                                                                 \
    int64_t dim;                                                                                   \
    int64_t tables;                                                                                \
  } name##_job;                                                                                    \
  ALWAYS_INLINE void name##_elements(const struct name##_numbers *numbers,                         \
                                     const struct name##_operands *at, int64_t begin,              \
                                     int64_t end) {                                                \
    const struct name##_numbers n = *numbers;                                                      \
    for (int64_t i = begin; i < end; i += LANES) {                                                 \
      const int64_t left = end - i;                                                                \
      struct name##_element e = {.gradient = element_load(at->gradient + i, left),                 \
                                 .parameter = element_load(at->parameter + i, left)};              \
      TDM_STATES_##name(LOAD)                                                                      \
      name##_update(&n, &e);                                                                       \
      element_store(at->parameter + i, e.parameter, left);                                         \
      TDM_STATES_##name(STORE)                                                                     \
    }                                                                                              \
  }                                                                                                \
  static name##_job name##_begin_job(const tdm_kernel_call *call) {                                \
    tdm_##name##_attributes attributes;                                                            \
    name##_job job = {.count = 0};                                                                 \
    name##_read(call, &attributes, &job.operands);                                                 \
    name##_begin(&attributes, call->scalars->learning_rate, &job.operands, &job.numbers);          \
    return job;                                                                                    \
  }

#define DENSE(name, replaced)                                                                      \
  UPDATE(name, replaced)                                                                           \
  static void name##_range(void *user, int64_t begin, int64_t end) {                               \
    const name##_job *job = user;                                                                  \
    const struct name##_operands at = job->operands;                                               \
    name##_elements(&job->numbers, &at, begin, end);                                               \
  }                                                                                                \
  static tdm_status name##_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) { \
    int counts[UPDATE_SHAPES];                                                                     \
    name##_count(request->attributes, counts);                                                     \
    return update_prepare(request, answer, counts, false);                                         \
  }                                                                                                \
  static tdm_status name##_execute(const tdm_kernel_call *call) {                                  \
    const update_state *state = call->state;                                                       \
    name##_job job = name##_begin_job(call);                                                       \
    tdm_team_run(state->splits ? call->team : NULL, state->sizes.count, 4096, name##_range, &job); \
    return TDM_OK;                                                                                 \
  }
TDM_UPDATES(DENSE)
UPDATE(adam_sparse, beta1)

/* ---- The rows of a sparse gradient ----------------------------------------------------------- */

#define FETCH(state, shape, condition, initial) FETCH_##shape(state)
#define FETCH_ELEMENTS(state)                                                                      \
  if (row.state) row_fetch_at(row.state, job->indices, i + ahead, job->count, dim);
#define FETCH_NUMBER(state)
#define ADVANCE(state, shape, condition, initial) ADVANCE_##shape(state)
#define ADVANCE_ELEMENTS(state)                                                                    \
  if (row.state) row.state += offset;
#define ADVANCE_NUMBER(state)

#define ROWS(operation, name)                                                                      \
  static void operation##_range(void *user, int64_t begin, int64_t end) {                          \
    const name##_job *job = user;                                                                  \
    const int64_t dim = job->dim, ahead = row_fetch_ahead(dim * job->tables);                      \
    for (int64_t i = begin; i < end; i++) {                                                        \
      const int64_t offset = job->indices[i] * dim;                                                \
      struct name##_operands row = job->operands;                                                  \
      row_fetch_at(row.parameter, job->indices, i + ahead, job->count, dim);                       \
      TDM_STATES_##name(FETCH)                                                                     \
      row.gradient += i * dim;                                                                     \
      row.parameter += offset;                                                                     \
      TDM_STATES_##name(ADVANCE)                                                                   \
      name##_elements(&job->numbers, &row, 0, dim);                                                \
    }                                                                                              \
  }                                                                                                \
  static tdm_status operation##_prepare(const tdm_kernel_request *request,                         \
                                        tdm_kernel_answer *answer) {                               \
    int counts[UPDATE_SHAPES];                                                                     \
    name##_count(request->attributes, counts);                                                     \
    return update_prepare(request, answer, counts, true);                                          \
  }                                                                                                \
  static tdm_status operation##_execute(const tdm_kernel_call *call) {                             \
    const update_state *state = call->state;                                                       \
    name##_job job = name##_begin_job(call);                                                       \
    job.indices = call->inputs[2];                                                                 \
    job.count = *(const int64_t *)call->inputs[3];                                                 \
    job.dim = state->sizes.dim;                                                                    \
    job.tables = state->tables;                                                                    \
    tdm_team_run(state->splits ? call->team : NULL, job.count, 256, operation##_range, &job);      \
    return TDM_OK;                                                                                 \
  }
TDM_ROW_UPDATES(ROWS)
/* clang-format on */

#define LISTED(name, other) KERNEL(#name, name##_prepare, name##_execute),
KERNELS(updates, TDM_UPDATES(LISTED) TDM_ROW_UPDATES(LISTED))
