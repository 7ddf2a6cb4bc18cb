/* Votes and routing by agreement. The vote of capsule i of the layer below is its prediction of
 * capsule j above. There are B images, I capsules below of P numbers, and J above of Q. Invariant:
 * results do not depend on the team, because one thread computes each image, and one each capsule's
 * weights. */
#include <math.h>
#include <string.h>

#include "examples/capsule/kernels.h"

/* ---- Votes: votes[b, i] = u[b, i] weight[i], (P) x (P, J Q) -----------------------------------
 */

typedef struct vote_sizes {
  int64_t images, below, in, out; /* B, I, P, J Q */
} vote_sizes;

static vote_sizes sizes_of(const tdm_shape *u, const tdm_shape *weight) {
  return (vote_sizes){u->dims[0], u->dims[1], u->dims[2], weight->dims[2] * weight->dims[3]};
}

static void votes_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const vote_sizes n = sizes_of(&call->input_specs[0].shape, &call->input_specs[1].shape);
  const real *u = call->inputs[0];      /* (B, I, P) */
  const real *weight = call->inputs[1]; /* (I, P, J Q) */
  real *votes = call->outputs[0];       /* (B, I, J Q) */
  for (int64_t i = begin; i < end; i++)
    for (int64_t b = 0; b < n.images; b++) {
      const real *from = u + (b * n.below + i) * n.in;
      real *to = votes + (b * n.below + i) * n.out;
      memset(to, 0, (size_t)n.out * sizeof *to);
      for (int64_t p = 0; p < n.in; p++)
        add_scaled(to, from[p], weight + (i * n.in + p) * n.out, n.out);
    }
}

static tdm_status votes(const tdm_kernel_call *call) {
  tdm_team_run(call->team, call->input_specs[0].shape.dims[1], 8, votes_range, (void *)call);
  return TDM_OK;
}

/* d_u[b, i] = weight[i] d_votes[b, i], d_weight[i] = the sum over b of u[b, i] d_votes[b, i]. */
static void votes_gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const vote_sizes n = sizes_of(&call->input_specs[1].shape, &call->input_specs[2].shape);
  const real *d_votes = call->inputs[0]; /* (B, I, J Q) */
  const real *u = call->inputs[1];       /* (B, I, P) */
  const real *weight = call->inputs[2];  /* (I, P, J Q) */
  real *d_u = call->outputs[0];          /* (B, I, P) */
  real *d_weight = call->outputs[1];     /* (I, P, J Q) */
  for (int64_t i = begin; i < end; i++) {
    memset(d_weight + i * n.in * n.out, 0, (size_t)(n.in * n.out) * sizeof *d_weight);
    for (int64_t b = 0; b < n.images; b++)
      for (int64_t p = 0; p < n.in; p++) {
        const int64_t at = (b * n.below + i) * n.in + p;
        const real *from = d_votes + (b * n.below + i) * n.out;
        d_u[at] = dot(weight + (i * n.in + p) * n.out, from, n.out);
        add_scaled(d_weight + (i * n.in + p) * n.out, u[at], from, n.out);
      }
  }
}

static tdm_status votes_gradient(const tdm_kernel_call *call) {
  tdm_team_run(call->team, call->input_specs[1].shape.dims[1], 8, votes_gradient_range,
               (void *)call);
  return TDM_OK;
}

/* ---- Routing ------------------------------------------------------------------------------------
 * Procedure 1 of the paper: c[i] = softmax over j of agreement[i, j], s[j] = sum of c[i, j]
 * votes[i, j], v[j] = squash(s[j]), and agreement[i, j] grows by votes[i, j] . v[j]. So it is
 * votes[i, j] . (the sum of all v[j] so far), and only these sums need to be kept. */

typedef struct routing_sizes {
  int64_t below, above, size, iterations; /* I, J, Q */
} routing_sizes;

/* One image's passage: of each iteration the sum s and, before it, the sum of earlier v. */
typedef struct passage {
  real s[MOST_ITERATIONS][MOST_WIDTH];
  real earlier[MOST_ITERATIONS + 1][MOST_WIDTH];
} passage;

/* coupling (J) of the capsule with these votes (J, Q). */
static void couple(const routing_sizes *n, const real *of_capsule, const real *earlier,
                   real *coupling) {
  real most = -INFINITY;
  real sum = 0;
  for (int64_t j = 0; j < n->above; j++) {
    coupling[j] = dot(of_capsule + j * n->size, earlier + j * n->size, n->size);
    if (coupling[j] > most) most = coupling[j];
  }
  for (int64_t j = 0; j < n->above; j++)
    sum += coupling[j] = (real)exp((double)(coupling[j] - most));
  for (int64_t j = 0; j < n->above; j++)
    coupling[j] /= sum;
}

/* Returns the factor of squash for s (Q): |s| / (1 + |s|^2). */
static real squash_factor(const real *s, int64_t size) {
  const real square = dot(s, s, size);
  return (real)sqrt((double)square) / (1 + square);
}

static void route(const routing_sizes *n, const real *image_votes, passage *kept) {
  const int64_t width = n->above * n->size;
  memset(kept->earlier[0], 0, (size_t)width * sizeof(real));
  for (int64_t t = 0; t < n->iterations; t++) {
    real coupling[MOST_ABOVE];
    memset(kept->s[t], 0, (size_t)width * sizeof(real));
    for (int64_t i = 0; i < n->below; i++) {
      const real *of_capsule = image_votes + i * width;
      couple(n, of_capsule, kept->earlier[t], coupling);
      for (int64_t j = 0; j < n->above; j++)
        add_scaled(kept->s[t] + j * n->size, coupling[j], of_capsule + j * n->size, n->size);
    }
    memcpy(kept->earlier[t + 1], kept->earlier[t], (size_t)width * sizeof(real));
    for (int64_t j = 0; j < n->above; j++) {
      const real *s = kept->s[t] + j * n->size;
      add_scaled(kept->earlier[t + 1] + j * n->size, squash_factor(s, n->size), s, n->size);
    }
  }
}

