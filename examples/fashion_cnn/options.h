/* The command line of fashion_cnn. Invariant: strings point into argv; nothing to free. */
#ifndef EXAMPLES_FASHION_CNN_OPTIONS_H
#define EXAMPLES_FASHION_CNN_OPTIONS_H

#include "tandem.h"

typedef struct options {
  const char *data;     /* the folder of the four files */
  const char *place;    /* a device map; NULL: convolutions on cpu:0, the rest on the accelerator */
  const char *parallel; /* devices of the convolutions, which are wrapped; NULL: they are not */
  const char *trace_path; /* NULL: not asked for; so with all paths */
  const char *save_path;
  int64_t epochs;
  int64_t batch_size;
  int64_t training_images; /* 0: all */
  int64_t test_images;     /* 0: all */
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
