/* An update that halves what it overwrites and reads no gradient, behind another of the same
 * parameter. */
#ifndef TANDEM_TESTS_GRAPH_HALVE_H
#define TANDEM_TESTS_GRAPH_HALVE_H

#include "tandem/tandem.h"

extern const tdm_kernel halve_kernel; /* to be registered; float32 */
extern const tdm_operation halve;     /* parameter (...) -> =parameter */

#endif
