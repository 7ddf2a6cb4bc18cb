/* The kernels of real numbers that every kind that computes has: the one list from which
 * cpu/kernels and cuda/kernels make their prototypes and tables. Invariant: each stands for both
 * float32 and float64; what serves other dtypes is in the kinds' own lists. */
#ifndef TANDEM_DEVICES_REAL_KERNELS_H
#define TANDEM_DEVICES_REAL_KERNELS_H

/* X(operation, name) of those whose elements can be computed by themselves, so that nodes of them
 * can be fused (devices/fused.h): each has a part on the host, and a formula in
 * cuda/kernels/elements.h. */
#define TDM_ELEMENT_KERNELS(X)                                                                     \
  X(TDM_OP_RELU, relu)                                                                             \
  X(TDM_OP_TANH, tanh)                                                                             \
  X(TDM_OP_SIGMOID, sigmoid)                                                                       \
  X(TDM_OP_RELU_GRADIENT, relu_gradient)                                                           \
  X(TDM_OP_TANH_GRADIENT, tanh_gradient)                                                           \
  X(TDM_OP_SIGMOID_GRADIENT, sigmoid_gradient)                                                     \
  X(TDM_OP_MUL, mul)                                                                               \
  X(TDM_OP_SILU, silu)                                                                             \
  X(TDM_OP_SILU_GRADIENT, silu_gradient)                                                           \
  X(TDM_OP_GELU, gelu)                                                                             \
  X(TDM_OP_GELU_GRADIENT, gelu_gradient)                                                           \
  X(TDM_OP_DROPOUT, dropout)                                                                       \
  X(TDM_OP_LEAKY_RELU, leaky_relu)                                                                 \
  X(TDM_OP_LEAKY_RELU_GRADIENT, leaky_relu_gradient)                                               \
  X(TDM_OP_ADD, add)                                                                               \
  X(TDM_OP_ACCUMULATE, accumulate)                                                                 \
  X(TDM_OP_SCALE, scale)                                                                           \
  X(TDM_OP_DIVIDE, divide)

