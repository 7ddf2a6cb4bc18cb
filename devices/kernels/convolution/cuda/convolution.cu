/* The convolution and its gradients. A thread or a block computes an element as one sum in one
 * order. Invariant: an element of the result depends only on the operands, not on the grid. */
#include "devices/kernels/convolution/image_sizes.h"
#include "devices/kernels/convolution/images.h"
#include "devices/kernels/cuda/reduce.h"

static tdm_status convolution_prepare_state(const tdm_kernel_request *request,
                                            tdm_kernel_answer *answer, const tdm_spec *x,
                                            const tdm_spec *weight, const tdm_spec *y) {
  convolution_sizes *sizes = state_create<convolution_sizes>(answer);
  if (!sizes) return TDM_OUT_OF_MEMORY;
  convolution_sizes_read(sizes, request, x, weight, y);
  return TDM_OK;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Computes y (images, groups, out, h', w') from x (images, groups, in, h, w), weight (groups, out,
 * in, kh, kw) and bias (groups, out) or NULL. */
template <class stored>
static __global__ void convolve(const stored *x, const stored *weight, const stored *bias,
                                stored *y, convolution_sizes shape, int64_t count) {
  typedef real_of<stored> real;
  const int64_t groups = shape.groups, in = shape.in, out = shape.out;
  const int64_t height = shape.size[0], width = shape.size[1];
  const int64_t out_height = shape.out_size[0], out_width = shape.out_size[1];
  const int64_t kernel_height = shape.kernel[0], kernel_width = shape.kernel[1];
  EACH_ELEMENT(i, count) {
    const int64_t column = i % out_width, row = i / out_width % out_height;
    const int64_t channel = i / (out_width * out_height) % (groups * out);
    const int64_t image = i / (out_width * out_height) / (groups * out);
    const stored *planes = x + (image * groups + channel / out) * in * height * width;
    const stored *taps = weight + channel * in * kernel_height * kernel_width;
    real sum = bias ? (real)bias[channel] : 0;
    for (int64_t c = 0; c < in; c++) {
      real part = 0;
      for (int64_t tap = 0; tap < kernel_height * kernel_width; tap++) {
        const int64_t from_y =
            row * shape.stride[0] - shape.padding[0] + tap / kernel_width * shape.dilation[0];
        const int64_t from_x =
            column * shape.stride[1] - shape.padding[1] + tap % kernel_width * shape.dilation[1];
        if (from_y < 0 || from_y >= height || from_x < 0 || from_x >= width) continue;
        part += planes[(c * height + from_y) * width + from_x] *
                taps[c * kernel_height * kernel_width + tap];
      }
      sum += part;
    }
    y[i] = sum;
  }
}

template <class stored> static tdm_status run_forward(const tdm_kernel_call *call) {
  const convolution_sizes *state = state_of<convolution_sizes>(call);
  const int64_t count =
      state->images * state->groups * state->out * state->out_size[0] * state->out_size[1];
  return kernel_launch(call, "convolution", convolve<stored>, blocks_for(count), BLOCK,
                       input_of<stored>(call, 0), input_of<stored>(call, 1),
                       input_of<stored>(call, 2), output_of<stored>(call, 0), *state, count);
}

static tdm_status convolution_prepare(const tdm_kernel_request *request,
                                      tdm_kernel_answer *answer) {
  return convolution_prepare_state(request, answer, &request->inputs[0], &request->inputs[1],
                                   &request->outputs[0]);
}

/* ---- Gradient of x --------------------------------------------------------------------------- */

/* Operands as for convolve. */
template <class stored>
static __global__ void input_gradient(const stored *d_y, const stored *weight, stored *d_x,
                                      convolution_sizes shape, int64_t count) {
  typedef real_of<stored> real;
  const int64_t groups = shape.groups, in = shape.in, out = shape.out;
  const int64_t height = shape.size[0], width = shape.size[1];
  const int64_t out_height = shape.out_size[0], out_width = shape.out_size[1];
  const int64_t kernel_height = shape.kernel[0], kernel_width = shape.kernel[1];
  EACH_ELEMENT(i, count) {
    const int64_t column = i % width, row = i / width % height;
    const int64_t channel = i / (width * height) % (groups * in);
    const int64_t image = i / (width * height) / (groups * in);
    const int64_t group = channel / in, c = channel % in;
    real sum = 0;
    for (int64_t o = group * out; o < (group + 1) * out; o++) {
      const stored *plane = d_y + (image * groups * out + o) * out_height * out_width;
      const stored *taps = weight + (o * in + c) * kernel_height * kernel_width;
      real part = 0;
      for (int64_t tap = 0; tap < kernel_height * kernel_width; tap++) {
        const int64_t down = row + shape.padding[0] - tap / kernel_width * shape.dilation[0];
        const int64_t right = column + shape.padding[1] - tap % kernel_width * shape.dilation[1];
        if (down < 0 || right < 0 || down % shape.stride[0] != 0 || right % shape.stride[1] != 0)
          continue;
        const int64_t to_y = down / shape.stride[0], to_x = right / shape.stride[1];
        if (to_y < out_height && to_x < out_width)
          part += plane[to_y * out_width + to_x] * taps[tap];
      }
      sum += part;
    }
    d_x[i] = sum;
  }
}

template <class stored> static tdm_status run_input_gradient(const tdm_kernel_call *call) {
  const convolution_sizes *state = state_of<convolution_sizes>(call);
  const int64_t count = state->images * state->groups * state->in * state->size[0] * state->size[1];
  return kernel_launch(call, "convolution_input_gradient", input_gradient<stored>,
                       blocks_for(count), BLOCK, input_of<stored>(call, 0),
                       input_of<stored>(call, 1), output_of<stored>(call, 0), *state, count);
}

static tdm_status convolution_input_gradient_prepare(const tdm_kernel_request *request,
                                                     tdm_kernel_answer *answer) {
  return convolution_prepare_state(request, answer, &request->outputs[0], &request->inputs[1],
                                   &request->inputs[0]);
}

/* ---- Gradients of weight and bias ------------------------------------------------------------ */

/* Computes one tap of d_weight (taps) per block; d_y and x as for convolve. */
template <class stored>
static __global__ void weight_gradient(const stored *d_y, const stored *x, stored *d_weight,
                                       convolution_sizes shape, int64_t taps) {
  typedef real_of<stored> real;
  const int64_t images = shape.images;
  const int64_t groups = shape.groups, in = shape.in, out = shape.out;
  const int64_t height = shape.size[0], width = shape.size[1];
  const int64_t out_height = shape.out_size[0], out_width = shape.out_size[1];
  const int64_t kernel_height = shape.kernel[0], kernel_width = shape.kernel[1];
  const int64_t pixels = out_height * out_width;
  EACH_OF_GRID(tap, taps) {
    const int64_t tap_x = tap % kernel_width, tap_y = tap / kernel_width % kernel_height;
    const int64_t c = tap / (kernel_width * kernel_height) % in;
    const int64_t channel = tap / (kernel_width * kernel_height) / in;
    real part = 0;
    EACH_OF_BLOCK(i, images * pixels) {
      const int64_t image = i / pixels;
      const int64_t from_y =
          i % pixels / out_width * shape.stride[0] - shape.padding[0] + tap_y * shape.dilation[0];
      const int64_t from_x =
          i % out_width * shape.stride[1] - shape.padding[1] + tap_x * shape.dilation[1];
      if (from_y < 0 || from_y >= height || from_x < 0 || from_x >= width) continue;
      const int64_t plane = (image * groups + channel / out) * in + c;
      part += d_y[(image * groups * out + channel) * pixels + i % pixels] *
              x[(plane * height + from_y) * width + from_x];
    }
    const real sum = block_sum(part);
    if (threadIdx.x == 0) d_weight[tap] = sum;
  }
}

/* Computes one channel of d_bias (channels) per block from d_y (images, channels, pixels). */
template <class stored>
static __global__ void bias_gradient(const stored *d_y, stored *d_bias, int64_t images,
                                     int64_t channels, int64_t pixels) {
  typedef real_of<stored> real;
  EACH_OF_GRID(channel, channels) {
    real part = 0;
    EACH_OF_BLOCK(i, images * pixels) {
      part += d_y[(i / pixels * channels + channel) * pixels + i % pixels];
    }
    const real sum = block_sum(part);
    if (threadIdx.x == 0) d_bias[channel] = sum;
  }
}

template <class stored> static tdm_status run_parameter_gradient(const tdm_kernel_call *call) {
  const convolution_sizes *state = state_of<convolution_sizes>(call);
  const int64_t channels = state->groups * state->out;
  const int64_t taps = channels * state->in * state->kernel[0] * state->kernel[1];
  const int64_t pixels = state->out_size[0] * state->out_size[1];
  const int threads = threads_for_row(state->images * pixels);
  TDM_TRY(kernel_launch(call, "convolution_weight_gradient", weight_gradient<stored>,
                        blocks_of(taps), threads, input_of<stored>(call, 0),
                        input_of<stored>(call, 1), output_of<stored>(call, 0), *state, taps));
  return kernel_launch(call, "convolution_bias_gradient", bias_gradient<stored>,
                       blocks_of(channels), threads, input_of<stored>(call, 0),
                       output_of<stored>(call, 1), state->images, channels, pixels);
}

static tdm_status convolution_parameter_gradient_prepare(const tdm_kernel_request *request,
                                                         tdm_kernel_answer *answer) {
  return convolution_prepare_state(request, answer, &request->inputs[1], &request->outputs[0],
                                   &request->inputs[0]);
}

KERNELS(convolution, KERNEL(TDM_OP_CONVOLUTION, convolution_prepare, run_forward<stored>),
        KERNEL(TDM_OP_CONVOLUTION_INPUT_GRADIENT, convolution_input_gradient_prepare,
               run_input_gradient<stored>),
        KERNEL(TDM_OP_CONVOLUTION_PARAMETER_GRADIENT, convolution_parameter_gradient_prepare,
               run_parameter_gradient<stored>))
