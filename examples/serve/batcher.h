/* Queued words, and batches of them in flight. A batch is one run of the model: words of one
 * length, as many as are queued and fit, padded to the next size that has a plan. Invariant: every
 * accepted word gets one result, on the loop; at most `depth` batches are in flight. */
#ifndef EXAMPLES_SERVE_BATCHER_H
#define EXAMPLES_SERVE_BATCHER_H

#include <uv.h>

#include "examples/serve/metrics.h"
#include "examples/words/words.h"
#include <tandem/tandem.h>

enum { BATCHER_MAX_LENGTH = 24 }; /* characters of a word */

typedef struct batcher batcher;

/* The model's result for one word. */
typedef struct verdict {
  const char *word;
  const char *language; /* the most likely; NULL: the run failed with message */
  double probability;
  const char *message;
} verdict;

typedef struct batcher_options {
  uv_loop_t *loop;
  tdm_context *context;
  tdm_session *session; /* session of the model; borrowed, and so are the words */
  word_set *words;
  const char *input;  /* int64 (length, batch) */
  const char *output; /* float (batch, languages) */
  int max_batch;
  int depth;       /* runs in flight */
  int queue_limit; /* words waiting */
  metrics *counted;
  /* Called on the loop's thread with the result and the `user` that was passed to batcher_ask. */
  void (*answer)(void *user, const verdict *said);
} batcher_options;

tdm_status batcher_create(const batcher_options *given, batcher **out_batcher);
/* Creates every plan that can be required: all lengths, all sizes. */
tdm_status batcher_prepare(batcher *self);
/* Requests the result of word (UTF-8). Words that arrive together are batched. INVALID_ARGUMENT
 * with the error in the word; UNAVAILABLE if the queue is full. On failure `answer` is not
 * called. */
tdm_status batcher_ask(batcher *self, const char *word, void *user);
int batcher_queued(const batcher *self);
int batcher_in_flight(const batcher *self);
/* Closes its handle on the loop; nothing is queued or in flight any more. */
void batcher_close(batcher *self);
/* Once the loop has run to its end. NULL is legal. */
void batcher_free(batcher *self);

#endif
