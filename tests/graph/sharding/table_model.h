/* Models with one table, which is sharded or not, and their inputs: for the tests of sharded
 * tables. Invariant: all numbers come from seeds, so two of them that differ only in shards have
 * the same inputs. */
#ifndef TANDEM_TESTS_GRAPH_SHARDING_TABLE_MODEL_H
#define TANDEM_TESTS_GRAPH_SHARDING_TABLE_MODEL_H

#include "tests/graph/support.h"

enum { BATCH = 7, LENGTH = 3 };

typedef enum looker { ROWS_OF_IDS, BAGS_OF_SUMS, BAGS_OF_MEANS, BAGS_OF_MAXIMA, LOOKERS } looker;

/* A model with one table, and how it is trained. */
typedef struct table_case {
  looker looks;
  int64_t rows;
  int64_t dim;
  tdm_dtype dtype;
  tdm_dtype ids;
  bool padded;
  bool sparse;
  bool by_offsets; /* bags */
  bool scaled;     /* bags of sums */
  int micro_batches;
  bool wrapped;
  bool adaptive;
  bool factored;      /* the optimizer is Adafactor, whose states are of rows and of columns */
  const char *reader; /* device of the look-up */
  const char *devices;
  double weights[4];
  bool weighted;
  tdm_shard_by by;
} table_case;

/* 11 x 3, in two shards, with states. */
extern const table_case in_two;

/* Adds the loss, an output as well as "y"; the table is looked up by "ids" below "model". */
tdm_value table_model_build(tdm_graph *graph, const table_case *self, bool sharded);
/* Creates a session that trains it; NULL if it was refused. store NULL: a new store. */
tdm_session *table_session(tdm_context *context, const table_case *self, bool sharded,
                           tdm_store *store);

enum { MOST_FEEDS = 4 };

typedef struct table_batch {
  tdm_feed feeds[MOST_FEEDS];
  size_t count;
} table_batch;

/* `rows` of them, at most BATCH. */
void table_batch_make(table_batch *batch, tdm_context *context, const table_case *self,
                      int64_t rows, uint64_t seed);
void table_batch_release(table_batch *batch);
/* ids (BATCH, LENGTH) instead of those drawn. */
void table_batch_set_ids(table_batch *batch, tdm_context *context, const int64_t *ids);

/* Executes one step of both. Their results and their stores must be equal. */
void step_both(tdm_session *const sessions[2], tdm_context *context, const table_case *self,
               uint64_t seed);
/* Returns true if gradients have the same bits, too. If a row's adjoint is a product, kernels of
 * bags add it to others without rounding it first, but shards receive it rounded. */
bool table_is_exact(const table_case *self);
void assert_same_stores(tdm_session *a, tdm_session *b, bool exact);

#endif
