/* An operation that returns its input and sleeps for every row of it, so that neither the machine's
 * speed nor its load decides the duration of a stage. */
#ifndef TANDEM_TESTS_GRAPH_NAP_H
#define TANDEM_TESTS_GRAPH_NAP_H

#include <stdatomic.h>

#include "tandem/tandem.h"

extern _Atomic uint64_t nap_row_ns; /* time per row, forward and backward; set it first */

extern const tdm_kernel nap_kernel; /* float32; tests must register it */
extern const tdm_operation nap;     /* x (rows, ...) -> the same */

#endif
