/* Several rounds of the same figures made one. A round is an array of objects; all rounds have the
 * same objects in the same order. */
#ifndef BENCH_TRANSFER_MODEL_ROUNDS_H
#define BENCH_TRANSFER_MODEL_ROUNDS_H

#include <jansson.h>

#include "tandem/core/core.h"

/* Merges the rounds: the first round's objects, in which each number named in keys (NULL ends them)
 * is replaced by the median over the rounds. The caller owns *out_merged. INTERNAL if rounds differ
 * in their structure. */
tdm_status rounds_merge(json_t *rounds, const char *const *keys,
                        json_t **out_merged) TDM_WARN_UNUSED;

/* {"transfers": count, "least_bytes", "median_error", "p90_error"} of |predicted / measured - 1|
 * over the merged transfers of least_bytes and more; NULL where there is none, or memory is short.
 */
json_t *rounds_errors(json_t *transfers, double least_bytes);

/* By how much the predictions of a transfer differ from their median over the rounds, in the
 * median: what changed in the machine from one calibration to another. */
double rounds_drift(json_t *rounds, json_t *merged, double least_bytes);

#endif
