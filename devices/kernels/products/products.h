/* Operations: linear layers, products of matrices and of vectors. Part of devices/kernels.h, which
 * describes the notation. */
#ifndef TANDEM_DEVICES_KERNELS_PRODUCTS_PRODUCTS_H
#define TANDEM_DEVICES_KERNELS_PRODUCTS_PRODUCTS_H

#include <stdint.h>

/* x F (..., in), weight F (out, in), [bias F (out)] -> F (..., out): x weight^T + bias. */
#define TDM_OP_LINEAR "linear"
/* d_out F (..., out), weight F (out, in) -> d_x F (..., in). */
#define TDM_OP_LINEAR_INPUT_GRADIENT "linear_input_gradient"
/* d_out F (..., out), x F (..., in) -> d_weight F (out, in), d_bias F (out). Always both. */
#define TDM_OP_LINEAR_PARAMETER_GRADIENT "linear_parameter_gradient"

/* a F (..., m, k), b F (..., k, n) -> F (..., m, n), batch by batch; leading dimensions are brought
 * to one rank from the left with 1, and those of 1 are repeated. A transposed operand lies as
 * (..., k, m) or (..., n, k); never both. */
#define TDM_OP_MATMUL "matmul"
typedef struct tdm_matmul_attributes {
  int64_t transpose_a; /* 0 or 1 */
  int64_t transpose_b;
} tdm_matmul_attributes;

/* x F (batch, vectors, dim) -> F (batch, pairs): the products of vectors i and j < i (with `self`
 * j <= i), i after i, j ascending. */
#define TDM_OP_DOT_INTERACTION "dot_interaction"
/* d_y F (batch, pairs), x -> d_x. */
#define TDM_OP_DOT_INTERACTION_GRADIENT "dot_interaction_gradient"
#define TDM_MAX_INTERACTING 256 /* vectors */
typedef struct tdm_dot_interaction_attributes {
  int64_t self; /* 0 or 1 */
} tdm_dot_interaction_attributes;

#endif
