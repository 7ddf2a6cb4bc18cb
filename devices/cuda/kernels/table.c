/* The kind's kernels: those of all sources, of which each ends with its own. */
#include "devices/cuda/kernels.h"

#include "core/status.h"

#define SOURCES(X)                                                                                 \
  X(adagrad)                                                                                       \
  X(adam)                                                                                          \
  X(along)                                                                                         \
  X(attention)                                                                                     \
  X(attention_gradient)                                                                            \
  X(batch_norm)                                                                                    \
  X(cast)                                                                                          \
  X(compare)                                                                                       \
  X(convolution)                                                                                   \
  X(cross_entropy)                                                                                 \
  X(dropout)                                                                                       \
  X(elementwise)                                                                                   \
  X(embedding)                                                                                     \
  X(embedding_bag)                                                                                 \
  X(fused)                                                                                         \
  X(integers)                                                                                      \
  X(interaction)                                                                                   \
  X(layer_norm)                                                                                    \
  X(linear)                                                                                        \
  X(matmul)                                                                                        \
  X(mse)                                                                                           \
  X(nll)                                                                                           \
  X(norms)                                                                                         \
  X(parts)                                                                                         \
  X(pointwise_losses)                                                                              \
  X(pool)                                                                                          \
  X(recurrent)                                                                                     \
  X(recurrent_gradient)                                                                            \
  X(reduce)                                                                                        \
  X(rmsprop)                                                                                       \
  X(row_copies)                                                                                    \
  X(sgd)                                                                                           \
  X(shape)                                                                                         \
  X(softmax)                                                                                       \
  X(sparse_add)                                                                                    \
  X(where)

#define DECLARED(name) tdm_status tdm_cuda_##name##_kernels(tdm_kernel_visitor visit, void *user);
#define VISITED(name) TDM_TRY(tdm_cuda_##name##_kernels(visit, user));

SOURCES(DECLARED)

tdm_status tdm_cuda_each_kernel(tdm_kernel_visitor visit, void *user) {
  SOURCES(VISITED)
  return TDM_OK;
}
