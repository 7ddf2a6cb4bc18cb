/* The models whose transfers are looked at. Invariant: feeds are drawn from a fixed seed, so every
 * run moves the same. */
#ifndef BENCH_TRANSFER_SUBJECT_H
#define BENCH_TRANSFER_SUBJECT_H

#include "bench/transfer/model_options.h"
#include "tandem/tandem.h"

enum { SUBJECT_FEEDS = 2 };

typedef struct subject {
  tdm_context *context; /* borrowed */
  tdm_session *session;
  void *state; /* state that is private to the subject's kind */
  /* Feeds of a batch; their tensors are the caller's. On failure none is left. */
  tdm_status (*make_feeds)(const struct subject *self, int64_t batch, tdm_feed *out_feeds);
  void (*close)(struct subject *self); /* accepts half-opened ones */
} subject;

/* Each opens a model with its embedding on cpu:0 and the rest on the accelerator; profile records
 * the times of its transfers. On failure *out_subject is closed. */
typedef tdm_status (*subject_open)(tdm_context *context, const model_options *given, bool profile,
                                   subject *out_subject);
/* Opens examples/distributed_model with random words. */
tdm_status subject_open_main(tdm_context *context, const model_options *given, bool profile,
                             subject *out_subject) TDM_WARN_UNUSED;
/* Opens a table of many rows, trained with sparse gradients, and a small dense part. */
tdm_status subject_open_embedding(tdm_context *context, const model_options *given, bool profile,
                                  subject *out_subject) TDM_WARN_UNUSED;

/* int64 numbers in [low, high) of that shape, on cpu:0; NULL on failure. */
tdm_tensor *subject_draw_ids(tdm_context *context, tdm_shape shape, int64_t low, int64_t high);
void subject_release_feeds(tdm_feed *feeds);

#endif
