/* Elements of one dtype from elements of another (devices/kernels/elementwise/conversions.h). */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_CPU_CONVERT_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_CPU_CONVERT_H

#include "tandem/devices/kernel.h"

/* Converts count elements of a floating dtype. */
void convert_to_double(tdm_dtype dtype, const void *from, double *to, int64_t count);
/* Converts count elements of an integer dtype or bool. */
void convert_to_int64(tdm_dtype dtype, const void *from, int64_t *to, int64_t count);
/* Convert to count elements of any dtype except the 16-bit ones. */
void convert_from_double(tdm_dtype dtype, const double *from, void *to, int64_t count);
void convert_from_int64(tdm_dtype dtype, const int64_t *from, void *to, int64_t count);

#endif
