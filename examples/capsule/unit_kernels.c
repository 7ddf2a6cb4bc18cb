/* The primary capsules, the lengths of capsules, and the margin loss over these. Invariant: results
 * do not depend on the team; the loss is summed by one thread. */
#include <math.h>

#include "examples/capsule/kernels.h"

/* ---- Primary capsules ---------------------------------------------------------------------------
 * Each place (h, w) of each group of P channels is a capsule, squashed: x (B, T P, H, W) -> (B, T H
 * W, P), with squash(s) = f(|s|) s, f(n) = n / (1 + n^2). */

typedef struct primary_sizes {
  int64_t groups, size, places; /* T of an image, P, H W */
} primary_sizes;

static primary_sizes primary_sizes_of(const tdm_kernel_call *call, const tdm_shape *x) {
  const primary_attributes *attributes = call->attributes;
  return (primary_sizes){x->dims[1] / attributes->size, attributes->size, x->dims[2] * x->dims[3]};
}

/* |s|^2 of the capsule whose first number is at s. */
static real square_of(const primary_sizes *n, const real *s) {
  real square = 0;
  for (int64_t p = 0; p < n->size; p++)
    square += s[p * n->places] * s[p * n->places];
  return square;
}

/* A task is a group of channels of an image. */
static void primary_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const primary_sizes n = primary_sizes_of(call, &call->input_specs[0].shape);
  for (int64_t task = begin; task < end; task++) {
    const real *x = (const real *)call->inputs[0] + task * n.size * n.places; /* (P, H W) */
    real *u = (real *)call->outputs[0] + task * n.size * n.places;            /* (H W, P) */
    for (int64_t at = 0; at < n.places; at++) {
      const real square = square_of(&n, x + at);
      const real factor = (real)sqrt((double)square) / (1 + square);
      for (int64_t p = 0; p < n.size; p++)
        u[at * n.size + p] = factor * x[p * n.places + at];
    }
  }
}

static void primary_gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const primary_sizes n = primary_sizes_of(call, &call->input_specs[1].shape);
  for (int64_t task = begin; task < end; task++) {
    const int64_t first = task * n.size * n.places;
    const real *d_u = (const real *)call->inputs[0] + first; /* (H W, P) */
    const real *x = (const real *)call->inputs[1] + first;   /* (P, H W) */
    real *d_x = (real *)call->outputs[0] + first;            /* (P, H W) */
    for (int64_t at = 0; at < n.places; at++) {
      const real square = square_of(&n, x + at);
      const real length = (real)sqrt((double)square);
      real along = 0; /* s . d_u */
      for (int64_t p = 0; p < n.size; p++)
        along += x[p * n.places + at] * d_u[at * n.size + p];
      const real slope =
          length > 0 ? (1 - square) / ((1 + square) * (1 + square)) / length * along : 0;
      for (int64_t p = 0; p < n.size; p++)
        d_x[p * n.places + at] =
            length / (1 + square) * d_u[at * n.size + p] + slope * x[p * n.places + at];
    }
  }
}

static tdm_status primary(const tdm_kernel_call *call) {
  const primary_sizes n = primary_sizes_of(call, &call->input_specs[0].shape);
  tdm_team_run(call->team, call->input_specs[0].shape.dims[0] * n.groups, 1, primary_range,
               (void *)call);
  return TDM_OK;
}

static tdm_status primary_gradient(const tdm_kernel_call *call) {
  const primary_sizes n = primary_sizes_of(call, &call->input_specs[1].shape);
  tdm_team_run(call->team, call->input_specs[1].shape.dims[0] * n.groups, 1, primary_gradient_range,
               (void *)call);
  return TDM_OK;
}

/* ---- Lengths: v (B, J, Q) -> |v| (B, J) ------------------------------------------------------ */

