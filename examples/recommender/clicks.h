/* Clicks that a documented model makes, so that the example needs no data. A sample has
 *   dense   x_1 .. x_DENSE, standard normal,
 *   ids     for each table `lookups` rows, row = floor(rows u^3) with u uniform: few are common,
 *   click   1 with probability sigmoid(-1 + 1.5 d + 2 t + i), where d is a fixed unit vector's
 *           product with x, t the sum of the rows' hidden effects (standard normal) by
 *           1 / sqrt(their number), i the product of the mean effects of tables 0 and 1 by
 *           sqrt(lookups): the interaction of two tables.
 * Invariant: a sample depends only on the seed and its number. */
#ifndef EXAMPLES_RECOMMENDER_CLICKS_H
#define EXAMPLES_RECOMMENDER_CLICKS_H

#include <tandem/tandem.h>

enum { DENSE = 13 }; /* number of dense features in Criteo's logs */

typedef struct clicks {
  uint64_t seed;
  int64_t tables;
  int64_t rows; /* number of rows of a table */
  int64_t lookups;
  int64_t first; /* number of the first sample */
} clicks;

/* Samples from->first .. + count: fields dense float32 (DENSE), ids int64 (tables lookups), click
 * float32 (1). from is borrowed, and must outlive the dataset. NULL on failure, with a message. */
tdm_dataset *clicks_dataset(tdm_context *context, const clicks *from, int64_t count);
enum { CLICKS_DENSE, CLICKS_IDS, CLICKS_CLICK, CLICKS_FIELDS };

#endif
