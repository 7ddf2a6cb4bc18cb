/* Plans of convolutions with channels in lanes, and their packed weights (channels.h). Invariant:
 * every tap of the kernel is in one phase at most, and a plan depends only on shapes. */
#include "devices/kernels/convolution/cpu/channels.h"
#include "devices/kernels/convolution/image_sizes.h"

#define BAND_BYTES (192 * 1024) /* padded: stays in the second cache */

/* ---- The plan -------------------------------------------------------------------------------- */

/* How the taps of one axis lie: tap k of phase p looks at `offset` from the first window's place,
 * or is none of the phase's. */
typedef struct axis_taps {
  int64_t kernel;
  int64_t dilation;
  int64_t padding;
  int64_t stride; /* stride of the convolution for the gradient of x; 0 for a forward plan */
} axis_taps;

static bool tap_offset(const axis_taps *axis, int64_t phase, int64_t k, int64_t *out_offset) {
  const int64_t along = k * axis->dilation - axis->padding;
  *out_offset = along;
  if (axis->stride == 0) return true;
  const int64_t from = phase - along;
  *out_offset = from / axis->stride;
  return from % axis->stride == 0;
}

static void measure_axis(channel_plan *plan, int axis, const axis_taps *taps, int64_t phases) {
  bool any = false;
  int64_t highest = 0;
  plan->lowest[axis] = 0;
  for (int64_t phase = 0; phase < phases; phase++) {
    for (int64_t k = 0; k < taps->kernel; k++) {
      int64_t offset;
      if (!tap_offset(taps, phase, k, &offset)) continue;
      if (!any || offset < plan->lowest[axis]) plan->lowest[axis] = offset;
      if (!any || offset > highest) highest = offset;
      any = true;
    }
  }
  plan->reach[axis] = highest - plan->lowest[axis];
  plan->apart[axis] = phases;
  plan->windows[axis] = ceil_div(plan->out_size[axis], phases);
}

static void add_tap(channel_plan *plan, int64_t tap, int64_t row, int64_t column) {
  channel_phase *phase = &plan->phases[plan->phase_count];
  const int64_t down = row - plan->lowest[0], aside = column - plan->lowest[1];
  plan->phase_of[tap] = (int32_t)plan->phase_count;
  plan->place_of[tap] = (int32_t)phase->tap_count;
  plan->rows_seen[phase->first_tap + phase->tap_count] = row;
  plan->offsets[phase->first_tap + phase->tap_count++] =
      (down * plan->lines + aside % plan->step[1]) * plan->width + aside / plan->step[1];
}

static void add_phase(channel_plan *plan, const axis_taps taps[2], int64_t down, int64_t aside,
                      int64_t first_tap) {
  channel_phase *phase = &plan->phases[plan->phase_count];
  *phase = (channel_phase){.start = {down, aside}, .first_tap = first_tap};
  for (int axis = 0; axis < 2; axis++) {
    const int64_t left = plan->out_size[axis] - phase->start[axis];
    phase->windows[axis] = left > 0 ? ceil_div(left, plan->apart[axis]) : 0;
  }
  for (int64_t ky = 0; ky < taps[0].kernel; ky++) {
    int64_t row, column;
    if (!tap_offset(&taps[0], down, ky, &row)) continue;
    for (int64_t kx = 0; kx < taps[1].kernel; kx++)
      if (tap_offset(&taps[1], aside, kx, &column))
        add_tap(plan, ky * taps[1].kernel + kx, row, column);
  }
  plan->phase_count++;
}

void channel_plan_rows(channel_plan *plan, int64_t rows) {
  if (rows < 1) rows = 1;
  plan->bands = ceil_div(plan->windows[0], rows);
  plan->rows = plan->bands > 0 ? ceil_div(plan->windows[0], plan->bands) : 1;
  plan->padded_rows = (plan->rows - 1) * plan->step[0] + plan->reach[0] + 1;
}

static void finish_plan(channel_plan *plan, const axis_taps taps[2], const int64_t phases[2]) {
  plan->taps = taps[0].kernel * taps[1].kernel;
  for (int axis = 0; axis < 2; axis++)
    measure_axis(plan, axis, &taps[axis], phases[axis]);
  const int64_t columns = (plan->windows[1] - 1) * plan->step[1] + plan->reach[1] + 1;
  plan->width = ceil_div(columns > 0 ? columns : 1, plan->step[1]);
  plan->lines = lesser_of(plan->step[1], plan->reach[1] + 1);
  for (int64_t tap = 0; tap < plan->taps; tap++)
    plan->phase_of[tap] = -1;
  int64_t first_tap = 0;
  for (int64_t down = 0; down < phases[0]; down++) {
    for (int64_t aside = 0; aside < phases[1]; aside++) {
      add_phase(plan, taps, down, aside, first_tap);
      first_tap += plan->phases[plan->phase_count - 1].tap_count;
    }
  }
  const int64_t row_bytes = plan->in * plan->lines * plan->width * (int64_t)sizeof(real);
  const int64_t fit = row_bytes > 0 ? BAND_BYTES / row_bytes : 1;
  channel_plan_rows(plan, (fit - plan->reach[0] - 1) / plan->step[0] + 1);
}

