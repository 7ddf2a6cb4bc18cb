/* The convolution of one tap and the gradient of its x, as products (pointwise.h). Invariant: how
 * work is shared out decides no result. */
#include "devices/cpu/kernels/convolution.h"
#include "devices/cpu/kernels/pointwise.h"

static void prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                    convolution_state *state, int64_t in, int64_t out) {
  state->pointwise = (pointwise_plan){.in = in, .out = out, .pixels = state->pixels};
  pointwise_plan_finish(&state->pointwise);
  const int64_t items = state->images * state->groups * state->pointwise.blocks;
  const int64_t wanted = state->splits ? 4 * (int64_t)request->team_size : 1;
  state->slots = lesser_of(items, wanted);
  state->slot_bytes = (int64_t)pointwise_panel_bytes(&state->pointwise);
  answer->workspace_bytes = (size_t)state->groups * pointwise_weight_bytes(&state->pointwise) +
                            (size_t)(state->slots * state->slot_bytes);
}

void convolution_pointwise_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                   convolution_state *state) {
  prepare(request, answer, state, state->in, state->out);
}

void convolution_pointwise_back_prepare(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer, convolution_state *state) {
  prepare(request, answer, state, state->out, state->in);
}

typedef struct pointwise_job {
  const tdm_kernel_call *call;
  const real *x;    /* (images, groups, in, pixels) */
  const real *bias; /* (groups, out) or NULL */
  real *y;          /* (images, groups, out, pixels) */
} pointwise_job;

static real *packed_of(const tdm_kernel_call *call, int64_t group) {
  const convolution_state *state = call->state;
  return (real *)((char *)call->workspace +
                  (size_t)group * pointwise_weight_bytes(&state->pointwise));
}

/* Items: (image, group, block). */
static void slots_range(void *user, int64_t begin, int64_t end) {
  const pointwise_job *job = user;
  const convolution_state *state = job->call->state;
  const pointwise_plan *plan = &state->pointwise;
  const int64_t items = state->images * state->groups * plan->blocks;
  char *slots = (char *)packed_of(job->call, state->groups);
  for (int64_t slot = begin; slot < end; slot++) {
    real *panels = (real *)(slots + slot * state->slot_bytes);
    int64_t last;
    for (int64_t item = slot_items(state, slot, items, &last); item < last; item++) {
      const int64_t pair = item / plan->blocks, group = pair % state->groups;
      pointwise_block(plan, packed_of(job->call, group),
                      job->bias ? job->bias + group * plan->out : NULL,
                      job->x + pair * plan->in * plan->pixels, item % plan->blocks, panels,
                      job->y + pair * plan->out * plan->pixels);
    }
  }
}

static void run(pointwise_job *job, int64_t out_step, int64_t in_step) {
  const convolution_state *state = job->call->state;
  const real *weight = job->call->inputs[1]; /* (groups, out, in) of the convolution */
  for (int64_t group = 0; group < state->groups; group++)
    pointwise_weight(&state->pointwise, weight + group * state->out * state->in, out_step, in_step,
                     packed_of(job->call, group));
  tdm_team_run(state->splits ? job->call->team : NULL, state->slots, 1, slots_range, job);
}

void convolution_pointwise_execute(const tdm_kernel_call *call) {
  const convolution_state *state = call->state;
  pointwise_job job = {call, call->inputs[0], call->inputs[2], call->outputs[0]};
  run(&job, state->in, 1);
}

void convolution_pointwise_back_execute(const tdm_kernel_call *call) {
  const convolution_state *state = call->state;
  pointwise_job job = {call, call->inputs[0], NULL, call->outputs[0]};
  run(&job, 1, state->in);
}
