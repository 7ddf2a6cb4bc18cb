/* Cases of maximum and average pooling, adaptive too, and of their gradients. */
#include "tests/devices/kernels/cases.h"

#include <math.h>

typedef struct span {
  int64_t begin, end; /* inside x */
  int64_t counted;
} span;

static int64_t axis_of(const tdm_shape *shape, int axis) {
  const int d = shape->rank - 2 + axis;
  return d < 2 ? 1 : shape->dims[d];
}

/* Does the window at i hold element e of the axis? *out_span: its extent. */
static bool holds(const tdm_pool_attributes *of, int axis, int64_t size, int64_t out, int64_t i,
                  int64_t e, span *out_span) {
  if (of->adaptive) {
    out_span->begin = (int64_t)floor((double)(i * size) / (double)out);
    out_span->end = (int64_t)ceil((double)((i + 1) * size) / (double)out);
    out_span->counted = out_span->end - out_span->begin;
    return e >= out_span->begin && e < out_span->end;
  }
  const int64_t begin = i * of->stride[axis] - of->padding[axis];
  const int64_t end = begin + (of->kernel[axis] - 1) * of->dilation[axis] + 1;
  out_span->counted = (end < size + of->padding[axis] ? end : size + of->padding[axis]) - begin;
  out_span->begin = begin < 0 ? 0 : begin;
  out_span->end = end < size ? end : size;
  return e >= out_span->begin && e < out_span->end && (e - begin) % of->dilation[axis] == 0;
}

typedef void (*pair_visit)(const kernel_case *self, const double *const *inputs,
                           double *const *outputs, int64_t x, int64_t y, int64_t place,
                           double divisor);

/* Visits every pair of an output and an element of its window, in order. */
static void each_pair(const kernel_case *self, const tdm_shape *x, const tdm_shape *y,
                      const double *const *inputs, double *const *outputs, pair_visit visit) {
  const tdm_pool_attributes *of = &self->attributes.pool;
  const int64_t size[2] = {axis_of(x, 0), axis_of(x, 1)};
  const int64_t out[2] = {axis_of(y, 0), axis_of(y, 1)};
  for (int64_t i = 0; i < tdm_shape_count(y); i++) {
    const int64_t plane = i / (out[0] * out[1]);
    for (int64_t place = 0; place < size[0] * size[1]; place++) {
      span rows, columns;
      if (!holds(of, 0, size[0], out[0], i / out[1] % out[0], place / size[1], &rows)) continue;
      if (!holds(of, 1, size[1], out[1], i % out[1], place % size[1], &columns)) continue;
      const int64_t seen = (rows.end - rows.begin) * (columns.end - columns.begin);
      const int64_t count = of->divisor         ? of->divisor
                            : of->count_padding ? rows.counted * columns.counted
                                                : seen;
      visit(self, inputs, outputs, plane * size[0] * size[1] + place, i, place, (double)count);
    }
  }
}

static void zero(double *values, const tdm_shape *shape, double value) {
  for (int64_t i = 0; i < tdm_shape_count(shape); i++)
    values[i] = value;
}

static void take_larger(const kernel_case *self, const double *const *inputs,
                        double *const *outputs, int64_t x, int64_t y, int64_t place,
                        double divisor) {
  (void)self;
  (void)divisor;
  if (!(inputs[0][x] > outputs[0][y])) return;
  outputs[0][y] = inputs[0][x];
  outputs[1][y] = (double)place;
}

static void max_reference(const kernel_case *self, const double *const *inputs,
                          double *const *outputs) {
  zero(outputs[0], &self->outputs[0].shape, -INFINITY);
  zero(outputs[1], &self->outputs[1].shape, 0);
  each_pair(self, &self->inputs[0].spec.shape, &self->outputs[0].shape, inputs, outputs,
            take_larger);
}

static void add_average(const kernel_case *self, const double *const *inputs,
                        double *const *outputs, int64_t x, int64_t y, int64_t place,
                        double divisor) {
  (void)self;
  (void)place;
  outputs[0][y] += inputs[0][x] / divisor;
}

static void average_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  zero(outputs[0], &self->outputs[0].shape, 0);
  each_pair(self, &self->inputs[0].spec.shape, &self->outputs[0].shape, inputs, outputs,
            add_average);
}

/* Draws, for every output, the position of an element of its window. */
static void generate_places(const kernel_case *test, void *data) {
  const tdm_pool_attributes *of = &test->attributes.pool;
  const tdm_shape *x = &test->outputs[0].shape, *y = &test->inputs[1].spec.shape;
  const int64_t width = axis_of(x, 1), out[2] = {axis_of(y, 0), axis_of(y, 1)};
  for (int64_t i = 0; i < tdm_shape_count(y); i++) {
    int64_t wanted = i % 5; /* the window's next elements, if it has this many */
    for (int64_t place = 0; place < axis_of(x, 0) * width && wanted >= 0; place++) {
      span rows, columns;
      if (!holds(of, 0, axis_of(x, 0), out[0], i / out[1] % out[0], place / width, &rows)) continue;
      if (!holds(of, 1, width, out[1], i % out[1], place % width, &columns)) continue;
      ((int32_t *)data)[i] = (int32_t)place;
      wanted--;
    }
  }
}

