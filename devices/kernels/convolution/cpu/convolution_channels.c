/* The convolution and its gradients with channels in lanes (channels.h). Invariant: results do not
 * depend on how work is divided. */
#include "core/status.h"
#include "devices/kernels/convolution/cpu/channels.h"
#include "devices/kernels/convolution/cpu/convolution.h"

/* A part of the weight's gradient: */
#define MANY_COLUMNS 128            /* columns; enough to outweigh the cost of transposing d_y */
#define FEWEST_COLUMNS 28           /* columns; the least if threads would be idle otherwise */
#define PADDED_BYTES (192 * 1024)   /* padded bands of x that images processed together may fill */
#define SUMS_BYTES (128 * 1024)     /* bytes of sums for one tile of written channels */
#define ALL_SUMS_BYTES (384 * 1024) /* bytes of sums for all tiles of the part */

/* ---- Of x, and of d_y ------------------------------------------------------------------------ */

/* Items: (images that go together, group, band, part of the tiles). Few items are made more by
 * parts, each of which pads its band. */
static int64_t item_count(const convolution_state *state) {
  return ceil_div(state->sizes.images, state->item_images) * state->sizes.groups *
         state->channels.bands * state->tile_parts;
}

static void prepare_windows(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                            convolution_state *state) {
  const channel_plan *plan = &state->channels;
  const int64_t wanted = convolution_wanted_tasks(state, request);
  const int64_t padded_bytes = (int64_t)channel_padded_bytes(plan, plan->in);
  state->item_images = 1;
  state->tile_parts = 1;
  while (plan->bands == 1 && state->item_images < state->sizes.images &&
         2 * state->item_images * padded_bytes <= PADDED_BYTES)
    state->item_images *= 2;
  const int64_t items = item_count(state);
  if (items > 0 && items < wanted)
    state->tile_parts = lesser_of(channel_tiles(plan), ceil_div(wanted, items));
  while (state->item_images > 1 && item_count(state) < wanted)
    state->item_images /= 2;
  convolution_share_items(state, answer, item_count(state), wanted,
                          (size_t)state->sizes.groups * channel_weight_bytes(plan),
                          (size_t)(state->item_images * padded_bytes));
}

void convolution_channels_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                  convolution_state *state) {
  channel_plan_forward(&state->channels, &state->sizes);
  prepare_windows(request, answer, state);
}

void convolution_channels_back_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                       convolution_state *state) {
  channel_plan_back(&state->channels, &state->sizes);
  prepare_windows(request, answer, state);
}

typedef struct windows_job {
  const tdm_kernel_call *call;
  const real *x;      /* (images, groups, in, h, w) */
  const real *weight; /* (groups x out, k) */
  const real *bias;   /* (groups, out) or NULL */
  real *y;            /* (images, groups, out, h', w') */
  int64_t out_step;   /* elements of the weight between two written channels */
  int64_t in_step;
} windows_job;

static real *packed_of(const windows_job *job, int64_t group) {
  const convolution_state *state = job->call->state;
  return (real *)((char *)job->call->workspace +
                  (size_t)group * channel_weight_bytes(&state->channels));
}

/* Items: (group, tile). */
static void pack_weight(void *user, int64_t begin, int64_t end) {
  const windows_job *job = user;
  const convolution_state *state = job->call->state;
  const int64_t tiles = channel_tiles(&state->channels);
  for (int64_t item = begin; item < end; item++) {
    const int64_t group = item / tiles;
    channel_weight(&state->channels, item % tiles,
                   job->weight + group * state->sizes.out * state->k, job->out_step, job->in_step,
                   packed_of(job, group));
  }
}

static void windows_item(const void *user, int64_t item, char *memory) {
  const windows_job *job = user;
  real *padded = (real *)memory;
  const convolution_state *state = job->call->state;
  const channel_plan *plan = &state->channels;
  const int64_t tiles = channel_tiles(plan), parts = state->tile_parts;
  const int64_t part = item % parts, banded = item / parts;
  const int64_t band = banded % plan->bands, set = banded / plan->bands;
  const int64_t groups = state->sizes.groups, group = set % groups;
  const int64_t first = set / groups * state->item_images;
  const int64_t x_size = plan->in * plan->size[0] * plan->size[1];
  const int64_t y_size = plan->out * plan->out_size[0] * plan->out_size[1];
  const channel_images images = {
      .count = lesser_of(state->sizes.images - first, state->item_images),
      .x = job->x + (first * groups + group) * x_size,
      .padded = padded,
      .y = job->y + (first * groups + group) * y_size,
      .x_step = groups * x_size,
      .padded_step = (int64_t)(channel_padded_bytes(plan, plan->in) / sizeof(real)),
      .y_step = groups * y_size};
  for (int64_t image = 0; image < images.count; image++)
    channel_pad(plan, plan->in, images.x + image * images.x_step, band,
                padded + image * images.padded_step);
  channel_band(plan, part * tiles / parts, (part + 1) * tiles / parts, packed_of(job, group),
               job->bias ? job->bias + group * plan->out : NULL, &images, band);
}