void channel_plan_forward(channel_plan *plan, const convolution_sizes *of) {
  axis_taps taps[2];
  plan->in = of->in;
  plan->out = of->out;
  for (int axis = 0; axis < 2; axis++) {
    plan->size[axis] = of->size[axis];
    plan->out_size[axis] = of->out_size[axis];
    taps[axis] = (axis_taps){of->kernel[axis], of->dilation[axis], of->padding[axis], 0};
    plan->step[axis] = of->stride[axis];
  }
  finish_plan(plan, taps, (const int64_t[2]){1, 1});
}

void channel_plan_back(channel_plan *plan, const convolution_sizes *of) {
  axis_taps taps[2];
  plan->in = of->out;
  plan->out = of->in;
  for (int axis = 0; axis < 2; axis++) {
    plan->size[axis] = of->out_size[axis];
    plan->out_size[axis] = of->size[axis];
    taps[axis] =
        (axis_taps){of->kernel[axis], of->dilation[axis], of->padding[axis], of->stride[axis]};
    plan->step[axis] = 1;
  }
  finish_plan(plan, taps, of->stride);
}

/* ---- The weight ------------------------------------------------------------------------------ */

size_t channel_weight_bytes(const channel_plan *plan) {
  const int64_t padded_out = ceil_div(plan->out, LANES) * LANES;
  return aligned_bytes((size_t)(padded_out * plan->in * plan->taps) * sizeof(real));
}

/* Taps first <= t < first + LANES of one channel that is read, for one vector of channels: squares
 * that are transposed in registers. to: the vector's place in the first tap of the tile. */
static void pack_square(const channel_plan *plan, int64_t tile_first, int64_t channel, int64_t i,
                        int64_t first, const real *weight, int64_t out_step, real *packed) {
  const int64_t width = channel_tile_width(plan, tile_first);
  vec rows[LANES];
  for (int lane = 0; lane < LANES; lane++) {
    rows[lane] =
        channel + lane < plan->out
            ? vec_load_first(weight + (channel + lane) * out_step + first, plan->taps - first)
            : (vec){0};
  }
  vec_transpose(rows);
  for (int t = 0; t < LANES && first + t < plan->taps; t++) {
    if (plan->phase_of[first + t] < 0) continue;
    const channel_phase *phase = &plan->phases[plan->phase_of[first + t]];
    const int64_t at = i * phase->tap_count + plan->place_of[first + t];
    vec_store(packed + channel_tile_place(plan, phase, tile_first) + at * width + channel -
                  tile_first,
              rows[t]);
  }
}

/* Does the same for one vector of channels if there is one tap. Elements are out_step and in_step
 * apart, one of which is 1. */
static void pack_single(const channel_plan *plan, int64_t channel, int64_t width,
                        const real *weight, int64_t out_step, int64_t in_step, real *to) {
  const int64_t left = plan->out - channel;
  weight += channel * out_step;
  for (int64_t i = 0; i < plan->in && out_step == 1; i++)
    vec_store(to + i * width, vec_load_first(weight + i * in_step, left));
  for (int64_t i = 0; i < plan->in && out_step != 1; i += LANES) {
    vec rows[LANES];
    for (int lane = 0; lane < LANES; lane++)
      rows[lane] =
          lane < left ? vec_load_first(weight + lane * out_step + i, plan->in - i) : (vec){0};
    vec_transpose(rows);
    for (int r = 0; r < LANES && i + r < plan->in; r++)
      vec_store(to + (i + r) * width, rows[r]);
  }
}

void channel_weight(const channel_plan *plan, int64_t tile, const real *weight, int64_t out_step,
                    int64_t in_step, real *packed) {
  const int64_t first = tile * CHANNEL_TILE, width = channel_tile_width(plan, first);
  if (plan->taps == 1 && (out_step == 1 || in_step == 1)) {
    for (int64_t lane = 0; lane < width; lane += LANES)
      pack_single(plan, first + lane, width, weight, out_step, in_step,
                  packed + first * plan->in + lane);
    return;
  }
  for (int64_t i = 0; i < plan->in; i++)
    for (int64_t lane = 0; lane < width; lane += LANES)
      for (int64_t tap = 0; tap < plan->taps; tap += LANES)
        pack_square(plan, first, first + lane, i, tap, weight + i * in_step, out_step, packed);
}
