/* Transfers of whole models: what each was predicted to take, what it took, and how much of a
 * training step that is. */
#ifndef BENCH_TRANSFER_MODEL_H
#define BENCH_TRANSFER_MODEL_H

#include <stdio.h>

#include "bench/transfer/model_options.h"
#include "bench/transfer/report.h"

/* Measures both models on cpu:0 and the accelerator, prints a table to out, and JSON as the options
 * say. */
tdm_status model_transfers(tdm_context *context, const model_options *given, const machine *told,
                           FILE *out) TDM_WARN_UNUSED;

#endif
