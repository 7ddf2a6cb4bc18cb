/* The functions of one value alone, element by element: what a line here and the formulas of the
 * kinds (elements.h of each) do not say is the same for all. layers/functions.c makes the record
 * and the public function tdm_NAME of a line; tests take their golden cases and cases of kernels by
 * it. Invariant: every kind has the kernels NAME, x F -> y F, and NAME_gradient. */
#ifndef TANDEM_DEVICES_FUNCTIONS_H
#define TANDEM_DEVICES_FUNCTIONS_H

/* DO(name, what NAME_gradient reads behind d_y: X or Y, precision: GIVEN or FLOAT32). */
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
