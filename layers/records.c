/* The lists of records, one for each source file. */
#include "layers/records.h"

#define SOURCES(X)                                                                                 \
  X(arguments)                                                                                     \
  X(attention)                                                                                     \
  X(batch_norm)                                                                                    \
  X(binary)                                                                                        \
  X(cast)                                                                                          \
  X(choice)                                                                                        \
  X(clip)                                                                                          \
  X(convolution)                                                                                   \
  X(deviations)                                                                                    \
  X(dimension)                                                                                     \
  X(dropout)                                                                                       \
  X(embedding)                                                                                     \
  X(embedding_bag)                                                                                 \
  X(function)                                                                                      \
  X(gather)                                                                                        \
  X(gradient_of)                                                                                   \
  X(interaction)                                                                                   \
  X(intrinsic)                                                                                     \
  X(layer_norm)                                                                                    \
  X(linear)                                                                                        \
  X(loss)                                                                                          \
  X(loss_classes)                                                                                  \
  X(loss_ctc)                                                                                      \
  X(loss_pointwise)                                                                                \
  X(matmul)                                                                                        \
  X(moves)                                                                                         \
  X(optimizers)                                                                                    \
  X(parts)                                                                                         \
  X(pool)                                                                                          \
  X(recurrent)                                                                                     \
  X(reduce)                                                                                        \
  X(reshape)                                                                                       \
  X(shape)                                                                                         \
  X(shard)                                                                                         \
  X(softmax)                                                                                       \
  X(sort)                                                                                          \
  X(strided)

#define DECLARED(source) extern const tdm_record tdm_##source##_records[];
#define LISTED(source) tdm_##source##_records,

SOURCES(DECLARED)

const tdm_record *const tdm_all_records[] = {SOURCES(LISTED) NULL};
