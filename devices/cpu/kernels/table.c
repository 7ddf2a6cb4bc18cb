/* The kernels of one instruction set and one precision (TDM_REAL_BITS; none: those that serve
 * several dtypes), under the name TDM_TABLE; this file is compiled once for each. */
#include "devices/cpu/kernels/tables.h"

#ifdef TDM_REAL_BITS
#define SOURCES(X)                                                                                 \
  X(adagrad)                                                                                       \
  X(adam)                                                                                          \
  X(along)                                                                                         \
  X(attention)                                                                                     \
  X(attention_gradient)                                                                            \
  X(batch_norm)                                                                                    \
  X(convolution)                                                                                   \
  X(convolution_gradient)                                                                          \
  X(cross_entropy)                                                                                 \
  X(dropout)                                                                                       \
  X(elementwise)                                                                                   \
  X(embedding)                                                                                     \
  X(embedding_bag)                                                                                 \
  X(embedding_bag_gradient)                                                                        \
  X(interaction)                                                                                   \
  X(layer_norm)                                                                                    \
  X(linear)                                                                                        \
  X(matmul)                                                                                        \
  X(mse)                                                                                           \
  X(nll)                                                                                           \
  X(norms)                                                                                         \
  X(pointwise_losses)                                                                              \
  X(pool)                                                                                          \
  X(pool_gradient)                                                                                 \
  X(recurrent)                                                                                     \
  X(recurrent_gradient)                                                                            \
  X(reduce)                                                                                        \
  X(rmsprop)                                                                                       \
  X(row_copies)                                                                                    \
  X(sgd)                                                                                           \
  X(softmax)                                                                                       \
  X(sparse)                                                                                        \
  X(where)
#else
#define SOURCES(X) X(cast) X(compare) X(fused) X(integers) X(parts) X(typed)
#endif

#define DECLARED(name) extern const tdm_kernel_list tdm_cpu_##name;
#define LISTED(name) &tdm_cpu_##name,

SOURCES(DECLARED)

extern const tdm_kernel_list *const TDM_TABLE[];
const tdm_kernel_list *const TDM_TABLE[] = {SOURCES(LISTED) NULL};
