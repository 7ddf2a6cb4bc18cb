/* Code that the backward pass through the steps of a recurrent layer and the gradients of its
 * weights share. Invariant: the values stored for the weights (d_a, d_b, the packed operands)
 * belong to one range of steps at a time; its length depends only on the batch. */
#ifndef TANDEM_DEVICES_KERNELS_RECURRENT_CPU_RECURRENT_GRADIENT_H
#define TANDEM_DEVICES_KERNELS_RECURRENT_CPU_RECURRENT_GRADIENT_H

#include "devices/kernels/recurrent/cpu/recurrent.h"

typedef struct gradient_job {
  const recurrent_state *state;
  const real *x;       /* (length, batch, in) */
  const real *y;       /* (length, batch, hidden) */
  const real *d_y;     /* (length, batch, hidden) or NULL */
  const real *d_h_n;   /* (batch, hidden) or NULL */
  const real *d_c_n;   /* (batch, hidden) or NULL */
  const real *h0;      /* (batch, hidden) or NULL */
  const real *c0;      /* (batch, hidden) or NULL */
  const real *gates;   /* (length, batch, kept) */
  const real *cells;   /* (length, batch, hidden) */
  const void *lengths; /* (batch) or NULL */
  real *d_weight_ih;   /* (columns, in) */
  real *d_weight_hh;   /* (columns, hidden) */
  real *d_bias_ih;     /* (columns) */
  real *d_bias_hh;     /* (columns) */
  real *d_h0;          /* (batch, hidden) */
  real *d_c0;          /* (batch, hidden) or NULL */
  real *d_x;           /* (length, batch, in) or NULL */
  real *d_first;       /* (batch, columns): d_b of each row's first step */
  int64_t stride;      /* elements between rows of d_a and d_b */
  packed_matrix weight_ih;
  packed_matrix weight_hh;
  /* The current range of steps: */
  int64_t done;          /* number of steps before the range, in the order of computation */
  int64_t steps;         /* number of steps in the range */
  real *d_a;             /* (steps, batch, columns): of the input's products */
  real *d_b;             /* (steps, batch, columns): of the state's; is d_a except for gru */
  packed_matrix inputs;  /* (steps batch, in): x */
  packed_matrix befores; /* (rows, hidden): y of the steps before, of those that have one */
  int64_t befores_from;  /* rows of d_b before the first of these */
} gradient_job;

#define STRETCH_ROWS 512 /* rows of d_a in a stretch, which stays in the cache */

static inline int64_t stretch_steps(const recurrent_state *state) {
  const int64_t steps =
      state->sizes.batch > 0 ? STRETCH_ROWS / state->sizes.batch : state->sizes.length;
  return lesser_of(state->sizes.length, steps > 1 ? steps : 1);
}

/* Returns the earliest time of the stretch. */
static inline int64_t stretch_low(const gradient_job *job) {
  return job->state->sizes.reverse ? job->state->sizes.length - job->done - job->steps : job->done;
}

/* Returns the number of rows of d_a before those of time t. */
static inline int64_t stretch_row(const gradient_job *job, int64_t t) {
  return (t - stretch_low(job)) * job->state->sizes.batch;
}

/* Returns the bytes of the packed operands of one stretch. */
size_t recurrent_operands_bytes(const recurrent_state *state);

/* Selects the rows from which the operands of the range are made; `workspace` has room for them. */
void recurrent_operands_begin(gradient_job *job, char *workspace);

/* Packs one of `shares` equal parts of them. Any thread. */
void recurrent_operands_pack(const gradient_job *job, int64_t share, int64_t shares);

/* Adds the summands of the current range to the gradients of weights and biases; the first range
 * sets them. */
void recurrent_weights_add(gradient_job *job, tdm_team *team);

#endif