static void run_windows(windows_job *job) {
  const convolution_state *state = job->call->state;
  tdm_team *team = state->splits ? job->call->team : NULL;
  tdm_team_run(team, state->sizes.groups * channel_tiles(&state->channels), 1, pack_weight, job);
  convolution_run_items(job->call, windows_item, job);
}

void convolution_channels_execute(const tdm_kernel_call *call) {
  const convolution_state *state = call->state;
  windows_job job = {.call = call,
                     .x = call->inputs[0],
                     .weight = call->inputs[1],
                     .bias = call->inputs[2],
                     .y = call->outputs[0],
                     .out_step = state->k,
                     .in_step = state->channels.taps};
  run_windows(&job);
}

void convolution_channels_back_execute(const tdm_kernel_call *call) {
  const convolution_state *state = call->state;
  windows_job job = {.call = call,
                     .x = call->inputs[0],
                     .weight = call->inputs[1],
                     .y = call->outputs[0],
                     .out_step = state->channels.taps,
                     .in_step = state->k};
  run_windows(&job);
}

/* ---- Gradient of the weight ------------------------------------------------------------------ */

static int64_t parts_written(const convolution_state *state) {
  return ceil_div(channel_tiles(&state->channels), state->part_tiles);
}

static int64_t parts_of_columns(const convolution_state *state) {
  return ceil_div(state->k, state->part_columns);
}

/* Items: (group, part of the tiles of channels written, part of the columns). */
static int64_t parameter_items(const convolution_state *state) {
  return state->sizes.groups * parts_written(state) * parts_of_columns(state);
}

/* Halves parts until their data fit the caches and there are as many as wanted. Stops earlier if
 * halving costs more than it gains: with few columns, few columns share the cost of transposing
 * d_y. */
static void choose_parts(convolution_state *state, int64_t wanted) {
  const channel_plan *plan = &state->channels;
  const int64_t column_bytes = CHANNEL_TILE * (int64_t)sizeof(real);
  const int64_t channel_bytes = (int64_t)channel_padded_bytes(plan, 1);
  state->part_columns = state->k > 0 ? state->k : 1; /* 1, because a part without channels would
                                                      * have no item */
  state->part_tiles = channel_tiles(plan) > 0 ? channel_tiles(plan) : 1;
  while (state->part_columns >= 2 * MANY_COLUMNS &&
         (state->part_columns * column_bytes > SUMS_BYTES ||
          state->part_columns / plan->taps * channel_bytes > PADDED_BYTES))
    state->part_columns = ceil_div(state->part_columns, 2);
  while (state->part_tiles > 1 &&
         state->part_tiles * state->part_columns * column_bytes > ALL_SUMS_BYTES)
    state->part_tiles = ceil_div(state->part_tiles, 2);
  while (parameter_items(state) < wanted && state->part_columns >= 2 * MANY_COLUMNS)
    state->part_columns = ceil_div(state->part_columns, 2);
  while (parameter_items(state) < wanted && state->part_tiles > 1)
    state->part_tiles = ceil_div(state->part_tiles, 2);
  while (parameter_items(state) < wanted && state->part_columns >= 2 * FEWEST_COLUMNS)
    state->part_columns = ceil_div(state->part_columns, 2);
}

void convolution_channels_parameter_prepare(const tdm_kernel_request *request,
                                            tdm_kernel_answer *answer, convolution_state *state) {
  channel_plan_gradient(&state->channels, &state->sizes);
  const int64_t wanted = convolution_wanted_tasks(state, request);
  choose_parts(state, wanted);
  convolution_share_items(
      state, answer, parameter_items(state), wanted, 0,
      channel_gradient_bytes(&state->channels, state->part_tiles, state->part_columns));
}

static void parameter_item(const void *job, int64_t item, char *memory) {
  const tdm_kernel_call *call = job;
  const convolution_state *state = call->state;
  const channel_plan *plan = &state->channels;
  const int64_t column = item % parts_of_columns(state), written = item / parts_of_columns(state);
  const int64_t group = written / parts_written(state);
  const int64_t part_out = state->part_tiles * CHANNEL_TILE;
  channel_part part = {.first_out = written % parts_written(state) * part_out,
                       .first_column = column * state->part_columns};
  part.out = lesser_of(plan->out - part.first_out, part_out);
  part.columns = lesser_of(state->k - part.first_column, state->part_columns);
  const int64_t d_y_step = plan->out * state->pixels;
  const int64_t x_step = plan->in * plan->size[0] * plan->size[1];
  const channel_set all = {.images = state->sizes.images,
                           .d_y = (const real *)call->inputs[0] + group * d_y_step,
                           .x = (const real *)call->inputs[1] + group * x_step,
                           .d_y_step = state->sizes.groups * d_y_step,
                           .x_step = state->sizes.groups * x_step};
  channel_gradient(plan, &part, &all, memory,
                   (real *)call->outputs[0] + group * plan->out * state->k);
}

void convolution_channels_parameter_execute(const tdm_kernel_call *call) {
  convolution_run_items(call, parameter_item, call);
}
