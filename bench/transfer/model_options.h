/* The command line of //bench:transfer: options of copies and of --model. Invariant: see
 * options.h. */
#ifndef BENCH_TRANSFER_MODEL_OPTIONS_H
#define BENCH_TRANSFER_MODEL_OPTIONS_H

#include "bench/transfer/options.h"

enum { MOST_LISTS = 32 };

typedef struct model_options {
  transfer_options copies;
  const char *lists[MOST_LISTS]; /* LANGUAGE=FILE, for the main model (list_count) */
  size_t list_count;
  const char *accelerator; /* device of the models' dense parts; NULL: a GPU, else sim:0 */
  int64_t table_rows;      /* rows of the embedding model */
  int64_t largest_batch;   /* larger batches of the models are skipped */
  int64_t steps;           /* measured, of each model */
  int64_t rounds;          /* repetitions of all measurements */
  bool model;
  bool calibrate; /* measure the links before the models' transfers are predicted */
} model_options;

extern const option_table model_table;

/* Fills out_options from the arguments, defaults where there are none. Fails naming the argument;
 * names of cases and devices are not looked at here. */
tdm_status model_options_read(int argc, char **argv, model_options *out_options) TDM_WARN_UNUSED;

#endif
