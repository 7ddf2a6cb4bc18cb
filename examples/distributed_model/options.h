/* The command line of distributed_model. Invariant: strings point into argv or into the struct
 * itself; nothing to free. */
#ifndef EXAMPLES_DISTRIBUTED_MODEL_OPTIONS_H
#define EXAMPLES_DISTRIBUTED_MODEL_OPTIONS_H

#include "tandem.h"

enum { MAX_LANGUAGES = 32, MAX_LANGUAGE_NAME = 64 };

typedef struct options {
  tdm_word_list lists[MAX_LANGUAGES]; /* one a language */
  size_t list_count;
  char names[MAX_LANGUAGES][MAX_LANGUAGE_NAME]; /* of languages given by --words */
  char **predict;                               /* words to ask about (predict_count) */
  int predict_count;
  const char *save_path; /* NULL: not asked for; so with all paths */
  const char *load_path;
  const char *dot_path;
  const char *dump_path;
  const char *trace_path;
  const char *place;    /* a device map; NULL: embedding on cpu:0, the rest on the accelerator */
  const char *parallel; /* devices of the recurrent part, which is wrapped; NULL: it is not */
  int64_t epochs;
  bool epochs_given;
  int64_t batch_size;
  int64_t micro_batches;      /* parts that a step cuts its batch into; TDM_MICRO_BATCHES_AUTO */
  int64_t words_per_language; /* 0: all */
  uint64_t seed;
  double learning_rate; /* of the first step */
  bool explain;
  bool help;
} options;

/* Fills out_options from the arguments, defaults where there are none. Fails naming the argument.
 */
tdm_status options_read(int argc, char **argv, options *out_options);
void options_print_help(void);

#endif
