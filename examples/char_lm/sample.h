/* Writing text with a trained model. */
#ifndef EXAMPLES_CHAR_LM_SAMPLE_H
#define EXAMPLES_CHAR_LM_SAMPLE_H

#include "examples/char_lm/text.h"

typedef struct sample_options {
  const char *prompt;
  int64_t count;      /* number of characters to write */
  double temperature; /* scores are divided by it: below 1 likelier, above 1 wilder */
  uint64_t seed;
} sample_options;

/* The session's inputs and outputs, as main.c declares them. */
#define CHAR_LM_CHARACTERS "characters" /* int64 (batch, length) */
#define CHAR_LM_TARGETS "targets"       /* int64 (batch, length) */
#define CHAR_LM_H0 "h0"                 /* float32 (layers, batch, hidden) */
#define CHAR_LM_C0 "c0"
#define CHAR_LM_H_N "h_n"
#define CHAR_LM_C_N "c_n"
#define CHAR_LM_SCORES "scores" /* float32 (batch, length, characters) */
#define CHAR_LM_LOSS "loss"

/* Prints the prompt and the model's continuation. zeros (layers, 1, hidden) is the initial state.
 * The same seed and parameters give the same text. */
tdm_status sample(tdm_context *context, tdm_session *session, const text *of,
                  const sample_options *given, tdm_tensor *zeros);

#endif
