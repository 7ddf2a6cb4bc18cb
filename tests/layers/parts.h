/* Training of a batch in parts, in micro-batches or over devices, compared with the whole batch. */
#ifndef TESTS_LAYERS_PARTS_H
#define TESTS_LAYERS_PARTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tandem/tandem.h"

enum { STEPS = 3 };

typedef struct way {
  int micro_batches;
  const char *devices; /* NULL: no region */
} way;

/* Trains a model from its beginning in that way; float64 losses (STEPS). */
typedef void (*train_function)(tdm_context *context, const way *chosen, double *out_losses);

/* Trains with this many rows. Losses decrease, and differ between the variants only by rounding. */
static inline void check_parts(train_function train, int rows) {
  static const way whole = {0, NULL};
  const way ways[] = {{3, NULL}, {rows, NULL}, {0, "cpu:0,sim:0"}, {2, "cpu:0,sim:0,cpu:0"}};
  tdm_context *context = tdm_context_create(NULL);
  double losses[STEPS], found[STEPS];
  train(context, &whole, losses);
  assert_true(losses[STEPS - 1] < losses[0]);
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    train(context, &ways[i], found);
    for (int k = 0; k < STEPS; k++) {
      const double off = found[k] - losses[k];
      if (!(off < 1e-11 && off > -1e-11))
        fail_msg("way %zu, step %d: %.17g and not %.17g", i, k, found[k], losses[k]);
    }
  }
  tdm_context_release(context);
}

#endif
