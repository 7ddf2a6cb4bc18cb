/* Contexts whose accelerators are eight and pause at random: one file a kind. */
#ifndef TANDEM_TESTS_PARALLEL_DELAYS_H
#define TANDEM_TESTS_PARALLEL_DELAYS_H

#include "tests/parallel/support.h"

/* Creates a context with two cpu devices and eight accelerators; what pauses, and how long, is
 * drawn from seed (> 0). */
tdm_context *delayed_context(uint64_t seed);

/* The number of seeds for which a test has time, since emulated streams are slow. */
extern const uint64_t delayed_seeds;

#endif
