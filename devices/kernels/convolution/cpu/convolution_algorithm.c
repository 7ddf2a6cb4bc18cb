/* Selects the algorithm of a convolution: columns, sliding windows, channels in lanes, or pixels in
 * lanes. Invariant: the choice depends only on shapes, never on the number of images or the team,
 * so results depend on neither. */
#include "devices/kernels/convolution/cpu/convolution.h"
#include "devices/kernels/cpu/vector.h"

/* Costs relative to full lanes of channels, measured: columns, sliding, sliding for the gradient of
 * the weight, and, in steps of its sums, storing a tile of channels. */
#define COLUMNS_COST 1.6
#define SLIDE_COST 1.05
#define SLIDE_PARAMETER_COST 1.2
#define STORE_STEPS 12

static bool slides(const convolution_state *state) {
  return state->sizes.stride[0] == 1 && state->sizes.stride[1] == 1;
}

static bool slides_back(const convolution_state *state) {
  bool inside = slides(state);
  for (int axis = 0; axis < 2; axis++)
    inside &=
        state->sizes.padding[axis] <= (state->sizes.kernel[axis] - 1) * state->sizes.dilation[axis];
  return inside;
}

/* Returns the share of lanes that compute useful elements when `useful` elements fill whole
 * vectors. */
static double lanes_share(int64_t useful) {
  return useful > 0 ? (double)useful / (double)(ceil_div(useful, LANES) * LANES) : 0.01;
}

/* Returns the faster of channels in lanes and `other`. An element is the sum of `products`; `out`
 * channels are in lanes. */
static convolution_algorithm quicker(const convolution_state *state, int64_t out, double products,
                                     convolution_algorithm other, double other_cost) {
  const int64_t taps = state->sizes.kernel[0] * state->sizes.kernel[1];
  const int64_t phases = state->sizes.stride[0] * state->sizes.stride[1];
  if (taps > CHANNELS_MOST_TAPS || phases > CHANNELS_MOST_PHASES) return other;
  const double cost = (products + STORE_STEPS) / (products * lanes_share(out));
  return cost < other_cost ? CONVOLUTION_CHANNELS : other;
}

convolution_algorithm convolution_algorithm_forward(const convolution_state *state) {
  if (state->direct) return CONVOLUTION_ONE_TAP;
  if (!slides(state))
    return quicker(state, state->sizes.out, (double)state->k, CONVOLUTION_COLUMNS, COLUMNS_COST);
  return quicker(state, state->sizes.out, (double)state->k, CONVOLUTION_SLIDES,
                 SLIDE_COST / lanes_share(state->sizes.out_size[1]));
}

convolution_algorithm convolution_algorithm_back(const convolution_state *state) {
  if (state->direct) return CONVOLUTION_ONE_TAP;
  const double phases = (double)(state->sizes.stride[0] * state->sizes.stride[1]);
  const double products =
      (double)(state->sizes.out * state->sizes.kernel[0] * state->sizes.kernel[1]) / phases;
  if (!slides_back(state))
    return quicker(state, state->sizes.in, products, CONVOLUTION_COLUMNS, COLUMNS_COST);
  return quicker(state, state->sizes.in, products, CONVOLUTION_SLIDES,
                 SLIDE_COST / lanes_share(state->sizes.size[1]));
}

convolution_algorithm convolution_algorithm_parameter(const convolution_state *state) {
  if (state->direct) return CONVOLUTION_COLUMNS; /* the columns are the image itself */
  if (!slides(state))
    return quicker(state, state->sizes.out, (double)state->pixels, CONVOLUTION_COLUMNS,
                   COLUMNS_COST);
  return quicker(state, state->sizes.out, (double)state->pixels, CONVOLUTION_SLIDES,
                 SLIDE_PARAMETER_COST / lanes_share(state->sizes.out_size[1]));
}
