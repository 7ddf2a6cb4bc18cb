/* The convolution and its gradients where windows slide (slide.h). Invariant: as in convolution.c
 * and convolution_gradient.c, results depend neither on the team nor, except for sums over images,
 * on the other images. */
#include "core/status.h"
#include "devices/kernels/convolution/cpu/convolution.h"
#include "devices/kernels/cpu/vector.h"

#define BLOCK_BYTES                                                                                \
  (192 * 1024)        /* of padded bands that the weight's gradient looks at together              \
                       */
#define MOST_BANDS 16 /* maximum number of these bands */

static slide_plan plan_of(const convolution_state *state) {
  slide_plan plan = {.in = state->sizes.in, .out = state->sizes.out};
  for (int axis = 0; axis < 2; axis++) {
    plan.size[axis] = state->sizes.size[axis];
    plan.out_size[axis] = state->sizes.out_size[axis];
    plan.kernel[axis] = state->sizes.kernel[axis];
    plan.dilation[axis] = state->sizes.dilation[axis];
    plan.padding[axis] = state->sizes.padding[axis];
  }
  return plan;
}

/* ---- Of x, and of d_y with the weight turned round ------------------------------------------- */

static void prepare_windows(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                            convolution_state *state) {
  slide_plan_finish(&state->slide);
  convolution_share_items(state, answer,
                          state->sizes.images * state->sizes.groups * state->slide.bands,
                          convolution_wanted_tasks(state, request),
                          (size_t)state->sizes.groups * slide_weight_bytes(&state->slide),
                          slide_padded_bytes(&state->slide) + slide_scratch_bytes(&state->slide));
}

void convolution_slide_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                               convolution_state *state) {
  state->slide = plan_of(state);
  prepare_windows(request, answer, state);
}

void convolution_slide_back_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                    convolution_state *state) {
  slide_plan plan = plan_of(state);
  plan.in = state->sizes.out;
  plan.out = state->sizes.in;
  for (int axis = 0; axis < 2; axis++) {
    plan.size[axis] = state->sizes.out_size[axis];
    plan.out_size[axis] = state->sizes.size[axis];
    plan.padding[axis] = (plan.kernel[axis] - 1) * plan.dilation[axis] - plan.padding[axis];
  }
  state->slide = plan;
  prepare_windows(request, answer, state);
}

typedef struct windows_job {
  const tdm_kernel_call *call;
  const real *x;    /* (images, groups, in, h, w) */
  const real *bias; /* (groups, out) or NULL */
  real *y;          /* (images, groups, out, h', w') */
} windows_job;

/* Computes one item: (image, group, band). */
static void slide_item(const void *user, int64_t item, char *memory) {
  const windows_job *job = user;
  const convolution_state *state = job->call->state;
  const slide_plan *plan = &state->slide;
  const int64_t band = item % plan->bands, pair = item / plan->bands;
  const int64_t group = pair % state->sizes.groups;
  const char *weight =
      (const char *)job->call->workspace + (size_t)group * slide_weight_bytes(plan);
  real *padded = (real *)memory, *scratch = (real *)(memory + slide_padded_bytes(plan));
  slide_pad(plan, job->x + pair * plan->in * plan->size[0] * plan->size[1], band, padded);
  slide_band(plan, (const real *)weight, job->bias ? job->bias + group * plan->out : NULL, padded,
             band, scratch, job->y + pair * plan->out * plan->out_size[0] * plan->out_size[1]);
}

static void run_windows(windows_job *job, const real *weight, int64_t out_step, int64_t in_step,
                        bool reversed) {
  const convolution_state *state = job->call->state;
  const size_t weight_bytes = slide_weight_bytes(&state->slide);
  for (int64_t group = 0; group < state->sizes.groups; group++) {
    slide_weight(&state->slide, weight + group * state->sizes.out * state->k, out_step, in_step,
                 reversed, (real *)((char *)job->call->workspace + (size_t)group * weight_bytes));
  }
  convolution_run_items(job->call, slide_item, job);
}

void convolution_slide_execute(const tdm_kernel_call *call) {
  const convolution_state *state = call->state;
  windows_job job = {call, call->inputs[0], call->inputs[2], call->outputs[0]};
  run_windows(&job, call->inputs[1], state->k, state->sizes.kernel[0] * state->sizes.kernel[1],
              false);
}

void convolution_slide_back_execute(const tdm_kernel_call *call) {
  const convolution_state *state = call->state;
  windows_job job = {call, call->inputs[0], NULL, call->outputs[0]};
  run_windows(&job, call->inputs[1], state->sizes.kernel[0] * state->sizes.kernel[1], state->k,
              true);
}

/* ---- Gradient of the weight ------------------------------------------------------------------ */

size_t convolution_slide_parameter_bytes(convolution_state *state) {
  state->slide = plan_of(state);
  slide_plan_finish(&state->slide);
  const int64_t padded_bytes = (int64_t)slide_padded_bytes(&state->slide);
  const int64_t fit = lesser_of(BLOCK_BYTES / padded_bytes, MOST_BANDS);
  state->block_bands = fit > 1 ? fit : 1;
  return (size_t)(state->block_bands * padded_bytes);
}

void convolution_slide_parameter(const convolution_state *state, const real *d_y, const real *x,
                                 int64_t image_count, char *memory, real *d_weight) {
  const slide_plan *plan = &state->slide;
  const int64_t x_step = plan->in * plan->size[0] * plan->size[1];
  const int64_t y_step = plan->out * plan->out_size[0] * plan->out_size[1];
  const int64_t items = image_count * plan->bands;
  const real *d_y_rows[MOST_BANDS];
  int64_t row_counts[MOST_BANDS];
  for (int64_t first = 0; first < items; first += state->block_bands) {
    const int64_t count = lesser_of(items - first, state->block_bands);
    for (int64_t i = 0; i < count; i++) {
      const int64_t image = (first + i) / plan->bands * state->sizes.groups;
      const int64_t band = (first + i) % plan->bands;
      slide_pad(plan, x + image * x_step, band,
                (real *)(memory + (size_t)i * slide_padded_bytes(plan)));
      d_y_rows[i] = d_y + image * y_step + band * plan->rows * plan->out_size[1];
      row_counts[i] = slide_row_count(plan, band);
    }
    const slide_bands bands = {(const real *)memory, d_y_rows, row_counts, count};
    slide_weight_gradient(plan, &bands, d_weight);
  }
}
