/* The command line of transfer. Invariant: strings point into argv; nothing to free. */
#ifndef BENCH_TRANSFER_OPTIONS_H
#define BENCH_TRANSFER_OPTIONS_H

#include "tandem/core/core.h"

enum { MOST_SIZES = 64, MOST_LISTS = 32 };

typedef struct transfer_options {
  size_t sizes[MOST_SIZES]; /* bytes, in the order given (size_count) */
  size_t size_count;
  int64_t samples;     /* 0: by size */
  const char *devices; /* comma lists, checked against what there is; NULL: all */
  const char *cases;
  const char *memories;
  const char *json_path; /* "-": standard output; NULL: not asked for; so with all paths */
  const char *csv_path;
  const char *plot_path;
  const char *lists[MOST_LISTS]; /* LANGUAGE=FILE, for the main model (list_count) */
  size_t list_count;
  const char *accelerator; /* of the models' dense parts; NULL: a GPU, else sim:0 */
  int64_t table_rows;      /* of the embedding model */
  int64_t largest_batch;   /* larger ones of the models are left out */
  int64_t steps;           /* measured, of each model */
  int64_t rounds;          /* of all of that */
  bool model;
  bool calibrate; /* measure the links before the models' transfers are predicted */
  bool help;
} transfer_options;

/* Goes to the user's folder where `bazel run` has left it, then fills out_options from the
 * arguments, defaults where there are none. Fails naming the argument;
 * names of cases and devices are not looked at here. */
tdm_status transfer_options_read(int argc, char **argv,
                                 transfer_options *out_options) TDM_WARN_UNUSED;
void transfer_options_print_help(void);
/* Is name one of the comma separated list? NULL lists everything. */
bool list_has(const char *list, const char *name);
/* Takes the next name of *cursor into name (capacity); false at the end. */
bool list_next(const char **cursor, char *name, size_t capacity);

#endif
