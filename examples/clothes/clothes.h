/* Shared by the examples on Fashion-MNIST: everything except the model. */
#ifndef EXAMPLES_CLOTHES_CLOTHES_H
#define EXAMPLES_CLOTHES_CLOTHES_H

#include "examples/clothes/fashion_mnist.h"
#include "examples/common/common_options.h"

typedef struct clothes_options {
  common_options common;
  const char *data;        /* the folder of the four files */
  int64_t training_images; /* 0: all */
  int64_t test_images;     /* 0: all */
} clothes_options;

enum { CLOTHES_ROW_COUNT = 3 };
extern const option clothes_rows[CLOTHES_ROW_COUNT];
/* Folder of the files in Debian's package. */
#define FASHION_MNIST_FOLDER "/usr/share/datasets/fashion-mnist"

/* A model. Its options are a clothes_options, whose rows are clothes_rows. */
typedef struct clothes_model {
  const option_table *table;
  /* Adds kernels of the model's own to the context; NULL: it has none. */
  tdm_status (*prepare)(tdm_context *context);
  /* Describes the model for images float32 (batch, 1, 28, 28) and classes int64 (batch). Returns
   * its loss, and in *out_scores its scores (batch, 10). accelerator and parallel (devices over
   * which a part is wrapped) may be NULL. */
  tdm_value (*describe)(tdm_graph *graph, tdm_value images, tdm_value classes,
                        const char *accelerator, const char *parallel, tdm_value *out_scores);
} clothes_model;

/* Runs the program: trains, evaluates, saves and reports. Returns its exit code. */
int clothes_main(const clothes_model *model, int argc, char **argv);

#endif
