/* Types and functions of each update, generated from its macros in optimizers.h. The kernels of
 * every kind, and the reference of tests, define the following macros and then include this header:
 *
 * - number, root_of, absolute_of, choose(condition, yes, no): an element, or a vector of elements.
 * - FOR_REAL, FOR_STORED: what precedes a type that depends on `real`, the type of computations,
 *   or on `stored`, the type in memory. FOR_REAL_FUNCTION, FOR_STORED_FUNCTION: the same for
 *   functions.
 * - OF_REAL(type), OF_STORED(type): such a type. REAL_OF_STORED(type): the type for the `real` of
 *   `stored`.
 * - USING_REAL: declares `real` in a function that depends on `stored`.
 * - WIDENED(x), NARROWED(x): `stored` as double, and a `real` as `stored`.
 *
 * Generated are, for each update:
 *
 * - NAME_numbers: the values that all elements of a step share.
 * - NAME_element: gradient, parameter and states of one element.
 * - NAME_operands: their addresses; NULL for states that do not exist or that a run does not use.
 * - NAME_count: counts the states of each shape.
 * - NAME_read: reads the attributes of a call, with the run's momentum, and its operands.
 * - NAME_begin: changes the scalar states and computes the numbers of a step.
 * - NAME_update: changes one element. */
#ifndef TANDEM_DEVICES_KERNELS_UPDATES_FORMULAS_H
#define TANDEM_DEVICES_KERNELS_UPDATES_FORMULAS_H

#include <math.h>
#include <stdbool.h>

#include "devices/kernels/updates/optimizers.h"
#include "tandem/devices/kernel.h"

enum { UPDATE_MOST_STATES = 4, UPDATE_ELEMENTS = 0, UPDATE_NUMBER, UPDATE_SHAPES };

/* Returns the gradient plus decay times the parameter. Without decay nothing is added, even for an
 * infinite parameter. */
FOR_REAL_FUNCTION number with_decay(number gradient, number parameter, real decay) {
  return decay == 0 ? gradient : gradient + decay * parameter;
}

/* Returns the larger number; a NaN stays, as in torch.maximum. */
FOR_REAL_FUNCTION number larger_of(number a, number b) {
  return choose((a > b) | (a != a), a, b);
}

#define UPDATE_NUMBER_FIELD(number, value) real number;
#define UPDATE_NO_FIELD(state, value)
#define UPDATE_ELEMENT_FIELD(state, shape, condition, initial) UPDATE_FIELD_##shape(state)
#define UPDATE_FIELD_ELEMENTS(state) number state;
#define UPDATE_FIELD_NUMBER(state)
#define UPDATE_OPERAND_FIELD(state, shape, condition, initial) stored *state;
#define UPDATE_COUNT(state, shape, condition, initial)                                             \
  if (condition) counts[UPDATE_##shape]++;
#define UPDATE_HAS(state, shape, condition, initial) has[i++] = (condition);
#define UPDATE_READ_OPERAND(state, shape, condition, initial)                                      \
  at->state = exists[i] && used[i] ? (stored *)call->outputs[output] : NULL;                       \
  output += exists[i++];
#define UPDATE_VALUE(state, shape, condition, initial) UPDATE_VALUE_##shape(state)
#define UPDATE_VALUE_ELEMENTS(state)
#define UPDATE_VALUE_NUMBER(state) double state = at->state ? WIDENED(*at->state) : 0.0;
#define UPDATE_SET_NUMBER(number, value)                                                           \
  const double number = (double)(value);                                                           \
  n->number = (real)number;
#define UPDATE_SET_STATE(state, value)                                                             \
  if (at->state) {                                                                                 \
    *at->state = NARROWED((real)(value));                                                          \
    state = WIDENED(*at->state);                                                                   \
  }

/* clang-format off */
#define UPDATE_FUNCTIONS(name, replaced)                                                           \
  FOR_REAL struct name##_numbers { TDM_NUMBERS_##name(UPDATE_NUMBER_FIELD, UPDATE_NO_FIELD) };     \
  FOR_REAL struct name##_element {                                                                 \
    number gradient, parameter;                                                                    \
    TDM_STATES_##name(UPDATE_ELEMENT_FIELD)                                                        \
  };                                                                                               \
  FOR_STORED struct name##_operands {                                                              \
    const stored *gradient;                                                                        \
    stored *parameter;                                                                             \
    TDM_STATES_##name(UPDATE_OPERAND_FIELD)                                                        \
  };                                                                                               \
  static inline void name##_count(const tdm_##name##_attributes *a, int counts[UPDATE_SHAPES]) {   \
    (void)a;                                                                                       \
    counts[UPDATE_ELEMENTS] = counts[UPDATE_NUMBER] = 0;                                           \
    TDM_STATES_##name(UPDATE_COUNT)                                                                \
  }                                                                                                \
  static inline void name##_has(const tdm_##name##_attributes *a, bool has[UPDATE_MOST_STATES]) {  \
    size_t i = 0;                                                                                  \
    (void)a;                                                                                       \
    TDM_STATES_##name(UPDATE_HAS)                                                                  \
  }                                                                                                \
  FOR_STORED_FUNCTION void name##_read(const tdm_kernel_call *call, tdm_##name##_attributes *a,    \
                                       OF_STORED(name##_operands) * at) {                          \
    const int place = TDM_SETTING_PLACE(name, replaced);                                           \
    double *settings = (double *)a;                                                                \
    bool exists[UPDATE_MOST_STATES], used[UPDATE_MOST_STATES];                                     \
    size_t i = 0, output = 1;                                                                      \
    *a = *(const tdm_##name##_attributes *)call->attributes;                                       \
    name##_has(a, exists);                                                                         \
    if (place > 0 && settings[place - 1] != 0 && call->scalars->has_momentum)                      \
      settings[place - 1] = call->scalars->momentum;                                               \
    name##_has(a, used);                                                                           \
    at->gradient = (const stored *)call->inputs[1];                                                \
    at->parameter = (stored *)call->outputs[0];                                                    \
    TDM_STATES_##name(UPDATE_READ_OPERAND)                                                         \
  }                                                                                                \
  FOR_STORED_FUNCTION ON_DEVICES void name##_begin(                                                \
      const tdm_##name##_attributes *a, double learning_rate,                                      \
      const OF_STORED(name##_operands) * at, REAL_OF_STORED(name##_numbers) * n) {                 \
    USING_REAL                                                                                     \
    (void)learning_rate, (void)at;                                                                 \
    TDM_STATES_##name(UPDATE_VALUE)                                                                \
    TDM_NUMBERS_##name(UPDATE_SET_NUMBER, UPDATE_SET_STATE)                                        \
  }                                                                                                \
  FOR_REAL_FUNCTION void name##_update(const OF_REAL(name##_numbers) * n,                          \
                                       OF_REAL(name##_element) * e) {                              \
    TDM_FORMULA_##name                                                                             \
  }

/* clang-format on */

TDM_UPDATES(UPDATE_FUNCTIONS)
UPDATE_FUNCTIONS(adam_sparse, beta1)

#endif
