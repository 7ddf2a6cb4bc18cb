/* An operation that hands on what it is given and sleeps for every row of it, so that neither the
 * machine's speed nor its load decides how long a stage takes. */
#ifndef TANDEM_TESTS_GRAPH_NAP_H
#define TANDEM_TESTS_GRAPH_NAP_H

#include <stdatomic.h>

#include "tandem/tandem.h"

extern _Atomic uint64_t nap_row_ns; /* what a row takes, forward and back; set it first */

extern const tdm_kernel nap_kernel; /* to be registered; float32 */
extern const tdm_operation nap;     /* x (rows, ...) -> the same */

#endif
