/* Schedules for tests and benchmarks: built step by step, drawn at random, or like a model's.
 * Everything random is a pure function of a seed. */
#ifndef TANDEM_TESTS_GRAPH_SCHEDULE_RANDOM_SCHEDULE_H
#define TANDEM_TESTS_GRAPH_SCHEDULE_RANDOM_SCHEDULE_H

#include "graph/schedule/schedule.h"

/* Numbers in order from a stream of tdm_random. */
struct numbers {
  tdm_random random;
  uint64_t next;
};

struct numbers numbers_of(const char *stream, uint64_t seed);
uint32_t numbers_below(struct numbers *numbers, uint32_t limit); /* [0, limit); limit > 0 */
bool numbers_chance(struct numbers *numbers, uint32_t percent);

/* The functions append, and return the number of the storage or step. Running out of memory is an
 * error in *status, which keeps the first error. Accesses belong to the last step. */
struct builder {
  tdm_schedule *schedule;
  tdm_status status;
};

uint32_t builder_storage(struct builder *builder, tdm_place_kind kind, uint32_t arena,
                         uint64_t bytes);
/* Adds a storage with `count` parts of these sizes, which are the storages after it. */
uint32_t builder_whole(struct builder *builder, tdm_place_kind kind, uint32_t arena,
                       const uint64_t *part_bytes, uint32_t count);
uint32_t builder_step(struct builder *builder, uint32_t queue, tdm_phase phase);
void builder_reads(struct builder *builder, uint32_t storage);
void builder_writes(struct builder *builder, uint32_t storage);
/* adds a wait to the last step */
void builder_wait(struct builder *builder, uint32_t step, bool previous);

/* Executes the three passes, in order. */
tdm_status schedule_plan(tdm_schedule *schedule);

struct random_limits {
  uint32_t steps, queues, arenas, depth;
};

/* Draws steps, values, state and updates from seed, within limits; no pass has run. Initialises
 * schedule, which the caller releases. */
tdm_status random_schedule(tdm_schedule *schedule, uint64_t seed, struct random_limits limits);

struct model {
  uint32_t layers;
  uint32_t queues; /* 1: one device; otherwise two queues per device, compute and copies */
  bool training;   /* backward and updates too */
  uint32_t depth;
  uint64_t seed; /* seed of the sizes of values */
};

/* A chain of layers over the devices, values crossing between them by copies: activations live
 * until the backward step that reads them. */
tdm_status model_schedule(tdm_schedule *schedule, struct model model);

#endif
