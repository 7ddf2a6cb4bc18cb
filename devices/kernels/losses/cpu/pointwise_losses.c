/* Losses of two tensors of one shape, element by element, by the formulas of
 * devices/kernels/losses/losses.h. Invariant: sums are made in blocks of a fixed size, in vectors,
 * then block after block in double, whatever the team.
 */
#include "core/status.h"
#include "devices/kernels/cpu/sums.h"
#include "devices/kernels/cpu/vector_math.h"
#include "devices/kernels/losses/losses.h"

#define KIND(name, operands, x, t, weights) KIND_##name,
typedef enum loss_kind { TDM_ELEMENT_LOSSES(KIND) } loss_kind;

typedef struct loss_state {
  int64_t count;
  int32_t reduction; /* tdm_reduction */
  loss_kind kind;
  real beta;
  real scale;
  real kept;   /* 1 - smoothing */
  real spread; /* smoothing / classes */
  bool logarithms;
  bool entropy;
  double divisor;      /* of the sum; 1 where there is no mean */
  int64_t weights;     /* how many there are, which repeat; 0: none */
  int64_t pos_weights; /* likewise */
  bool splits;
} loss_state;

/* The operands of one execution, of loss and of gradient. */
typedef struct loss_job {
  const loss_state *state;
  const stored *x;          /* (count) */
  const stored *target;     /* (count) */
  const stored *weight;     /* (weights) */
  const stored *pos_weight; /* (pos_weights) */
  const stored *d_loss;     /* () or (count); of the gradient */
  stored *out;              /* (count), or a sum a block */
} loss_job;

/* Elements i to i + LANES of a list of count that repeats; ones where there is none. */
ALWAYS_INLINE vec repeated(const stored *list, int64_t count, int64_t i) {
  if (count <= 1) return count == 0 ? vec_set(1) : element_all(list[0]);
  const int64_t first = i % count;
  if (first + LANES <= count) return element_load_whole(list + first);
  vec value;
  for (int lane = 0; lane < LANES; lane++)
    value[lane] = widened(list[(first + lane) % count]);
  return value;
}

/* The weight of positive targets, less 1, times t; 0 of any t without such weights. */
ALWAYS_INLINE vec more_if_positive(const loss_job *job, vec t, int64_t i) {
  const int64_t count = job->state->pos_weights;
  return count == 0 ? (vec){0} : (repeated(job->pos_weight, count, i) - 1) * t;
}

#define number vec
#define absolute_of vec_absolute
#define exp_of vec_exp
#define log1p_of_fraction vec_log1p_of_fraction
#define sigmoid_of vec_sigmoid
#define choose vec_select
#define every vec_set
#define WEIGHT repeated(job->weight, o->weights, i)
#define POSITIVE(t) (1 + more_if_positive(job, t, i))
#define ADD_ENTROPY(loss, p) loss += vec_select(p == (vec){0}, (vec){0}, p * vec_log_of_any(p))

#define FORMULAS(name, ...)                                                                        \
  ALWAYS_INLINE vec name##_loss(const loss_job *job, vec x, vec t, int64_t i) {                    \
    const loss_state *o = job->state;                                                              \
    (void)o, (void)i;                                                                              \
    TDM_LOSS_##name                                                                                \
  }                                                                                                \
  ALWAYS_INLINE vec name##_slope(const loss_job *job, vec x, vec t, int64_t i) {                   \
    const loss_state *o = job->state;                                                              \
    (void)o, (void)i, (void)x;                                                                     \
    TDM_SLOPE_##name                                                                               \
  }
TDM_ELEMENT_LOSSES(FORMULAS)

ALWAYS_INLINE vec loss_at(const loss_job *job, int64_t i, int64_t left) {
  const vec x = element_load(job->x + i, left), t = element_load(job->target + i, left);
#define LOSS_OF(name, ...)                                                                         \
  case KIND_##name:                                                                                \
    return name##_loss(job, x, t, i);
  switch (job->state->kind) { TDM_ELEMENT_LOSSES(LOSS_OF) }
  return (vec){0};
}

ALWAYS_INLINE vec slope_at(const loss_job *job, int64_t i, int64_t left) {
  const vec x = element_load(job->x + i, left), t = element_load(job->target + i, left);
#define SLOPE_OF(name, ...)                                                                        \
  case KIND_##name:                                                                                \
    return name##_slope(job, x, t, i);
  switch (job->state->kind) { TDM_ELEMENT_LOSSES(SLOPE_OF) }
  return (vec){0};
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static double divisor_of(int32_t reduction, const tdm_spec *x) {
  if (reduction == TDM_REDUCTION_MEAN) return (double)count_of(x);
  return reduction == TDM_REDUCTION_BATCH_MEAN && x->shape.rank > 0 ? (double)x->shape.dims[0] : 1;
}

/* x: the operand of that number, after which target, weight and pos_weight follow. */
static tdm_status pointwise_losses_prepare(const tdm_kernel_request *request,
                                           tdm_kernel_answer *answer, size_t x, loss_kind kind,
                                           size_t weights) {
  const tdm_loss_attributes *attributes = request->attributes;
  const tdm_shape *shape = &request->inputs[x].shape;
  loss_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->inputs[x]);
  state->reduction = attributes->reduction;
  state->kind = kind;
  state->divisor = divisor_of(attributes->reduction, &request->inputs[x]);
  state->beta = (real)attributes->beta;
  state->scale = (real)attributes->scale;
  state->kept = (real)(1 - attributes->smoothing);
  if (attributes->smoothing != 0)
    state->spread = (real)(attributes->smoothing / (double)shape->dims[shape->rank - 1]);
  state->logarithms = attributes->logarithms != 0;
  state->entropy = attributes->entropy != 0;
  for (size_t k = x + 2; k < x + 2 + weights && k < request->input_count; k++) {
    if (request->inputs[k].dtype == TDM_DTYPE_NONE) continue;
    *(k == x + 2 ? &state->weights : &state->pos_weights) = count_of(&request->inputs[k]);
  }
  const double bytes_per_ns = weights == 0 ? 8.0 : 1.0;
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->count * sizeof(stored) / bytes_per_ns);
  if (x == 0 && state->reduction != TDM_REDUCTION_NONE)
    answer->workspace_bytes = sum_workspace_bytes(state->count);
  return TDM_OK;
}

