/* DLRM (Naumov et al., "Deep learning recommendation model for personalization and recommendation
 * systems", 2019): embedding bags and dense numbers meet in the products of all pairs of vectors.
 */
#ifndef EXAMPLES_RECOMMENDER_MODEL_H
#define EXAMPLES_RECOMMENDER_MODEL_H

#include <tandem/tandem.h>

enum {
  MOST_TABLES = 63
}; /* these tables and the dense vector are the inputs of one
    * concatenation */

typedef struct recommender_sizes {
  int64_t tables;     /* 1 to MOST_TABLES */
  int64_t rows;       /* number of rows of a table */
  int64_t lookups;    /* rows that a sample sums of a table */
  int64_t dim;        /* width of a row */
  int64_t hidden;     /* hidden width of both multilayer perceptrons */
  const char *shards; /* the devices that have the tables; NULL: cpu:0 */
  bool whole_tables;  /* each of them has some of the tables, and not some rows of each */
} recommender_sizes;

/* dense float32 (batch, dense), ids int64 (batch, tables lookups), clicks float32 (batch, 1) -> the
 * loss; *out_logits gets (batch, 1). Tables live on cpu:0, all else on the accelerator, or is
 * wrapped over the devices of parallel; either may be NULL. Tables have sparse gradients. Where
 * they are sharded, each of those devices looks up what it needs of them. */
tdm_value recommender_describe(tdm_graph *graph, const recommender_sizes *sizes, tdm_value dense,
                               tdm_value ids, tdm_value clicks, const char *accelerator,
                               const char *parallel, tdm_value *out_logits);

#endif
