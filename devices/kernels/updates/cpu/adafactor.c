/* Adafactor as torch.optim.Adafactor does it (its single-tensor form): of a matrix only the means
 * of squares of rows and columns are kept. N. Shazeer, M. Stern, "Adafactor: adaptive learning
 * rates with sublinear memory cost", ICML 2018. Invariant: sums are made row by row, or piece by
 * piece, and added in their order, so that results do not depend on the team. */
#include <math.h>

#include "core/status.h"
#include "devices/kernels/cpu/sums.h"
#include "devices/kernels/cpu/vector_math.h"
#include "devices/kernels/updates/optimizers.h"
#include "devices/kernels/updates/update_sizes.h"

enum { COLUMNS = 256 }; /* of a block, for which all rows are added at once */

typedef struct adafactor_state {
  adafactor_sizes sizes;
  bool splits;
} adafactor_state;

typedef struct adafactor_job {
  const adafactor_sizes *sizes;
  const stored *gradient; /* (count), or (batches, height, length) */
  stored *parameter;      /* likewise */
  stored *of_rows;        /* row_var (batches, height); or variance (count) */
  stored *of_columns;     /* col_var (batches, length); NULL where nothing is factored */
  double *norms;          /* (rows): of the parameter, then of the update; squared */
  real *means;            /* (batches): of row_var */
  real fresh;             /* how much of a mean is this step's */
  real least_mean;        /* of row_var */
  real least;             /* of what an element is divided by, squared */
  real shrink;            /* the parameter is multiplied by it first */
  real rate;
} adafactor_job;

static int64_t length_of_row(const adafactor_sizes *sizes, int64_t row) {
  return lesser_of(sizes->length, sizes->count - row * sizes->length);
}

/* Squares of the rows: of the parameter, and of the gradient, which the states take up. */
static void rows_begin(void *user, int64_t begin, int64_t end) {
  const adafactor_job *job = user;
  for (int64_t row = begin; row < end; row++) {
    const int64_t first = row * job->sizes->length, length = length_of_row(job->sizes, row);
    const stored *gradient = job->gradient + first;
    job->norms[row] = block_sum_of_squares(job->parameter + first, NULL, length);
    if (job->of_columns) {
      const real mean = (real)(block_sum_of_squares(gradient, NULL, length) / (double)length);
      const real before = widened(job->of_rows[row]);
      job->of_rows[row] = narrowed(before + job->fresh * (mean - before));
      continue;
    }
    stored *variance = job->of_rows + first;
    for (int64_t i = 0; i < length; i += LANES) {
      const vec g = element_load(gradient + i, length - i);
      const vec before = element_load(variance + i, length - i);
      element_store(variance + i, before + job->fresh * (g * g - before), length - i);
    }
  }
}

/* Squares of the columns, in blocks of them. */
static void columns_begin(void *user, int64_t begin, int64_t end) {
  const adafactor_job *job = user;
  const int64_t length = job->sizes->length, height = job->sizes->height;
  const int64_t blocks = ceil_div(length, COLUMNS);
  for (int64_t block = begin; block < end; block++) {
    const int64_t batch = block / blocks, first = block % blocks * COLUMNS;
    const int64_t last = lesser_of(first + COLUMNS, length);
    const stored *gradient = job->gradient + batch * height * length; /* (height, length) */
    stored *columns = job->of_columns + batch * length;               /* (length) */
    for (int64_t j = first; j < last; j += LANES) {
      vec sum = {0};
      for (int64_t i = 0; i < height; i++) {
        const vec g = element_load(gradient + i * length + j, last - j);
        sum += g * g;
      }
      const vec before = element_load(columns + j, last - j);
      const vec mean = sum / (real)height;
      element_store(columns + j, before + job->fresh * (mean - before), last - j);
    }
  }
}

static void find_means(const adafactor_job *job) {
  const int64_t height = job->sizes->height;
  for (int64_t batch = 0; batch < job->sizes->batches; batch++) {
    double sum = 0;
    for (int64_t i = 0; i < height; i++)
      sum += (double)widened(job->of_rows[batch * height + i]);
    job->means[batch] = (real)(sum / (double)height);
  }
}

/* The states of a row, factored or not. */
typedef struct row_states {
  const stored *variance; /* (length), or NULL */
  const stored *columns;  /* (length) */
  real row;
  real mean;
} row_states;

static row_states states_of(const adafactor_job *job, int64_t row) {
  if (!job->of_columns) return (row_states){.variance = job->of_rows + row * job->sizes->length};
  const int64_t batch = row / job->sizes->height;
  const real mean = job->means[batch];
  return (row_states){.columns = job->of_columns + batch * job->sizes->length,
                      .row = widened(job->of_rows[row]),
                      .mean = mean < job->least_mean ? job->least_mean : mean};
}

