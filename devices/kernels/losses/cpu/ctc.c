/* The paths of the connectionist temporal classification (A. Graves et al., ICML 2006), in
 * logarithms: TDM_NO_PATH stands for that of 0, so that nothing is infinite. Invariant: a sequence
 * is one task, so that results do not depend on the team. */
#include "core/status.h"
#include "devices/kernels/cpu/vector_math.h"
#include "devices/kernels/kernel_state.h"
#include "devices/kernels/losses/ctc_sizes.h"
#include "devices/kernels/losses/losses.h"

#define NO_PATH ((real)TDM_NO_PATH)
/* A row in a workspace has room for two places before it, and for a vector after it. */
#define BEFORE 2
#define ROW(places) ((places) + BEFORE + 2 * LANES)

typedef struct ctc_state {
  ctc_sizes sizes;
  bool splits;
} ctc_state;

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                          int64_t rows, double ns) {
  ctc_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  ctc_sizes_read(&state->sizes, request);
  const ctc_sizes *sizes = &state->sizes;
  answer->workspace_bytes = (size_t)(sizes->batch * rows * ROW(sizes->places)) * sizeof(real);
  const double elements = (double)sizes->steps * (double)sizes->batch * (double)sizes->places;
  state->splits = answer->splits = tdm_cpu_splits(request, elements * ns);
  return TDM_OK;
}

/* The shares that three logarithms have in their sum. */
typedef struct shares {
  vec stays, moves, skips;
  vec sum; /* the logarithm */
} shares;

/* row: of the step before, at the place itself; bar: NO_PATH where no place may be skipped. */
ALWAYS_INLINE shares shares_at(const real *row, const stored *bar, int64_t left) {
  const vec none = vec_set(NO_PATH);
  const vec stay = vec_load(row), move = vec_load(row - 1);
  vec skip = vec_load(row - 2) + element_load(bar, left);
  skip = vec_select(skip < none, none, skip);
  vec most = vec_select(stay > move, stay, move);
  most = vec_select(skip > most, skip, most);
  shares made = {vec_exp(stay - most), vec_exp(move - most), vec_exp(skip - most), none};
  const vec total = made.stays + made.moves + made.skips;
  made.sum = most + vec_log(total);
  made.stays /= total;
  made.moves /= total;
  made.skips /= total;
  return made;
}

/* All of a row, which begins with its first place. */
static void fill_row(real *row, int64_t places, real value) {
  for (int64_t i = -BEFORE; i < ROW(places) - BEFORE; i++)
    row[i] = value;
}

/* Reads a row; places after it never hold a path. */
static void read_row(real *row, const stored *from, int64_t places) {
  for (int64_t i = 0; i < places; i += LANES) {
    const int64_t left = places - i;
    vec_store(row + i, vec_keep_first(element_load(from + i, left), left, NO_PATH));
  }
}

/* ---- Paths ----------------------------------------------------------------------------------- */

typedef struct paths_job {
  const ctc_sizes *sizes;
  const stored *emissions; /* (steps, batch, places) */
  const stored *bars;      /* (batch, places) */
  stored *paths;           /* (steps, batch, places) */
  real *rows;              /* (batch, ROW) */
} paths_job;

static void paths_range(void *user, int64_t begin, int64_t end) {
  const paths_job *job = user;
  const int64_t places = job->sizes->places, step = job->sizes->batch * places;
  const vec none = vec_set(NO_PATH);
  for (int64_t n = begin; n < end; n++) {
    const stored *emissions = job->emissions + n * places; /* (steps, batch, places) from here */
    const stored *bars = job->bars + n * places;           /* (places) */
    stored *paths = job->paths + n * places;
    real *row = job->rows + n * ROW(places) + BEFORE;
    fill_row(row, places, NO_PATH);
    row[-1] = 0; /* where all paths begin, so that the first step reaches the first two places */
    for (int64_t t = 0; t < job->sizes->steps; t++) {
      for (int64_t i = 0; i < places; i += LANES) {
        const vec sum = shares_at(row + i, bars + i, places - i).sum;
        vec path = element_load(emissions + t * step + i, places - i) + sum;
        path = vec_select(path < none, none, path);
        element_store(paths + t * step + i, path, places - i);
      }
      row[-1] = NO_PATH;
      read_row(row, paths + t * step, places);
    }
  }
}

