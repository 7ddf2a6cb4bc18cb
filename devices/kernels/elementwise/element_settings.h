/* Scalar parameters of elementwise formulas in addition to their operands, in one struct for all
 * operations. Shared by the kernels of every kind. */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_ELEMENT_SETTINGS_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_ELEMENT_SETTINGS_H

#include "devices/kernels/elementwise/pointwise.h"

/* All zeros if the operation has none. */
typedef struct tdm_element_settings {
  double first;
  double second;
  bool flag;
} tdm_element_settings;

/* Reads an operation's attributes. */
typedef tdm_element_settings (*tdm_element_settings_reader)(const void *attributes);

static inline tdm_element_settings tdm_no_settings(const void *attributes) {
  const tdm_element_settings none = {0, 0, false};
  (void)attributes;
  return none;
}

/* Reads `first` and `second`. */
static inline tdm_element_settings tdm_function_settings(const void *attributes) {
  const tdm_function_attributes *read = (const tdm_function_attributes *)attributes;
  const tdm_element_settings settings = {read->first, read->second, false};
  return settings;
}

/* Reads `flag`: by_tanh. */
static inline tdm_element_settings tdm_gelu_settings(const void *attributes) {
  const tdm_gelu_attributes *read = (const tdm_gelu_attributes *)attributes;
  const tdm_element_settings settings = {0, 0, read->by_tanh != 0};
  return settings;
}

/* Reads `first`: slope. */
static inline tdm_element_settings tdm_leaky_relu_settings(const void *attributes) {
  const tdm_leaky_relu_attributes *read = (const tdm_leaky_relu_attributes *)attributes;
  const tdm_element_settings settings = {read->slope, 0, false};
  return settings;
}

#endif
