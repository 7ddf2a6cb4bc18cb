/* Operations: tables, bags of rows, rows of tables that lie in shards. Part of devices/kernels.h,
 * which describes the notation. */
#ifndef TANDEM_DEVICES_KERNELS_TABLES_LOOKUP_H
#define TANDEM_DEVICES_KERNELS_TABLES_LOOKUP_H

#include <stdint.h>

#include "devices/kernels/moves/shape.h"

/* weight F (rows, dim), ids (...) -> F (..., dim). An id outside [0, rows) fails, naming it. */
#define TDM_OP_EMBEDDING "embedding"
/* d_out F (..., dim), ids (...) -> d_weight F (rows, dim), zero where no id points and at padding;
 * contributions to a row are summed in the order of ids. */
#define TDM_OP_EMBEDDING_GRADIENT "embedding_gradient"
/* d_out F (..., dim), ids (...) -> rows F (n, dim), indices int64 (n), count int64 (). n is the
 * number of ids. The first count indices are the distinct ids in ascending order; each of their
 * rows is the sum over the id's duplicates in the order of ids. Padding is left out. The other
 * indices are -1, their rows 0. */
#define TDM_OP_EMBEDDING_SPARSE_GRADIENT "embedding_sparse_gradient"
typedef struct tdm_embedding_attributes {
  int64_t rows;
  int64_t padding_index; /* -1: none; its row gets no gradient */
} tdm_embedding_attributes;

/* weight F (rows, dim), ids (bags, length) or (n), [offsets ids: the begin of each bag of (n), and
 * with `ends` also the end of the last bag], [scales F like ids] -> y F (bags, dim). A row of y is
 * the sum of its bag's rows without the padding (each times its scale), or their average if `mean`;
 * it is zeros for an empty bag. Offsets begin with 0 and ascend up to n; ids after the last end are
 * in no bag. An invalid id or offset fails, and the message names it. */
#define TDM_OP_EMBEDDING_BAG "embedding_bag"
/* The same operands without scales -> y F (bags, dim): the largest of each column, winners int64
 * (bags, dim): its position among all ids, the first of equals; -1 for an empty bag. */
#define TDM_OP_EMBEDDING_BAG_MAX "embedding_bag_max"
/* d_y F (bags, dim), ids, [offsets], [scales], [winners] -> d_weight F (rows, dim). */
#define TDM_OP_EMBEDDING_BAG_GRADIENT "embedding_bag_gradient"
/* d_y, ids, [offsets], [scales] -> rows F (n, dim), indices int64 (n), count int64 (), as
 * embedding_sparse_gradient has them. */
#define TDM_OP_EMBEDDING_BAG_SPARSE_GRADIENT "embedding_bag_sparse_gradient"
/* d_y, weight, ids, [offsets] -> d_scales F like ids; 0 at padding. */
#define TDM_OP_EMBEDDING_BAG_SCALES_GRADIENT "embedding_bag_scales_gradient"
typedef struct tdm_embedding_bag_attributes {
  int64_t rows;
  int64_t padding_index; /* -1: none */
  int64_t mean;          /* 0 or 1 */
  int64_t ends;          /* 1: offsets has one entry more than there are bags */
} tdm_embedding_bag_attributes;

/* a_rows F (n, dim), a_indices (n), a_count (), b_rows F (m, dim), b_indices (m), b_count () ->
 * rows F (n+m, dim), indices (n+m), count (): their sum, a's contribution first. No attributes. */
#define TDM_OP_SPARSE_ADD "sparse_add"

/* table F (rows, dim), indices int64 (n) -> F (n, dim), int64 (n): the rows named, zeros where an
 * index is -1; and the indices. No attributes. */
#define TDM_OP_TAKE_ROWS "take_rows"
/* table F (rows, dim), values F (n, dim), indices int64 (n) -> =table with those rows; an index of
 * -1 is passed over, the others are distinct. No attributes. */
#define TDM_OP_PUT_ROWS "put_rows"
/* The same -> =table with the values added to those rows. No attributes. */
#define TDM_OP_ADD_ROWS "add_rows"
/* whole (rows, ...), values (n, ...), indices ids (n) -> =whole with those rows, of any dtype;
 * indices are distinct, and one outside [0, rows) fails, naming it. No attributes. */
#define TDM_OP_INDEX_COPY "index_copy"

/* ids (...) of a table of `table_rows` rows -> taken int64 (n), summed int64 (n), for the shard
 * that has `rows` rows from `first` on.
 *
 * - taken: each id's row of the shard, or -1 if another shard has it, as take_rows reads them.
 * - summed: the same, but `rows` if another shard has it or it is the padding. These are the ids
 *   of the gradient of a table with one more row, which is its padding.
 *
 * An id outside the table fails, and the message names it. */
#define TDM_OP_SHARD_IDS "shard_ids"
typedef struct tdm_shard_ids_attributes {
  int64_t table_rows;
  int64_t first;
  int64_t rows;
  int64_t padding_index; /* id of the table that is padding; -1: none */
} tdm_shard_ids_attributes;
/* ids (...) of a table in `count` shards -> places int64 (...). Shard s has rows ends[s - 1] <= id
 * < ends[s]. The place of id i of n is the index of its row among the (count n) rows that all
 * shards took: s n + i. It is count n if the id is the padding. An id outside the table fails, and
 * the message names it. */
#define TDM_OP_SHARD_PLACES "shard_places"
typedef struct tdm_shard_places_attributes {
  int64_t padding_index; /* -1: none */
  int64_t count;
  int64_t ends[TDM_MAX_PARTS];
} tdm_shard_places_attributes;

#endif
