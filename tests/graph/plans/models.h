/* Models whose plans are recorded: between them every pass, placement and algorithm has something
 * to do. Sizes are small, so that a plan can be read. */
#ifndef TANDEM_TESTS_GRAPH_PLANS_MODELS_H
#define TANDEM_TESTS_GRAPH_PLANS_MODELS_H

#include "core/status.h"
#include "tandem/tandem.h"

enum {
  PLAN_MOST_FEEDS = 3,
  /* Sizes of most models. */
  PLAN_ROWS = 6,
  PLAN_STEPS = 3,
  PLAN_WIDTH = 8,
  PLAN_TABLE_ROWS = 20,
  PLAN_CLASSES = 4,
};

typedef struct plan_feed {
  const char *name; /* NULL: there are no more */
  tdm_dtype dtype;
  tdm_shape shape;
} plan_feed;

typedef struct plan_model {
  const char *name; /* name; its plan is recorded in NAME.txt */
  const char *says; /* the purpose of the model */
  /* Describes the model and returns its loss. It may change the options and the optimizer, which is
   * tdm_sgd(0.1) at first. */
  tdm_value (*build)(tdm_graph *graph, tdm_session_options *options, tdm_optimizer *optimizer);
  plan_feed feeds[PLAN_MOST_FEEDS];
  const char *fetch;   /* an output, in a run that does not train; NULL: a training step */
  int ranks;           /* number of ranks of the job; 0: no job */
  bool in_sequence;    /* the run is part of a sequence */
  const char *machine; /* description of the machine, whose devices are paper:0, ...; NULL: none */
} plan_model;

extern const plan_model plan_placed_models[]; /* models placed on consecutive devices */
extern const size_t plan_placed_count;
extern const plan_model plan_parallel_models[]; /* replicas, shards, described machines */
extern const size_t plan_parallel_count;
extern const plan_model plan_job_models[]; /* models of jobs with several ranks */
extern const size_t plan_job_count;

/* Describes x -> three layers below the scope "net" -> the loss "loss", which is in the scope if
 * loss_within. device NULL: not placed. */
tdm_value plan_build_net(tdm_graph *graph, const char *device, bool loss_within);
/* Wraps the scope in replicas on these devices. */
void plan_wrap(tdm_graph *graph, const char *scope, const char *devices);
/* Adds the net and its loss as replicas, with parameters on home. Gradients are summed by the given
 * algorithm. */
tdm_value plan_build_summed(tdm_graph *graph, tdm_session_options *options, const char *home,
                            const char *devices, tdm_collective collective);
/* Adds the same with data of the region sharded. */
tdm_value plan_build_sharded(tdm_graph *graph, const char *home, const char *devices,
                             tdm_parallel_sharding sharding);
/* Adds two tables below "users" and "items", sharded over devices, and the loss of their rows. */
tdm_value plan_build_shards(tdm_graph *graph, tdm_optimizer *optimizer, tdm_shard_by by,
                            const char *devices);

/* Defined in placed_models.c, and used for other devices as well. */
tdm_value plan_build_rows(tdm_graph *graph, tdm_session_options *options, tdm_optimizer *optimizer);
tdm_value plan_build_image(tdm_graph *graph, tdm_session_options *options,
                           tdm_optimizer *optimizer);
tdm_value plan_build_steps(tdm_graph *graph, tdm_session_options *options,
                           tdm_optimizer *optimizer);
tdm_value plan_build_block(tdm_graph *graph, tdm_session_options *options,
                           tdm_optimizer *optimizer);

#define PLAN_IMAGE_FEEDS                                                                           \
  { PLAN_FLOATS("images", 4, PLAN_ROWS, 1, 6, 6), PLAN_IDS("targets") }
#define PLAN_STEPS_FEEDS                                                                           \
  { PLAN_FLOATS("steps", 3, PLAN_STEPS, PLAN_ROWS, PLAN_WIDTH), PLAN_IDS("targets") }
#define PLAN_BLOCK_FEEDS                                                                           \
  {                                                                                                \
    {                                                                                              \
      "ids", TDM_INT64, {                                                                          \
        2, {                                                                                       \
          PLAN_ROWS, PLAN_STEPS                                                                    \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }
#define PLAN_NET_FEEDS                                                                             \
  { PLAN_FLOATS("x", 2, PLAN_ROWS, PLAN_WIDTH) }
#define PLAN_SHARD_FEEDS                                                                           \
  { {"ids", TDM_INT64, {2, {PLAN_ROWS, 2}}}, PLAN_FLOATS("y", 2, PLAN_ROWS, PLAN_WIDTH) }

#define PLAN_IDS(name)                                                                             \
  {                                                                                                \
    name, TDM_INT64, {                                                                             \
      1, {                                                                                         \
        PLAN_ROWS                                                                                  \
      }                                                                                            \
    }                                                                                              \
  }
#define PLAN_FLOATS(name, rank, ...)                                                               \
  {                                                                                                \
    name, TDM_FLOAT32, {                                                                           \
      rank, {                                                                                      \
        __VA_ARGS__                                                                                \
      }                                                                                            \
    }                                                                                              \
  }

#endif