ALWAYS_INLINE vec update_at(const adafactor_job *job, const row_states *states,
                            const stored *gradient, int64_t i, int64_t left) {
  vec v;
  if (states->variance)
    v = element_load(states->variance + i, left);
  else
    v = element_load(states->columns + i, left) * states->row / states->mean;
  v = vec_select(v < vec_set(job->least), vec_set(job->least), v);
  return element_load(gradient + i, left) / vec_sqrt(v);
}

static void rows_measure(void *user, int64_t begin, int64_t end) {
  const adafactor_job *job = user;
  for (int64_t row = begin; row < end; row++) {
    const row_states states = states_of(job, row);
    const int64_t length = length_of_row(job->sizes, row);
    const stored *gradient = job->gradient + row * job->sizes->length;
    vec sum = {0};
    for (int64_t i = 0; i < length; i += LANES) {
      const vec u = vec_keep_first(update_at(job, &states, gradient, i, length - i), length - i, 0);
      sum += u * u;
    }
    job->norms[row] = (double)vec_sum(sum);
  }
}

static void rows_end(void *user, int64_t begin, int64_t end) {
  const adafactor_job *job = user;
  for (int64_t row = begin; row < end; row++) {
    const row_states states = states_of(job, row);
    const int64_t length = length_of_row(job->sizes, row);
    const stored *gradient = job->gradient + row * job->sizes->length;
    stored *parameter = job->parameter + row * job->sizes->length;
    for (int64_t i = 0; i < length; i += LANES) {
      const vec u = update_at(job, &states, gradient, i, length - i);
      const vec p = element_load(parameter + i, length - i) * job->shrink;
      element_store(parameter + i, p - job->rate * u, length - i);
    }
  }
}

/* The root of the mean of all squares that the rows have. */
static double root_mean_square(const adafactor_job *job) {
  double sum = 0;
  for (int64_t row = 0; row < job->sizes->rows; row++)
    sum += job->norms[row];
  return sqrt(sum) / sqrt((double)job->sizes->count);
}

static tdm_status adafactor_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  adafactor_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  adafactor_sizes_read(&state->sizes, request);
  answer->workspace_bytes = (size_t)(state->sizes.rows + state->sizes.batches) * sizeof(double);
  const double bytes = (double)state->sizes.count * sizeof(real);
  state->splits = answer->splits = tdm_cpu_splits(request, bytes / 2.0);
  return TDM_OK;
}

static tdm_status adafactor_execute(const tdm_kernel_call *call) {
  const adafactor_state *state = call->state;
  const adafactor_sizes *sizes = &state->sizes;
  const tdm_adafactor_attributes *attributes = call->attributes;
  const double rate = call->scalars->learning_rate;
  stored *step = call->outputs[sizes->factored ? 3 : 2]; /* () */
  stored_add(step, 1);
  const double steps = (double)widened(*step);
  if (sizes->count == 0) return TDM_OK;
  tdm_team *team = state->splits ? call->team : NULL;
  double *workspace = call->workspace;
  adafactor_job job = {
      .sizes = sizes,
      .gradient = call->inputs[1],
      .parameter = call->outputs[0],
      .of_rows = call->outputs[1],
      .of_columns = sizes->factored ? call->outputs[2] : NULL,
      .norms = workspace,
      .means = (real *)(workspace + sizes->rows),
      .fresh = (real)pow(steps, attributes->beta2_decay),
      .least_mean = (real)attributes->epsilon1,
      .least = (real)(attributes->epsilon1 * attributes->epsilon1),
      .shrink = (real)(1.0 - rate * attributes->weight_decay),
  };
  const int64_t grain = sizes->length < 4096 ? 4096 / sizes->length : 1;
  tdm_team_run(team, sizes->rows, grain, rows_begin, &job);
  const double size = fmax(attributes->epsilon2, root_mean_square(&job));
  if (sizes->factored) {
    tdm_team_run(team, sizes->batches * ceil_div(sizes->length, COLUMNS), 1, columns_begin, &job);
    find_means(&job);
  }
  tdm_team_run(team, sizes->rows, grain, rows_measure, &job);
  const double too_large = fmax(1.0, root_mean_square(&job) / attributes->d);
  job.rate = (real)(size * fmin(rate, 1.0 / sqrt(steps)) / too_large);
  tdm_team_run(team, sizes->rows, grain, rows_end, &job);
  return TDM_OK;
}

KERNELS(adafactor, KERNEL(TDM_OP_ADAFACTOR, adafactor_prepare, adafactor_execute))
