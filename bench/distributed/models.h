/* The models that are trained over ranks, and what they are fed. bench/peers/distributed.py has the
 * same ones. Invariant: replicas are all that is placed, so what crosses is gradients and
 * parameters. */
#ifndef BENCH_DISTRIBUTED_MODELS_H
#define BENCH_DISTRIBUTED_MODELS_H

#include "tandem/tandem.h"

enum { MODEL_FEEDS = 2 };

typedef struct model_request {
  const char *name;     /* "main", "cnn" or "balanced" */
  const char *home;     /* device of parameters and the loss; NULL: cpu:0 */
  const char *replicas; /* devices, a replica each; NULL: the model is not replicated */
  int64_t rows;         /* rows of all replicas; 0: as many as the model has */
  int layers;           /* number of layers of "balanced", without the last; 0: 8 */
  int depth;            /* steps in flight */
  bool deterministic;
  bool profile;
  int trace_runs; /* number of runs whose timeline is recorded */
  tdm_collective collective;
  tdm_parallel_sharding sharding;
} model_request;

typedef struct opened_model {
  tdm_session *session;
  tdm_feed feeds[MODEL_FEEDS];
} opened_model;

bool model_is_known(const char *name);
/* Opens a known model; ends the program on failure. */
opened_model model_open(tdm_context *context, const model_request *request);
tdm_status model_train(opened_model *model);
void model_close(opened_model *model);

#endif
