/* Cases of convolutions of one and two dimensions, and of their gradients. The reference walks over
 * every pair of an output and a tap. */
#include "tests/devices/kernels/cases.h"

typedef struct sizes {
  int64_t images, groups, in, out; /* channels of a group */
  int64_t size[2], out_size[2], kernel[2];
} sizes;

typedef void (*pair_visit)(void *user, int64_t x, int64_t weight, int64_t y);

static int64_t axis_of(const tdm_shape *shape, int axis) {
  const int d = shape->rank - 2 + axis;
  return d < 2 ? 1 : shape->dims[d];
}

static sizes sizes_of(const tdm_convolution_attributes *attributes, const tdm_shape *x,
                      const tdm_shape *weight, const tdm_shape *y) {
  sizes found = {.images = x->dims[0],
                 .groups = attributes->groups,
                 .in = x->dims[1] / attributes->groups,
                 .out = weight->dims[0] / attributes->groups};
  for (int axis = 0; axis < 2; axis++) {
    found.size[axis] = axis_of(x, axis);
    found.out_size[axis] = axis_of(y, axis);
    found.kernel[axis] = axis_of(weight, axis);
  }
  return found;
}

/* Calls visit with the indices of every product of an element of x with one of weight. */
static void each_pair(const tdm_convolution_attributes *attributes, const sizes *of,
                      pair_visit visit, void *user) {
  const int64_t channels = of->groups * of->out, taps = of->in * of->kernel[0] * of->kernel[1];
  const int64_t pixels = of->out_size[0] * of->out_size[1];
  for (int64_t y = 0; y < of->images * channels * pixels; y++) {
    const int64_t channel = y / pixels % channels, image = y / pixels / channels;
    for (int64_t tap = 0; tap < taps; tap++) {
      const int64_t c = tap / (of->kernel[0] * of->kernel[1]);
      const int64_t kernel_y = tap / of->kernel[1] % of->kernel[0], kernel_x = tap % of->kernel[1];
      const int64_t row = y % pixels / of->out_size[1] * attributes->stride[0] -
                          attributes->padding[0] + kernel_y * attributes->dilation[0];
      const int64_t column = y % of->out_size[1] * attributes->stride[1] - attributes->padding[1] +
                             kernel_x * attributes->dilation[1];
      if (row < 0 || row >= of->size[0] || column < 0 || column >= of->size[1]) continue;
      const int64_t plane = (image * of->groups + channel / of->out) * of->in + c;
      visit(user, (plane * of->size[0] + row) * of->size[1] + column, channel * taps + tap, y);
    }
  }
}

typedef struct operands {
  const double *left;
  const double *right;
  double *result;
} operands;

static void zero(double *values, const tdm_shape *shape) {
  for (int64_t i = 0; i < tdm_shape_count(shape); i++)
    values[i] = 0;
}

static void add_forward(void *user, int64_t x, int64_t weight, int64_t y) {
  const operands *of = user;
  of->result[y] += of->left[x] * of->right[weight];
}

static void forward_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const tdm_shape *y = &self->outputs[0].shape;
  const sizes of = sizes_of(&self->attributes.convolution, &self->inputs[0].spec.shape,
                            &self->inputs[1].spec.shape, y);
  const int64_t pixels = of.out_size[0] * of.out_size[1];
  for (int64_t i = 0; i < tdm_shape_count(y); i++)
    outputs[0][i] = inputs[2] ? inputs[2][i / pixels % (of.groups * of.out)] : 0;
  operands values = {inputs[0], inputs[1], outputs[0]};
  each_pair(&self->attributes.convolution, &of, add_forward, &values);
}

static void add_input(void *user, int64_t x, int64_t weight, int64_t y) {
  const operands *of = user;
  of->result[x] += of->left[y] * of->right[weight];
}