static tdm_status length(const tdm_kernel_call *call) {
  const tdm_shape *shape = &call->input_specs[0].shape;
  const int64_t size = shape->dims[2];
  const real *v = call->inputs[0]; /* (B J, Q) */
  real *lengths = call->outputs[0];
  for (int64_t i = 0; i < shape->dims[0] * shape->dims[1]; i++)
    lengths[i] = (real)sqrt((double)dot(v + i * size, v + i * size, size));
  return TDM_OK;
}

static tdm_status length_gradient(const tdm_kernel_call *call) {
  const tdm_shape *shape = &call->input_specs[1].shape;
  const int64_t size = shape->dims[2];
  const real *d_lengths = call->inputs[0]; /* (B J) */
  const real *v = call->inputs[1];         /* (B J, Q) */
  real *d_v = call->outputs[0];            /* (B J, Q) */
  for (int64_t i = 0; i < shape->dims[0] * shape->dims[1]; i++) {
    const real of_v = (real)sqrt((double)dot(v + i * size, v + i * size, size));
    for (int64_t q = 0; q < size; q++)
      d_v[i * size + q] = of_v > 0 ? d_lengths[i] / of_v * v[i * size + q] : 0;
  }
  return TDM_OK;
}

/* ---- Margin loss -------------------------------------------------------------------------------
 * The sum over capsules of max(0, 0.9 - |v|)^2 for the class that is there, and of 0.5 max(0, |v| -
 * 0.1)^2 for the others, divided by the rows. */

static real rows_of(const tdm_kernel_call *call, const tdm_shape *lengths) {
  const margin_attributes *attributes = call->attributes;
  return (real)(attributes->rows ? attributes->rows : lengths->dims[0]);
}

static tdm_status margin(const tdm_kernel_call *call) {
  const tdm_shape *shape = &call->input_specs[0].shape;
  const int64_t above = shape->dims[1];
  const real *lengths = call->inputs[0];    /* (B, J) */
  const int64_t *classes = call->inputs[1]; /* (B) */
  real *loss = call->outputs[0];            /* () */
  real sum = 0;
  for (int64_t b = 0; b < shape->dims[0]; b++) {
    if (classes[b] < 0 || classes[b] >= above)
      return tdm_fail(TDM_INVALID_ARGUMENT, "class %lld of %lld", (long long)classes[b],
                      (long long)above);
    for (int64_t j = 0; j < above; j++) {
      const real beyond = j == classes[b] ? (real)MARGIN_PRESENT - lengths[b * above + j]
                                          : lengths[b * above + j] - (real)MARGIN_ABSENT;
      if (beyond > 0) sum += (j == classes[b] ? 1 : (real)ABSENT_WEIGHT) * beyond * beyond;
    }
  }
  *loss = sum / rows_of(call, shape);
  return TDM_OK;
}

static tdm_status margin_gradient(const tdm_kernel_call *call) {
  const tdm_shape *shape = &call->input_specs[1].shape;
  const int64_t above = shape->dims[1];
  const real d_loss = *(const real *)call->inputs[0] / rows_of(call, shape);
  const real *lengths = call->inputs[1];    /* (B, J) */
  const int64_t *classes = call->inputs[2]; /* (B) */
  real *d_lengths = call->outputs[0];       /* (B, J) */
  for (int64_t i = 0; i < shape->dims[0] * above; i++) {
    const bool there = i % above == classes[i / above];
    const real beyond =
        there ? (real)MARGIN_PRESENT - lengths[i] : lengths[i] - (real)MARGIN_ABSENT;
    const real slope = there ? -2 : 2 * (real)ABSENT_WEIGHT;
    d_lengths[i] = beyond > 0 ? d_loss * slope * beyond : 0;
  }
  return TDM_OK;
}

const tdm_kernel REAL(unit_kernels)[UNIT_KERNEL_COUNT] = {
    KERNEL("capsule_primary", primary), KERNEL("capsule_primary_gradient", primary_gradient),
    KERNEL("capsule_length", length),   KERNEL("capsule_length_gradient", length_gradient),
    KERNEL("capsule_margin", margin),   KERNEL("capsule_margin_gradient", margin_gradient),
};
