/* The gradient of the Elman RNN: back through time in blocks of the batch, as in rnn.c, which
 * leaves the gradients before the activation (d_a) of all steps; then the weights' gradients over
 * the whole sequence at once, in blocks of their rows. */
#include "core/status.h"
#include "devices/cpu/kernels/rnn.h"
#include "devices/cpu/kernels/vector.h"

typedef struct gradient_job {
  const rnn_state *state;
  const real *d_y;   /* (length, batch, hidden) */
  const real *x;     /* (length, batch, in) */
  const real *y;     /* (length, batch, hidden) */
  const real *h0;    /* (batch, hidden) or NULL */
  real *d_x;         /* (length, batch, in) */
  real *d_h0;        /* (batch, hidden) */
  real *d_weight_ih; /* (hidden, in) */
  real *d_weight_hh; /* (hidden, hidden) */
  real *d_bias;      /* (hidden) */
  real *d_a;         /* (length, batch, hidden): before the activation */
  packed_matrix weight_ih;
  packed_matrix weight_hh;
} gradient_job;

/* values *= act'(y), which tanh and relu give in terms of y. */
static void differentiate(int32_t nonlinearity, const real *y, real *values, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES) {
    const int64_t left = count - i;
    const vec out = vec_load_first(y + i, left), d = vec_load_first(values + i, left);
    const vec result = nonlinearity == TDM_RNN_RELU ? vec_select(out > (vec){0}, d, (vec){0})
                                                    : d * (1 - out * out);
    vec_store_first(values + i, result, left);
  }
}

static void batch_tasks(void *user, int64_t begin, int64_t end) {
  const gradient_job *job = user;
  const rnn_state *state = job->state;
  const int64_t in = state->in, hidden = state->hidden, batch = state->batch;
  for (int64_t task = begin; task < end; task++) {
    const int64_t row = task * RNN_ROWS_PER_TASK;
    const int64_t count = tdm_cpu_min(batch - row, RNN_ROWS_PER_TASK);
    for (int64_t t = state->length - 1; t >= 0; t--) {
      const int64_t place = t * batch + row;
      real *d_a = job->d_a + place * hidden; /* (count, hidden) */
      row_copy(d_a, job->d_y + place * hidden, count * hidden);
      if (t + 1 < state->length) {
        product_packed(count, job->weight_hh, 0, hidden, d_a + batch * hidden, hidden, NULL,
                       PRODUCT_ADD, d_a, hidden);
      }
      differentiate(state->nonlinearity, job->y + place * hidden, d_a, count * hidden);
      product_packed(count, job->weight_ih, 0, in, d_a, hidden, NULL, PRODUCT_SET,
                     job->d_x + place * in, in);
    }
    real *d_h0 = job->d_h0 + row * hidden;
    if (state->length > 0) {
      product_packed(count, job->weight_hh, 0, hidden, job->d_a + row * hidden, hidden, NULL,
                     PRODUCT_SET, d_h0, hidden);
    } else {
      row_zero(d_h0, count * hidden);
    }
  }
}

/* Rows of both weights' gradients, and of the bias's. */
static void weight_tasks(void *user, int64_t begin, int64_t end) {
  const gradient_job *job = user;
  const rnn_state *state = job->state;
  const int64_t in = state->in, hidden = state->hidden, batch = state->batch;
  const int64_t all = state->length * batch;
  for (int64_t task = begin; task < end; task++) {
    const int64_t first = task * state->rows_per_task;
    const int64_t count = tdm_cpu_min(hidden - first, state->rows_per_task);
    const real *d_a = job->d_a + first; /* (length, batch, count of hidden) */
    product_of_transposed(count, in, all, d_a, hidden, job->x, in, PRODUCT_SET,
                          job->d_weight_ih + first * in, in);
    real *d_hh = job->d_weight_hh + first * hidden;
    const int64_t initial = job->h0 != NULL ? tdm_cpu_min(batch, all) : 0; /* rows of h0 */
    product_of_transposed(count, hidden, initial, d_a, hidden, initial > 0 ? job->h0 : job->y,
                          hidden, PRODUCT_SET, d_hh, hidden);
    if (state->length > 1) {
      product_of_transposed(count, hidden, all - batch, d_a + batch * hidden, hidden, job->y,
                            hidden, PRODUCT_ADD, d_hh, hidden);
    }
    column_sums(all, count, d_a, hidden, job->d_bias + first);
  }
}

tdm_status TDM_NAME(tdm_rnn_gradient_prepare)(const tdm_kernel_request *request,
                                              tdm_kernel_answer *answer) {
  rnn_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  rnn_state_init(state, request, &request->inputs[1], &request->inputs[2]);
  state->splits = answer->splits = tdm_cpu_splits(request, rnn_operations(state) / 15.0);
  answer->workspace_bytes = product_packed_bytes(state->hidden, state->in) +
                            product_packed_bytes(state->hidden, state->hidden) +
                            (size_t)(state->length * state->batch * state->hidden) * sizeof(real);
  return TDM_OK;
}

tdm_status TDM_NAME(tdm_rnn_gradient_execute)(const tdm_kernel_call *call) {
  const rnn_state *state = call->state;
  const int64_t in = state->in, hidden = state->hidden;
  char *workspace = call->workspace;
  gradient_job job = {.state = state,
                      .d_y = call->inputs[0],
                      .x = call->inputs[1],
                      .y = call->inputs[2],
                      .h0 = call->inputs[3],
                      .d_x = call->outputs[0],
                      .d_h0 = call->outputs[1],
                      .d_weight_ih = call->outputs[2],
                      .d_weight_hh = call->outputs[3],
                      .d_bias = call->outputs[4],
                      .weight_ih = {(real *)workspace, hidden, in}};
  workspace += product_packed_bytes(hidden, in);
  job.weight_hh = (packed_matrix){(real *)workspace, hidden, hidden};
  job.d_a = (real *)(workspace + product_packed_bytes(hidden, hidden));

  tdm_team *team = state->splits ? call->team : NULL;
  rnn_pack(job.weight_ih, (matrix){call->inputs[4], in, false}, team);
  rnn_pack(job.weight_hh, (matrix){call->inputs[5], hidden, false}, team);
  tdm_team_run(team, tdm_cpu_chunks(state->batch, RNN_ROWS_PER_TASK), 1, batch_tasks, &job);
  tdm_team_run(team, tdm_cpu_chunks(hidden, state->rows_per_task), 1, weight_tasks, &job);
  return TDM_OK;
}