static routing_sizes routing_sizes_of(const tdm_kernel_call *call, const tdm_shape *of_votes) {
  const routing_attributes *attributes = call->attributes;
  return (routing_sizes){of_votes->dims[1], of_votes->dims[2], of_votes->dims[3],
                         attributes->iterations};
}

static void routing_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const routing_sizes n = routing_sizes_of(call, &call->input_specs[0].shape);
  const int64_t width = n.above * n.size;
  const real *all_votes = call->inputs[0]; /* (B, I, J, Q) */
  real *v = call->outputs[0];              /* (B, J, Q) */
  passage kept;
  for (int64_t b = begin; b < end; b++) {
    route(&n, all_votes + b * n.below * width, &kept);
    const real *s = kept.s[n.iterations - 1]; /* (J, Q) */
    memset(v + b * width, 0, (size_t)width * sizeof *v);
    for (int64_t j = 0; j < n.above; j++)
      add_scaled(v + b * width + j * n.size, squash_factor(s + j * n.size, n.size), s + j * n.size,
                 n.size);
  }
}

/* The gradient of s (Q) from that of its squash: with f(n) = n / (1 + n^2), n = |s|, it is f d_v +
 * f'(n) / n (s . d_v) s. */
static void unsquash(const real *s, const real *d_v, int64_t size, real *d_s) {
  const real square = dot(s, s, size);
  const real length = (real)sqrt((double)square);
  memset(d_s, 0, (size_t)size * sizeof *d_s);
  if (length == 0) return;
  const real slope = (1 - square) / ((1 + square) * (1 + square));
  add_scaled(d_s, length / (1 + square), d_v, size);
  add_scaled(d_s, slope / length * dot(s, d_v, size), s, size);
}

/* Iteration t of one image, backward. d_later (J, Q) is the gradient of what later iterations read
 * of v[t], and gets that of the sum of v before t; d_votes (I, J, Q) grows. */
static void unroute_iteration(const routing_sizes *n, const real *image_votes, const passage *kept,
                              int64_t t, const real *d_s, real *d_later, real *d_votes) {
  const int64_t width = n->above * n->size;
  for (int64_t i = 0; i < n->below; i++) {
    const real *of_capsule = image_votes + i * width;
    real coupling[MOST_ABOVE];
    real d_coupling[MOST_ABOVE];
    real mean = 0;
    couple(n, of_capsule, kept->earlier[t], coupling);
    for (int64_t j = 0; j < n->above; j++) {
      d_coupling[j] = dot(of_capsule + j * n->size, d_s + j * n->size, n->size);
      mean += coupling[j] * d_coupling[j];
      add_scaled(d_votes + i * width + j * n->size, coupling[j], d_s + j * n->size, n->size);
    }
    if (t == 0) continue; /* its agreement is 0 for all votes */
    for (int64_t j = 0; j < n->above; j++) {
      const int64_t at = j * n->size;
      const real d_agreement = coupling[j] * (d_coupling[j] - mean);
      add_scaled(d_votes + i * width + at, d_agreement, kept->earlier[t] + at, n->size);
      add_scaled(d_later + at, d_agreement, of_capsule + at, n->size);
    }
  }
}

static void routing_gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const routing_sizes n = routing_sizes_of(call, &call->input_specs[1].shape);
  const int64_t width = n.above * n.size;
  const real *d_v = call->inputs[0];       /* (B, J, Q) */
  const real *all_votes = call->inputs[1]; /* (B, I, J, Q) */
  real *d_votes = call->outputs[0];        /* (B, I, J, Q) */
  passage kept;
  for (int64_t b = begin; b < end; b++) {
    const real *image_votes = all_votes + b * n.below * width;
    real d_later[MOST_WIDTH]; /* initially only that of the result */
    real d_s[MOST_WIDTH];
    route(&n, image_votes, &kept);
    memcpy(d_later, d_v + b * width, (size_t)width * sizeof(real));
    memset(d_votes + b * n.below * width, 0, (size_t)(n.below * width) * sizeof(real));
    for (int64_t t = n.iterations - 1; t >= 0; t--) {
      for (int64_t j = 0; j < n.above; j++)
        unsquash(kept.s[t] + j * n.size, d_later + j * n.size, n.size, d_s + j * n.size);
      if (t == n.iterations - 1) memset(d_later, 0, (size_t)width * sizeof(real));
      unroute_iteration(&n, image_votes, &kept, t, d_s, d_later, d_votes + b * n.below * width);
    }
  }
}

static tdm_status routing(const tdm_kernel_call *call) {
  tdm_team_run(call->team, call->output_specs[0].shape.dims[0], 1, routing_range, (void *)call);
  return TDM_OK;
}

static tdm_status routing_gradient(const tdm_kernel_call *call) {
  tdm_team_run(call->team, call->output_specs[0].shape.dims[0], 1, routing_gradient_range,
               (void *)call);
  return TDM_OK;
}

const tdm_kernel REAL(routing_kernels)[ROUTING_KERNEL_COUNT] = {
    KERNEL("capsule_votes", votes),
    KERNEL("capsule_votes_gradient", votes_gradient),
    KERNEL("capsule_routing", routing),
    KERNEL("capsule_routing_gradient", routing_gradient),
};
