/* The command line of distributed_model. Invariant: strings point into argv or into the struct
 * itself; nothing to free. */
#ifndef EXAMPLES_DISTRIBUTED_MODEL_OPTIONS_H
#define EXAMPLES_DISTRIBUTED_MODEL_OPTIONS_H

#include "examples/common/common_options.h"
#include "examples/words/words.h"

enum { MAX_LANGUAGES = 32, MAX_LANGUAGE_NAME = 64 };

typedef struct options {
  common_options common;
  word_list lists[MAX_LANGUAGES]; /* one list for each language */
  size_t list_count;
  char names[MAX_LANGUAGES][MAX_LANGUAGE_NAME]; /* names of languages given by --words */
  char **predict;                               /* words to ask about (predict_count) */
  int predict_count;
  const char *dump_path;      /* NULL: not requested */
  int64_t words_per_language; /* 0: all */
} options;

extern const option_table options_table;

/* Checks the options together: default lists, and a sufficient number of lists. */
tdm_status options_complete(options *given);
/* Fills out_options from the arguments, defaults where there are none. Fails naming the argument.
 */
tdm_status options_read(int argc, char **argv, options *out_options);

#endif