/* X(operation, name) of the others. */
#define TDM_REAL_KERNELS(X)                                                                        \
  X(TDM_OP_EMBEDDING, embedding)                                                                   \
  X(TDM_OP_EMBEDDING_GRADIENT, embedding_gradient)                                                 \
  X(TDM_OP_EMBEDDING_SPARSE_GRADIENT, embedding_sparse_gradient)                                   \
  X(TDM_OP_EMBEDDING_BAG, embedding_bag)                                                           \
  X(TDM_OP_EMBEDDING_BAG_MAX, embedding_bag_max)                                                   \
  X(TDM_OP_EMBEDDING_BAG_GRADIENT, embedding_bag_gradient)                                         \
  X(TDM_OP_EMBEDDING_BAG_SPARSE_GRADIENT, embedding_bag_sparse_gradient)                           \
  X(TDM_OP_EMBEDDING_BAG_SCALES_GRADIENT, embedding_bag_scales_gradient)                           \
  X(TDM_OP_SPARSE_ADD, sparse_add)                                                                 \
  X(TDM_OP_TAKE_ROWS, take_rows)                                                                   \
  X(TDM_OP_PUT_ROWS, put_rows)                                                                     \
  X(TDM_OP_ADD_ROWS, add_rows)                                                                     \
  X(TDM_OP_LINEAR, linear)                                                                         \
  X(TDM_OP_LINEAR_INPUT_GRADIENT, linear_input_gradient)                                           \
  X(TDM_OP_LINEAR_PARAMETER_GRADIENT, linear_parameter_gradient)                                   \
  X(TDM_OP_MATMUL, matmul)                                                                         \
  X(TDM_OP_DOT_INTERACTION, dot_interaction)                                                       \
  X(TDM_OP_DOT_INTERACTION_GRADIENT, dot_interaction_gradient)                                     \
  X(TDM_OP_ATTENTION, attention)                                                                   \
  X(TDM_OP_ATTENTION_DROPOUT, attention_dropout)                                                   \
  X(TDM_OP_ATTENTION_GRADIENT, attention_gradient)                                                 \
  X(TDM_OP_RNN, recurrent)                                                                         \
  X(TDM_OP_LSTM, recurrent)                                                                        \
  X(TDM_OP_LSTM_TRAINING, recurrent)                                                               \
  X(TDM_OP_GRU, recurrent)                                                                         \
  X(TDM_OP_GRU_TRAINING, recurrent)                                                                \
  X(TDM_OP_RNN_GRADIENT, recurrent_gradient)                                                       \
  X(TDM_OP_LSTM_GRADIENT, recurrent_gradient)                                                      \
  X(TDM_OP_GRU_GRADIENT, recurrent_gradient)                                                       \
  X(TDM_OP_REDUCE, reduce)                                                                         \
  X(TDM_OP_REDUCE_GRADIENT, reduce_gradient)                                                       \
  X(TDM_OP_EXTREME, extreme)                                                                       \
  X(TDM_OP_EXTREME_GRADIENT, extreme_gradient)                                                     \
  X(TDM_OP_CUMSUM, cumsum)                                                                         \
  X(TDM_OP_CONVOLUTION, convolution)                                                               \
  X(TDM_OP_CONVOLUTION_INPUT_GRADIENT, convolution_input_gradient)                                 \
  X(TDM_OP_CONVOLUTION_PARAMETER_GRADIENT, convolution_parameter_gradient)                         \
  X(TDM_OP_MAX_POOL, max_pool)                                                                     \
  X(TDM_OP_MAX_POOL_GRADIENT, max_pool_gradient)                                                   \
  X(TDM_OP_AVERAGE_POOL, average_pool)                                                             \
  X(TDM_OP_AVERAGE_POOL_GRADIENT, average_pool_gradient)                                           \
  X(TDM_OP_BATCH_NORM, batch_norm)                                                                 \
  X(TDM_OP_BATCH_NORM_TRAINING, batch_norm_training)                                               \
  X(TDM_OP_BATCH_NORM_GRADIENT, batch_norm_gradient)                                               \
  X(TDM_OP_BATCH_NORM_STATISTICS, batch_norm_statistics)                                           \
  X(TDM_OP_LAYER_NORM, layer_norm)                                                                 \
  X(TDM_OP_LAYER_NORM_GRADIENT, layer_norm_gradient)                                               \
  X(TDM_OP_LAYER_NORM_PARAMETER_GRADIENT, layer_norm_parameter_gradient)                           \
  X(TDM_OP_SUB, sub)                                                                               \
  X(TDM_OP_DIV, div)                                                                               \
  X(TDM_OP_MAXIMUM, maximum)                                                                       \
  X(TDM_OP_MINIMUM, minimum)                                                                       \
  X(TDM_OP_MAXIMUM_SHARE, maximum_share)                                                           \
  X(TDM_OP_WHERE, where)                                                                           \
  X(TDM_OP_AFFINE, affine)                                                                         \
  X(TDM_OP_ABS, absolute)                                                                          \
  X(TDM_OP_ABS_GRADIENT, absolute_gradient)                                                        \
  X(TDM_OP_EXP, exp)                                                                               \
  X(TDM_OP_LOG, log)                                                                               \
  X(TDM_OP_SQRT, sqrt)                                                                             \
  X(TDM_OP_SQRT_GRADIENT, sqrt_gradient)                                                           \
  X(TDM_OP_RSQRT, rsqrt)                                                                           \
  X(TDM_OP_RSQRT_GRADIENT, rsqrt_gradient)                                                         \
  X(TDM_OP_POW, pow)                                                                               \
  X(TDM_OP_POW_GRADIENT, pow_gradient)                                                             \
  X(TDM_OP_CLAMP, clamp)                                                                           \
  X(TDM_OP_CLAMP_GRADIENT, clamp_gradient)                                                         \
  X(TDM_OP_SOFTPLUS, softplus)                                                                     \
  X(TDM_OP_SOFTPLUS_GRADIENT, softplus_gradient)                                                   \
  X(TDM_OP_ELU, elu)                                                                               \
  X(TDM_OP_ELU_GRADIENT, elu_gradient)                                                             \
  X(TDM_OP_SOFTMAX, softmax)                                                                       \
  X(TDM_OP_LOG_SOFTMAX, log_softmax)                                                               \
  X(TDM_OP_SOFTMAX_GRADIENT, softmax_gradient)                                                     \
  X(TDM_OP_LOG_SOFTMAX_GRADIENT, log_softmax_gradient)                                             \
  X(TDM_OP_CROSS_ENTROPY, cross_entropy)                                                           \
  X(TDM_OP_CROSS_ENTROPY_GRADIENT, cross_entropy_gradient)                                         \
  X(TDM_OP_COUNT_TARGETS, count_targets)                                                           \
  X(TDM_OP_NLL, nll)                                                                               \
  X(TDM_OP_NLL_GRADIENT, nll_gradient)                                                             \
  X(TDM_OP_DIVERGENCE, divergence)                                                                 \
  X(TDM_OP_DIVERGENCE_GRADIENT, divergence_gradient)                                               \
  X(TDM_OP_SMOOTH_L1, smooth_l1)                                                                   \
  X(TDM_OP_SMOOTH_L1_GRADIENT, smooth_l1_gradient)                                                 \
  X(TDM_OP_BINARY_CROSS_ENTROPY, binary_cross_entropy)                                             \
  X(TDM_OP_BINARY_CROSS_ENTROPY_GRADIENT, binary_cross_entropy_gradient)                           \
  X(TDM_OP_MSE, mse)                                                                               \
  X(TDM_OP_MSE_GRADIENT, mse_gradient)                                                             \
  X(TDM_OP_SGD, sgd)                                                                               \
  X(TDM_OP_SGD_SPARSE, sgd_sparse)                                                                 \
  X(TDM_OP_ADAM, adam)                                                                             \
  X(TDM_OP_ADAM_SPARSE, adam_sparse)                                                               \
  X(TDM_OP_ADAGRAD, adagrad)                                                                       \
  X(TDM_OP_ADAGRAD_SPARSE, adagrad_sparse)                                                         \
  X(TDM_OP_RMSPROP, rmsprop)                                                                       \
  X(TDM_OP_SUM_OF_SQUARES, sum_of_squares)                                                         \
  X(TDM_OP_CLIP_FACTOR, clip_factor)                                                               \
  X(TDM_OP_CHECK_FINITE, check_finite)

#endif
