/* The numbers that a dtype can represent. Every function that takes a number as a double checks it
 * here before it converts the number. */
#ifndef TANDEM_CORE_DTYPE_NUMBERS_H
#define TANDEM_CORE_DTYPE_NUMBERS_H

#include "tandem/core/core.h"

/* Returns true if an element of dtype can represent the number. A floating dtype rounds it, and
 * holds NaN and infinities, but no finite number above its largest. An integer dtype holds whole
 * numbers in its range. bool holds 0 and 1. */
bool tdm_dtype_holds(tdm_dtype dtype, double number);
/* Returns the least finite number that dtype holds. */
double tdm_dtype_least(tdm_dtype dtype);
/* Returns the largest number of float32, float64, an integer dtype or bool that is not above
 * `number`, which must not be NaN. Returns -infinity if there is none, and 2^63 for the largest
 * int64. */
double tdm_dtype_floor(tdm_dtype dtype, double number);
/* Fails with INVALID_ARGUMENT if dtype does not hold the number: "WHAT is 0.5, and int32 holds
 * whole numbers from -2147483648 to 2147483647". */
tdm_status tdm_dtype_check(tdm_dtype dtype, const char *what, double number) TDM_WARN_UNUSED;
/* Fails with INVALID_ARGUMENT unless dtype holds start, start + step, ... up to the last of count
 * elements. For an integer dtype, step has to be whole too. */
tdm_status tdm_dtype_check_range(tdm_dtype dtype, double start, double step,
                                 int64_t count) TDM_WARN_UNUSED;

#endif
