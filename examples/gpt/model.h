/* A small GPT (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019) over
 * characters. The graph for training and the graph for writing have the same parameters, with the
 * same names. */
#ifndef EXAMPLES_GPT_MODEL_H
#define EXAMPLES_GPT_MODEL_H

#include <tandem/tandem.h>

typedef struct gpt_sizes {
  int64_t characters; /* number of different characters */
  int64_t width;
  int64_t heads;
  int64_t layers;
  int64_t window; /* characters that it looks back on */
} gpt_sizes;

/* Learning: characters int64 (batch, length), length at most the window -> scores (batch, length,
 * characters) of the character after each. The first half of the layers is on cpu:0, the others on
 * the accelerator; NULL: nothing is placed. */
tdm_value gpt_learns(tdm_graph *graph, const gpt_sizes *sizes, tdm_value characters,
                     const char *accelerator);
/* Computes scores of the next characters of several texts: characters int64 (texts, n), at
 * positions int64 (n) of each text -> scores (texts, n, characters). The sequence has processed the
 * positions before. Every layer keeps the keys and values of the window's positions. */
tdm_value gpt_writes(tdm_graph *graph, const gpt_sizes *sizes, int64_t texts, tdm_value characters,
                     tdm_value positions, const char *accelerator);

#endif