/* ---- Executing ------------------------------------------------------------------------------- */

static void losses_range(void *user, int64_t begin, int64_t end) {
  const loss_job *job = user;
  for (int64_t i = begin; i < end; i += LANES)
    element_store(job->out + i, loss_at(job, i, end - i), end - i);
}

static void blocks_range(void *user, int64_t begin, int64_t end) {
  const loss_job *job = user;
  for (int64_t block = begin; block < end; block++) {
    const int64_t first = block * SUM_BLOCK;
    const int64_t last = lesser_of(job->state->count, first + SUM_BLOCK);
    vec sum = {0};
    for (int64_t i = first; i < last; i += LANES)
      sum += vec_keep_first(loss_at(job, i, last - i), last - i, 0);
    job->out[block] = narrowed(vec_sum(sum));
  }
}

static void slopes_range(void *user, int64_t begin, int64_t end) {
  const loss_job *job = user;
  const loss_state *state = job->state;
  const bool each = state->reduction == TDM_REDUCTION_NONE;
  const real share = (real)(1.0 / state->divisor);
  for (int64_t i = begin; i < end; i += LANES) {
    const int64_t left = end - i;
    const vec from = each ? element_load(job->d_loss + i, left) : element_all(job->d_loss[0]);
    element_store(job->out + i, slope_at(job, i, left) * share * from, left);
  }
}

/* The sum of all losses, in block sums of out. */
static double sum_losses(const loss_job *job, tdm_team *team) {
  const int64_t count = job->state->count, blocks = ceil_div(count, SUM_BLOCK);
  if (job->state->kind == KIND_mse)
    return sum_of_squares(job->x, job->target, count, job->out, team);
  tdm_team_run(team, blocks, 1, blocks_range, (void *)job);
  double sum = 0;
  for (int64_t block = 0; block < blocks; block++)
    sum += (double)widened(job->out[block]);
  return sum;
}

static tdm_status execute_loss(const tdm_kernel_call *call) {
  const loss_state *state = call->state;
  const bool reduces = state->reduction != TDM_REDUCTION_NONE;
  loss_job job = {.state = state,
                  .x = call->inputs[0],
                  .target = call->inputs[1],
                  .weight = state->weights > 0 ? call->inputs[2] : NULL,
                  .pos_weight = state->pos_weights > 0 ? call->inputs[3] : NULL,
                  .out = reduces ? call->workspace : call->outputs[0]};
  tdm_team *team = state->splits ? call->team : NULL;
  if (!reduces) {
    tdm_team_run(team, state->count, 4096, losses_range, &job);
    return TDM_OK;
  }
  *(stored *)call->outputs[0] = narrowed((real)(sum_losses(&job, team) / state->divisor));
  return TDM_OK;
}

static tdm_status execute_gradient(const tdm_kernel_call *call) {
  const loss_state *state = call->state;
  loss_job job = {.state = state,
                  .x = call->inputs[1],
                  .target = call->inputs[2],
                  .weight = state->weights > 0 ? call->inputs[3] : NULL,
                  .pos_weight = state->pos_weights > 0 ? call->inputs[4] : NULL,
                  .d_loss = call->inputs[0],
                  .out = call->outputs[0]};
  tdm_team_run(state->splits ? call->team : NULL, state->count, 4096, slopes_range, &job);
  return TDM_OK;
}

#define PREPARE(name, operands, x, t, weights)                                                     \
  static tdm_status name##_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) { \
    return pointwise_losses_prepare(request, answer, 0, KIND_##name, weights);                     \
  }                                                                                                \
  static tdm_status name##_gradient_prepare(const tdm_kernel_request *request,                     \
                                            tdm_kernel_answer *answer) {                           \
    return pointwise_losses_prepare(request, answer, 1, KIND_##name, weights);                     \
  }
TDM_ELEMENT_LOSSES(PREPARE)

#define LISTED(name, ...)                                                                          \
  KERNEL(#name, name##_prepare, execute_loss),                                                     \
      KERNEL(#name "_gradient", name##_gradient_prepare, execute_gradient),
KERNELS(pointwise_losses, TDM_ELEMENT_LOSSES(LISTED))
