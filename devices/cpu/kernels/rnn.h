/* What the RNN and its gradient share: sizes and the packing of weights. */
#ifndef TANDEM_DEVICES_CPU_KERNELS_RNN_H
#define TANDEM_DEVICES_CPU_KERNELS_RNN_H

#include "devices/cpu/kernels/product.h"

#define RNN_ROWS_PER_TASK 32 /* of the batch; fixed, so that tasks never depend on the team */

typedef struct rnn_state {
  int64_t length;
  int64_t batch;
  int64_t in;
  int64_t hidden;
  int64_t rows_per_task; /* of the weights' gradients */
  int32_t nonlinearity;  /* tdm_rnn_nonlinearity */
  bool splits;
} rnn_state;

/* x (length, batch, in), y (length, batch, hidden). */
static inline void rnn_state_init(rnn_state *state, const tdm_kernel_request *request,
                                  const tdm_spec *x, const tdm_spec *y) {
  const tdm_rnn_attributes *attributes = request->attributes;
  state->length = x->shape.dims[0];
  state->batch = x->shape.dims[1];
  state->in = x->shape.dims[2];
  state->hidden = y->shape.dims[2];
  state->rows_per_task = product_gradient_rows(state->hidden, request->team_size);
  state->nonlinearity = attributes->nonlinearity;
}

/* Multiplications and additions of the forward pass, as one each. */
static inline double rnn_operations(const rnn_state *state) {
  return (double)state->length * (double)state->batch * (double)state->hidden *
         (double)(state->in + state->hidden);
}

typedef struct rnn_packing {
  packed_matrix to;
  matrix weight;
} rnn_packing;

static inline void rnn_pack_tasks(void *user, int64_t begin, int64_t end) {
  const rnn_packing *packing = user;
  product_pack(packing->to, begin * PRODUCT_COLUMNS,
               tdm_cpu_min(packing->to.n, end * PRODUCT_COLUMNS), packing->weight);
}

/* Packs a whole weight. */
static inline void rnn_pack(packed_matrix to, matrix weight, tdm_team *team) {
  rnn_packing packing = {to, weight};
  tdm_team_run(team, tdm_cpu_chunks(to.n, PRODUCT_COLUMNS), 1, rnn_pack_tasks, &packing);
}

#endif