static void input_reference(const kernel_case *self, const double *const *inputs,
                            double *const *outputs) {
  const sizes of = sizes_of(&self->attributes.convolution, &self->outputs[0].shape,
                            &self->inputs[1].spec.shape, &self->inputs[0].spec.shape);
  zero(outputs[0], &self->outputs[0].shape);
  operands values = {inputs[0], inputs[1], outputs[0]};
  each_pair(&self->attributes.convolution, &of, add_input, &values);
}

static void add_weight(void *user, int64_t x, int64_t weight, int64_t y) {
  const operands *of = user;
  of->result[weight] += of->left[y] * of->right[x];
}

static void parameter_reference(const kernel_case *self, const double *const *inputs,
                                double *const *outputs) {
  const sizes of = sizes_of(&self->attributes.convolution, &self->inputs[1].spec.shape,
                            &self->outputs[0].shape, &self->inputs[0].spec.shape);
  const int64_t pixels = of.out_size[0] * of.out_size[1];
  zero(outputs[0], &self->outputs[0].shape);
  zero(outputs[1], &self->outputs[1].shape);
  for (int64_t i = 0; i < input_count_of(self, 0); i++)
    outputs[1][i / pixels % (of.groups * of.out)] += inputs[0][i];
  operands values = {inputs[0], inputs[1], outputs[0]};
  each_pair(&self->attributes.convolution, &of, add_weight, &values);
}

/* ---- The cases ------------------------------------------------------------------------------- */

typedef struct setting {
  int64_t images, groups, in, out; /* channels of a group */
  int64_t size[2], kernel[2], stride[2], padding[2], dilation[2];
  bool flat; /* convolution over one dimension */
  bool without_bias;
} setting;

