/* The language model: characters (batch, length) -> embedding -> LSTM -> a score for each character
 * that may follow. The states of the LSTM are inputs and outputs, so a text can be read window by
 * window. */
#ifndef EXAMPLES_CHAR_LM_MODEL_H
#define EXAMPLES_CHAR_LM_MODEL_H

#include <tandem/tandem.h>

typedef struct char_model_sizes {
  int64_t characters; /* number of different characters */
  int64_t embedding;
  int64_t hidden;
  int64_t layers; /* number of layers of the LSTM, at most MOST_LAYERS */
} char_model_sizes;
enum { MOST_LAYERS = 4 };

typedef struct char_model_values {
  tdm_value scores; /* (batch, length, characters) */
  tdm_value h_n;    /* (layers, batch, hidden) */
  tdm_value c_n;    /* (layers, batch, hidden) */
  tdm_value loss;
} char_model_values;

/* characters, targets int64 (batch, length); h0, c0 float32 (layers, batch, hidden). The LSTM and
 * what follows live on the accelerator, or are wrapped over the devices of parallel; either may be
 * NULL. */
char_model_values char_model_describe(tdm_graph *graph, const char_model_sizes *sizes,
                                      tdm_value characters, tdm_value targets, tdm_value h0,
                                      tdm_value c0, const char *accelerator, const char *parallel);

#endif
