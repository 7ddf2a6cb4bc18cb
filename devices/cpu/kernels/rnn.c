/* One layer of an Elman RNN over a sequence. A task takes a fixed block of the batch through all
 * its steps, so there is no barrier between steps. Invariant: a row of the batch depends on its own
 * row alone, whatever the block and the team. */
#include "devices/cpu/kernels/rnn.h"

#include "core/status.h"
#include "devices/cpu/kernels/vector_math.h"

static void activate(int32_t nonlinearity, real *values, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES) {
    const vec x = vec_load_first(values + i, count - i);
    const vec y =
        nonlinearity == TDM_RNN_RELU ? vec_select(x < (vec){0}, (vec){0}, x) : vec_tanh(x);
    vec_store_first(values + i, y, count - i);
  }
}

typedef struct rnn_job {
  const rnn_state *state;
  const real *x;  /* (length, batch, in) */
  const real *h0; /* (batch, hidden) or NULL */
  real *y;        /* (length, batch, hidden) */
  real *bias;     /* (hidden): the sum of both */
  packed_matrix weight_ih;
  packed_matrix weight_hh;
} rnn_job;

/* y_t of the rows [row, row + count) of the batch. */
static void step(const rnn_job *job, int64_t t, int64_t row, int64_t count) {
  const rnn_state *state = job->state;
  const int64_t in = state->in, hidden = state->hidden;
  const int64_t place = t * state->batch + row;
  real *y = job->y + place * hidden; /* (count, hidden) */
  product_packed(count, job->weight_ih, 0, hidden, job->x + place * in, in, job->bias, PRODUCT_SET,
                 y, hidden);
  const real *before = t > 0             ? y - state->batch * hidden
                       : job->h0 != NULL ? job->h0 + row * hidden
                                         : NULL;
  if (before != NULL) {
    product_packed(count, job->weight_hh, 0, hidden, before, hidden, NULL, PRODUCT_ADD, y, hidden);
  }
  activate(state->nonlinearity, y, count * hidden);
}

static void batch_tasks(void *user, int64_t begin, int64_t end) {
  const rnn_job *job = user;
  for (int64_t task = begin; task < end; task++) {
    const int64_t row = task * RNN_ROWS_PER_TASK;
    const int64_t count = tdm_cpu_min(job->state->batch - row, RNN_ROWS_PER_TASK);
    for (int64_t t = 0; t < job->state->length; t++)
      step(job, t, row, count);
  }
}

tdm_status TDM_NAME(tdm_rnn_prepare)(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  rnn_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  rnn_state_init(state, request, &request->inputs[0], &request->outputs[0]);
  state->splits = answer->splits = tdm_cpu_splits(request, rnn_operations(state) / 30.0);
  answer->workspace_bytes = product_packed_bytes(state->in, state->hidden) +
                            product_packed_bytes(state->hidden, state->hidden) +
                            tdm_cpu_aligned((size_t)state->hidden * sizeof(real));
  return TDM_OK;
}

tdm_status TDM_NAME(tdm_rnn_execute)(const tdm_kernel_call *call) {
  const rnn_state *state = call->state;
  const int64_t in = state->in, hidden = state->hidden;
  char *workspace = call->workspace;
  rnn_job job = {.state = state,
                 .x = call->inputs[0],
                 .h0 = call->inputs[1],
                 .y = call->outputs[0],
                 .weight_ih = {(real *)workspace, in, hidden}};
  workspace += product_packed_bytes(in, hidden);
  job.weight_hh = (packed_matrix){(real *)workspace, hidden, hidden};
  job.bias = (real *)(workspace + product_packed_bytes(hidden, hidden));

  tdm_team *team = state->splits ? call->team : NULL;
  rnn_pack(job.weight_ih, (matrix){call->inputs[2], in, true}, team);
  rnn_pack(job.weight_hh, (matrix){call->inputs[3], hidden, true}, team);
  row_copy(job.bias, call->inputs[4], hidden);
  row_add(job.bias, call->inputs[5], hidden);
  tdm_team_run(team, tdm_cpu_chunks(state->batch, RNN_ROWS_PER_TASK), 1, batch_tasks, &job);
  return TDM_OK;
}
