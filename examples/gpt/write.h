/* Writing with a model that has learnt, one character a run. */
#ifndef EXAMPLES_GPT_WRITE_H
#define EXAMPLES_GPT_WRITE_H

#include "examples/char_lm/text.h"
#include "examples/gpt/model.h"

/* Names of inputs and outputs of a graph that writes, and of one that trains. */
#define GPT_CHARACTERS "characters" /* int64 (texts, n), or (batch, length) */
#define GPT_POSITIONS "positions"   /* int64 (n), in a graph that writes */
#define GPT_TARGETS "targets"       /* int64 (batch, length), in a graph that learns */
#define GPT_SCORES "scores"
#define GPT_LOSS "loss"

typedef struct gpt_wish {
  const text *like; /* text whose characters are used */
  int64_t window;   /* window of the model */
  int64_t texts;    /* number of texts that are written in the same runs */
  const char *prompt;
  int64_t count;      /* number of characters to write, in each */
  double temperature; /* scores are divided by it: below 1 likelier, above 1 wilder */
  uint64_t seed;      /* seed of the first text; each following text uses the next number */
} gpt_wish;

/* Creates a session that writes so many texts in a run with the parameters in store. Returns NULL
 * on failure. The bits of results depend neither on cached positions nor on the number of texts.
 * streams: sequences that have runs in flight concurrently. */
tdm_session *gpt_writing_session(tdm_context *context, tdm_store *store, const gpt_sizes *sizes,
                                 const char *accelerator, const char *map, int64_t texts,
                                 int streams);
/* Writes characters (texts, count) that continue the prompt to out_text, not terminated, with a
 * sequence of such a session. When the window is full, its later half becomes the context. Any
 * thread. */
tdm_status gpt_write(tdm_sequence *sequence, tdm_context *context, const gpt_wish *wish,
                     char *out_text);
/* Writes the same text with a session for training, which computes the whole window again for every
 * character. For comparison. */
tdm_status gpt_write_anew(tdm_session *session, tdm_context *context, const gpt_wish *wish,
                          char *out_text);

#endif