static void give_back(const kernel_case *self, const double *const *inputs, double *const *outputs,
                      int64_t x, int64_t y, int64_t place, double divisor) {
  (void)self;
  (void)divisor;
  if (inputs[1][y] == (double)place) outputs[0][x] += inputs[0][y];
}

static void max_gradient_reference(const kernel_case *self, const double *const *inputs,
                                   double *const *outputs) {
  zero(outputs[0], &self->outputs[0].shape, 0);
  each_pair(self, &self->outputs[0].shape, &self->inputs[0].spec.shape, inputs, outputs, give_back);
}

static void share_out(const kernel_case *self, const double *const *inputs, double *const *outputs,
                      int64_t x, int64_t y, int64_t place, double divisor) {
  (void)self;
  (void)place;
  outputs[0][x] += inputs[0][y] / divisor;
}

static void average_gradient_reference(const kernel_case *self, const double *const *inputs,
                                       double *const *outputs) {
  zero(outputs[0], &self->outputs[0].shape, 0);
  each_pair(self, &self->outputs[0].shape, &self->inputs[0].spec.shape, inputs, outputs, share_out);
}

/* ---- The cases ------------------------------------------------------------------------------- */

static const tdm_pool_attributes settings[] = {
    {.kernel = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}, .count_padding = 1},
    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .count_padding = 1},
    {.kernel = {3, 2}, .stride = {1, 3}, .padding = {1, 0}, .dilation = {1, 1}, .ceil = 1},
    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .ceil = 1},
    {.kernel = {2, 3},
     .stride = {2, 1},
     .padding = {0, 1},
     .dilation = {1, 1},
     .count_padding = 1,
     .ceil = 1},
    {.kernel = {3, 3}, .stride = {1, 2}, .dilation = {1, 1}, .divisor = 5},
    {.adaptive = 1, .output = {3, 4}},
    {.adaptive = 1, .output = {1, 1}},
    {.adaptive = 1, .output = {9, 13}},
    /* only for the maximum */
    {.kernel = {2, 3}, .stride = {1, 2}, .padding = {1, 1}, .dilation = {3, 2}},
};

static int64_t out_size_of(const tdm_pool_attributes *of, int axis, int64_t size) {
  if (of->adaptive) return of->output[axis];
  const int64_t reach = of->dilation[axis] * (of->kernel[axis] - 1) + 1;
  const int64_t room = size + 2 * of->padding[axis] - reach;
  int64_t count = (room + (of->ceil ? of->stride[axis] - 1 : 0)) / of->stride[axis] + 1;
  if (of->ceil && (count - 1) * of->stride[axis] >= size + of->padding[axis]) count--;
  return count;
}

static void pool_case(const char *operation, tdm_dtype dtype, kernel_reference reference,
                      const tdm_pool_attributes *attributes, const tdm_shape *from,
                      const tdm_shape *to, size_t number, kernel_visit visit, void *user) {
  const bool takes_maximum = reference == max_reference || reference == max_gradient_reference;
  const bool dilated = attributes->dilation[0] > 1 || attributes->dilation[1] > 1;
  if (!takes_maximum && dilated) return;
  kernel_case test =
      kernel_case_make(operation, dtype, reference, "setting %zu rank %d", number, (int)from->rank);
  test.attributes.pool = *attributes;
  kernel_case_input(&test, dtype, *from, -1, 1);
  if (reference == max_gradient_reference)
    kernel_case_input(&test, TDM_INT32, *from, 0, 1)->generate = generate_places;
  kernel_case_output(&test, dtype, *to);
  if (reference == max_reference) kernel_case_output(&test, TDM_INT32, *to);
  visit(&test, user);
}

static void setting_cases(tdm_dtype dtype, size_t number, tdm_shape x, kernel_visit visit,
                          void *user) {
  tdm_pool_attributes attributes = settings[number];
  if (x.rank == 3) {
    attributes.kernel[0] = attributes.stride[0] = attributes.dilation[0] = attributes.output[0] = 1;
    attributes.padding[0] = 0;
  }
  tdm_shape y = x;
  for (int axis = 0; axis < 2; axis++) {
    attributes.input[axis] = axis_of(&x, axis);
    const int d = x.rank - 2 + axis;
    if (d >= 2) y.dims[d] = out_size_of(&attributes, axis, x.dims[d]);
  }
  pool_case(TDM_OP_MAX_POOL, dtype, max_reference, &attributes, &x, &y, number, visit, user);
  pool_case(TDM_OP_AVERAGE_POOL, dtype, average_reference, &attributes, &x, &y, number, visit,
            user);
  pool_case(TDM_OP_MAX_POOL_GRADIENT, dtype, max_gradient_reference, &attributes, &y, &x, number,
            visit, user);
  pool_case(TDM_OP_AVERAGE_POOL_GRADIENT, dtype, average_gradient_reference, &attributes, &y, &x,
            number, visit, user);
}

void pool_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) {
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
      setting_cases(dtype, i, tdm_shape_of(4, 2, 3, 7, 9), visit, user);
      setting_cases(dtype, i, tdm_shape_of(3, 3, 5, 12), visit, user);
    }
    setting_cases(dtype, 0, tdm_shape_of(4, 20, 6, 24, 24), visit, user);
    setting_cases(dtype, 0, tdm_shape_of(4, 0, 3, 8, 8), visit, user);
  }
}
