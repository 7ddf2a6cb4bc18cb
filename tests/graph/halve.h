/* An update that halves the parameter that it overwrites and reads no gradient, after another
 * update of the same parameter. */
#ifndef TANDEM_TESTS_GRAPH_HALVE_H
#define TANDEM_TESTS_GRAPH_HALVE_H

#include "tandem/tandem.h"

extern const tdm_kernel halve_kernel; /* float32; tests must register it */
extern const tdm_operation halve;     /* parameter (...) -> =parameter */

#endif
