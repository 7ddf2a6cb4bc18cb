/* Models whose runs and training steps are timed. bench/peers/models.py has rows of the same names
 * and sizes, fed with the same numbers. */
#ifndef BENCH_MODELS_MODELS_H
#define BENCH_MODELS_MODELS_H

#include "bench/timing.h"

enum { MODEL_MAX_FEEDS = 6, MODEL_MAX_BATCHES = 16 };

/* A session on model_device, and the feeds of one run, from the host's memory. The feeds of a
 * forward run come first; the rest are those of the loss. */
typedef struct model {
  tdm_graph *graph;
  tdm_session *session;
  tdm_feed feeds[MODEL_MAX_FEEDS];
  size_t forward_feed_count;
  size_t feed_count;
  /* Taken in turn as the first feed, where a table's rows would else stay in the caches. */
  tdm_tensor *batches[MODEL_MAX_BATCHES];
  size_t batch_count;
  size_t next_batch;
  const char *output;
} model;

/* The device of everything; cpu:0 unless set before models are made. */
extern const char *model_device;
/* True: sessions record the times of their kernels. Set before models are made. */
extern bool model_profiles;
/* True: elementwise operations are not fused. Set before models are made. */
extern bool model_unfused;

/* Creates a graph on model_device, whose forward runs fetch `output`. */
model model_begin(tdm_context *context, const char *output);
/* Creates the session of what was described; ends the program if it can not. */
void model_finish(model *made, tdm_value loss, tdm_optimizer optimizer);
/* The first feed is the next of the batches, if there are some. */
void model_turn(model *turned);
/* Adds a feed; takes the tensor. */
void model_feed(model *made, const char *name, tdm_tensor *tensor);
/* (count) numbers of int64, (first + i) * step % limit. */
tdm_tensor *model_ids(tdm_context *context, int64_t first, int64_t count, int64_t step,
                      int64_t limit);
/* Numbers in [-1, 1). */
tdm_tensor *model_uniform(tdm_context *context, tdm_shape shape, uint64_t seed);
void model_release(model *released);

/* Embedding(1000, 10) and Linear(10, 10), cross-entropy, SGD; `rows` ids. */
model model_words(tdm_context *context, int64_t rows);
/* 100 times Linear(10, 10), mean squared error, SGD; `rows` rows. */
model model_chain(tdm_context *context, int64_t rows);
/* dropout(gelu(x) * sigmoid(p * x) + x) of (rows, 256), p being a parameter like x, mean squared
 * error, SGD. */
model model_elements(tdm_context *context, int64_t rows);
/* LeNet (LeCun et al., "Gradient-based learning applied to document recognition", 1998) with ReLU
 * and maximum pooling, cross-entropy, SGD; `rows` images of 28 x 28. */
model model_lenet(tdm_context *context, int64_t rows);
/* Creates a model: the first three stages of ResNet-18 (He et al., "Deep residual learning for
 * image recognition", 2016), cross-entropy, SGD; `rows` images of 64 x 64. */
model model_residual(tdm_context *context, int64_t rows);
/* LSTM 256 -> 512 over 128 steps, mean squared error of all of them, SGD; `rows` sequences. */
model model_lstm(tdm_context *context, int64_t rows);
/* Creates a model: a decoder as GPT-2's (Radford et al., "Language models are unsupervised
 * multitask learners", 2019): 4 blocks, 512 wide, 8 heads, 1,000 tokens, cross-entropy of each next
 * token, SGD; `rows` texts of 256 tokens. */
model model_gpt(tdm_context *context, int64_t rows);
/* Sums of 26 rows of a table of 1,000,000 x 64: only these, and before an MLP 64-512-256-1 with
 * mean squared error and SGD. The table's gradient is sparse. A run has `rows` bags, different ones
 * in each of 16 runs. */
model model_bag(tdm_context *context, int64_t rows);
model model_recommender(tdm_context *context, int64_t rows);

#endif
