/* The convolution of one tap and the gradient of its x, as products (one_tap.h). Invariant: results
 * do not depend on how work is divided. */
#include "devices/kernels/convolution/cpu/convolution.h"
#include "devices/kernels/convolution/cpu/one_tap.h"

static void convolution_one_tap_prepare_state(const tdm_kernel_request *request,
                                              tdm_kernel_answer *answer, convolution_state *state,
                                              int64_t in, int64_t out) {
  state->one_tap = (one_tap_plan){.in = in, .out = out, .pixels = state->pixels};
  one_tap_plan_finish(&state->one_tap);
  convolution_share_items(state, answer,
                          state->sizes.images * state->sizes.groups * state->one_tap.blocks,
                          convolution_wanted_tasks(state, request),
                          (size_t)state->sizes.groups * one_tap_weight_bytes(&state->one_tap),
                          one_tap_panel_bytes(&state->one_tap));
}

void convolution_one_tap_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                 convolution_state *state) {
  convolution_one_tap_prepare_state(request, answer, state, state->sizes.in, state->sizes.out);
}

void convolution_one_tap_back_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                      convolution_state *state) {
  convolution_one_tap_prepare_state(request, answer, state, state->sizes.out, state->sizes.in);
}

typedef struct one_tap_job {
  const tdm_kernel_call *call;
  const real *x;    /* (images, groups, in, pixels) */
  const real *bias; /* (groups, out) or NULL */
  real *y;          /* (images, groups, out, pixels) */
} one_tap_job;

static real *packed_of(const tdm_kernel_call *call, int64_t group) {
  const convolution_state *state = call->state;
  return (real *)((char *)call->workspace + (size_t)group * one_tap_weight_bytes(&state->one_tap));
}

/* Computes one item: (image, group, block). */
static void multiply_block(const void *user, int64_t item, char *panels) {
  const one_tap_job *job = user;
  const convolution_state *state = job->call->state;
  const one_tap_plan *plan = &state->one_tap;
  const int64_t pair = item / plan->blocks, group = pair % state->sizes.groups;
  one_tap_block(plan, packed_of(job->call, group), job->bias ? job->bias + group * plan->out : NULL,
                job->x + pair * plan->in * plan->pixels, item % plan->blocks, (real *)panels,
                job->y + pair * plan->out * plan->pixels);
}

static void convolution_one_tap_run(one_tap_job *job, int64_t out_step, int64_t in_step) {
  const convolution_state *state = job->call->state;
  const real *weight = job->call->inputs[1]; /* (groups, out, in) of the convolution */
  for (int64_t group = 0; group < state->sizes.groups; group++)
    one_tap_weight(&state->one_tap, weight + group * state->sizes.out * state->sizes.in, out_step,
                   in_step, packed_of(job->call, group));
  convolution_run_items(job->call, multiply_block, job);
}

void convolution_one_tap_execute(const tdm_kernel_call *call) {
  const convolution_state *state = call->state;
  one_tap_job job = {call, call->inputs[0], call->inputs[2], call->outputs[0]};
  convolution_one_tap_run(&job, state->sizes.in, 1);
}

void convolution_one_tap_back_execute(const tdm_kernel_call *call) {
  const convolution_state *state = call->state;
  one_tap_job job = {call, call->inputs[0], NULL, call->outputs[0]};
  convolution_one_tap_run(&job, 1, state->sizes.in);
}
