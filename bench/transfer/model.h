/* Transfers of whole models: what each was predicted to take, what it took, and how much of a
 * training step that is. */
#ifndef BENCH_TRANSFER_MODEL_H
#define BENCH_TRANSFER_MODEL_H

#include <stdio.h>

#include "bench/transfer/options.h"
#include "bench/transfer/report.h"

/* Measures both models on cpu:0 and the accelerator, prints a table to out and writes the options'
 * JSON. */
tdm_status model_transfers(tdm_context *context, const transfer_options *given, const machine *told,
                           FILE *out) TDM_WARN_UNUSED;

#endif
