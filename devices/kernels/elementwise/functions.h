/* The elementwise functions of one value. Everything except a line here and the formulas in each
 * kind's elements.h is the same for all of them. layers/elementwise/functions.c generates the
 * record and the public function tdm_NAME from a line, and tests generate golden cases and kernel
 * cases. Invariant: every kind has the kernels NAME, x F -> y F, and NAME_gradient. */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_FUNCTIONS_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_FUNCTIONS_H

/* DO(name, the operand that NAME_gradient reads after d_y: X or Y, precision: GIVEN or FLOAT32). */
#define TDM_FUNCTIONS(DO)                                                                          \
  DO(abs, X, GIVEN)                                                                                \
  DO(cos, X, GIVEN)                                                                                \
  DO(erf, X, GIVEN)                                                                                \
  DO(hardsigmoid, X, GIVEN)                                                                        \
  DO(hardswish, X, GIVEN)                                                                          \
  DO(mish, X, GIVEN)                                                                               \
  DO(relu, Y, GIVEN)                                                                               \
  DO(rsqrt, Y, FLOAT32)                                                                            \
  DO(sigmoid, Y, GIVEN)                                                                            \
  DO(silu, X, GIVEN)                                                                               \
  DO(sin, X, GIVEN)                                                                                \
  DO(sqrt, Y, GIVEN)                                                                               \
  DO(tanh, Y, GIVEN)

#endif