static const setting settings[] = {
    {1, 1, 1, 1, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false, false},
    {2, 1, 3, 5, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, false},
    {3, 1, 2, 4, {8, 7}, {3, 2}, {2, 3}, {0, 2}, {1, 1}, false, true},
    {2, 2, 3, 4, {9, 8}, {2, 3}, {1, 2}, {2, 1}, {2, 1}, false, false},
    {2, 4, 1, 1, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 2}, false, false},
    {9, 1, 4, 17, {5, 6}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false, false},
    {2, 1, 2, 3, {1, 3}, {1, 3}, {1, 4}, {0, 5}, {1, 3}, false, false},
    {2, 1, 3, 2, {1, 19}, {1, 4}, {1, 2}, {0, 3}, {1, 2}, true, false},
    {3, 3, 2, 1, {1, 8}, {1, 3}, {1, 1}, {0, 1}, {1, 1}, true, true},
    {0, 1, 2, 3, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, false, false},
    {1, 1, 3, 9, {24, 80}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, false},
    {1, 1, 12, 3, {12, 200}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, false, false},
    {3, 1, 5, 13, {9, 21}, {3, 2}, {1, 1}, {2, 1}, {2, 1}, false, false},
    {9, 2, 2, 3, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, false},    /* rows of few lanes */
    {1, 1, 24, 2, {9, 260}, {3, 1}, {1, 1}, {0, 0}, {1, 1}, false, false}, /* many bands */
    {1, 1, 2, 2, {3, 4}, {2, 2}, {1, 1}, {2, 3}, {1, 1}, false, false}, /* zeros beyond the rim */
    /* Channels that fill lanes, and the rest of them: */
    {2, 1, 5, 40, {7, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, false},
    {1, 2, 19, 21, {9, 11}, {3, 2}, {2, 3}, {1, 2}, {2, 1}, false, true},
    {3, 1, 34, 33, {5, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, false},
    {1, 1, 16, 16, {11, 10}, {3, 3}, {3, 3}, {0, 0}, {2, 2}, false, false},
    {2, 1, 18, 20, {7, 6}, {1, 1}, {2, 2}, {0, 0}, {1, 1}, false, false}, /* taps of one phase */
    {2, 1, 3, 17, {15, 14}, {7, 7}, {2, 2}, {3, 3}, {1, 1}, false, false},
    {2, 1, 17, 48, {1, 20}, {1, 5}, {1, 1}, {0, 2}, {1, 1}, true, false},
    {1, 1, 16, 16, {5, 5}, {2, 2}, {2, 2}, {4, 3}, {1, 1}, false, false}, /* zeros beyond */
    /* has several lines per tile */
    {5, 2, 17, 16, {5, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, false},
    {3, 1, 16, 18, {9, 9}, {2, 1}, {3, 4}, {0, 1}, {1, 1}, false, false}, /* rows that none sees */
    {1, 1, 96, 16, {4, 130}, {2, 1}, {1, 1}, {0, 0}, {1, 1}, false, false}, /* many bands */
    /* No channels are read, or written: */
    {2, 1, 0, 16, {19, 20}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, false},
    {2, 1, 16, 0, {19, 20}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, false},
};

static tdm_shape image_shape(const setting *of, int64_t n, int64_t channels, int64_t height,
                             int64_t width) {
  return of->flat ? tdm_shape_of(3, n, channels, width)
                  : tdm_shape_of(4, n, channels, height, width);
}

/* Many bands are for the CPU's caches: these rows, of all channels, fill them. */
static bool is_of_cpu(const setting *of) {
  return of->in * of->size[1] > 6000;
}

static void setting_cases(tdm_dtype dtype, size_t number, kernel_visit visit, void *user) {
  const setting *of = &settings[number];
  int64_t out_size[2];
  tdm_convolution_attributes attributes = {.groups = of->groups};
  for (int axis = 0; axis < 2; axis++) {
    attributes.stride[axis] = of->stride[axis];
    attributes.padding[axis] = of->padding[axis];
    attributes.dilation[axis] = of->dilation[axis];
    attributes.kernel[axis] = of->kernel[axis];
    attributes.input[axis] = of->size[axis];
    const int64_t reach = of->dilation[axis] * (of->kernel[axis] - 1) + 1;
    out_size[axis] = (of->size[axis] + 2 * of->padding[axis] - reach) / of->stride[axis] + 1;
  }
  const int64_t channels = of->groups * of->out;
  const tdm_shape x = image_shape(of, of->images, of->groups * of->in, of->size[0], of->size[1]);
  const tdm_shape weight = image_shape(of, channels, of->in, of->kernel[0], of->kernel[1]);
  const tdm_shape y = image_shape(of, of->images, channels, out_size[0], out_size[1]);

  kernel_case forward =
      kernel_case_make(TDM_OP_CONVOLUTION, dtype, forward_reference, "setting %zu", number);
  forward.attributes.convolution = attributes;
  forward.of_cpu = is_of_cpu(of);
  kernel_case_input(&forward, dtype, x, -1, 1);
  kernel_case_input(&forward, dtype, weight, -1, 1);
  if (of->without_bias)
    kernel_case_absent_input(&forward);
  else
    kernel_case_input(&forward, dtype, tdm_shape_of(1, channels), -1, 1);
  kernel_case_output(&forward, dtype, y);
  visit(&forward, user);

  kernel_case input = kernel_case_make(TDM_OP_CONVOLUTION_INPUT_GRADIENT, dtype, input_reference,
                                       "setting %zu", number);
  input.attributes.convolution = attributes;
  input.of_cpu = is_of_cpu(of);
  kernel_case_input(&input, dtype, y, -1, 1);
  kernel_case_input(&input, dtype, weight, -1, 1);
  kernel_case_output(&input, dtype, x);
  visit(&input, user);

  kernel_case parameter = kernel_case_make(TDM_OP_CONVOLUTION_PARAMETER_GRADIENT, dtype,
                                           parameter_reference, "setting %zu", number);
  parameter.attributes.convolution = attributes;
  parameter.of_cpu = is_of_cpu(of);
  kernel_case_input(&parameter, dtype, y, -1, 1);
  kernel_case_input(&parameter, dtype, x, -1, 1);
  kernel_case_output(&parameter, dtype, weight);
  kernel_case_output(&parameter, dtype, tdm_shape_of(1, channels));
  visit(&parameter, user);
}

void convolution_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) {
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
      setting_cases(dtype, i, visit, user);
  }
}