static tdm_status paths_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare(request, answer, 1, 6);
}

static tdm_status paths_execute(const tdm_kernel_call *call) {
  const ctc_state *state = call->state;
  paths_job job = {.sizes = &state->sizes,
                   .emissions = call->inputs[0],
                   .bars = call->inputs[1],
                   .paths = call->outputs[0],
                   .rows = call->workspace};
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.batch, 1, paths_range, &job);
  return TDM_OK;
}

/* ---- Gradient -------------------------------------------------------------------------------- */

enum { PATHS, SLOPES, OF_MOVES, OF_SKIPS, ROWS };

typedef struct gradient_job {
  const ctc_sizes *sizes;
  const stored *d_paths; /* (steps, batch, places) */
  const stored *bars;    /* (batch, places) */
  const stored *paths;   /* (steps, batch, places) */
  stored *d_emissions;   /* (steps, batch, places) */
  real *rows;            /* (batch, ROWS, ROW) */
} gradient_job;

/* Distributes the slopes of the next step to the places that its paths came from. */
static void deal_out(real *const rows[ROWS], const stored *bars, int64_t places) {
  for (int64_t i = 0; i < places; i += LANES) {
    const shares made = shares_at(rows[PATHS] + i, bars + i, places - i);
    const vec slope = vec_load(rows[SLOPES] + i);
    vec_store(rows[SLOPES] + i, made.stays * slope);
    vec_store(rows[OF_MOVES] + i, made.moves * slope);
    vec_store(rows[OF_SKIPS] + i, made.skips * slope);
  }
}

static void gradient_of_sequence(const gradient_job *job, int64_t n) {
  const int64_t places = job->sizes->places, step = job->sizes->batch * places;
  const stored *bars = job->bars + n * places; /* (places) */
  real *rows[ROWS];
  for (int i = 0; i < ROWS; i++) {
    rows[i] = job->rows + (n * ROWS + i) * ROW(places) + BEFORE;
    fill_row(rows[i], places, i == PATHS ? NO_PATH : 0);
  }
  for (int64_t t = job->sizes->steps - 1; t >= 0; t--) {
    const int64_t at = t * step + n * places;
    read_row(rows[PATHS], job->paths + at, places);
    deal_out(rows, bars, places); /* of zeros at the last step */
    for (int64_t i = 0; i < places; i += LANES) {
      vec slope = element_load(job->d_paths + at + i, places - i);
      slope += vec_load(rows[SLOPES] + i);
      slope += vec_load(rows[OF_MOVES] + i + 1) + vec_load(rows[OF_SKIPS] + i + 2);
      slope = vec_select(vec_load(rows[PATHS] + i) <= vec_set(NO_PATH), (vec){0}, slope);
      vec_store(rows[SLOPES] + i, slope);
      element_store(job->d_emissions + at + i, slope, places - i);
    }
  }
}

static void gradient_range(void *user, int64_t begin, int64_t end) {
  for (int64_t n = begin; n < end; n++)
    gradient_of_sequence(user, n);
}

static tdm_status gradient_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare(request, answer, ROWS, 8);
}

static tdm_status gradient_execute(const tdm_kernel_call *call) {
  const ctc_state *state = call->state;
  gradient_job job = {.sizes = &state->sizes,
                      .d_paths = call->inputs[0],
                      .bars = call->inputs[1],
                      .paths = call->inputs[2],
                      .d_emissions = call->outputs[0],
                      .rows = call->workspace};
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.batch, 1, gradient_range, &job);
  return TDM_OK;
}

KERNELS(ctc, KERNEL(TDM_OP_CTC_PATHS, paths_prepare, paths_execute),
        KERNEL(TDM_OP_CTC_PATHS_GRADIENT, gradient_prepare, gradient_execute))
