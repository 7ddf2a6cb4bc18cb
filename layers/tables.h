/* Public part of layers/: bags of a table's rows. Included by layers/layers.h, whose rules hold
 * here too. */
#ifndef TANDEM_LAYERS_TABLES_H
#define TANDEM_LAYERS_TABLES_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a bag's rows become: their mean, their sum, the largest of each element. */
typedef enum tdm_bag_mode { TDM_BAG_MEAN, TDM_BAG_SUM, TDM_BAG_MAX } tdm_bag_mode;

typedef struct tdm_embedding_bag_options {
  size_t struct_size;
  tdm_bag_mode mode; /* 0: means */
  tdm_value offsets; /* int (bags): where each bag begins in ids of one dimension; or invalid */
  bool include_last_offset; /* offsets has one more, where the last bag ends */
  tdm_value scales; /* like ids: PyTorch's per_sample_weights, with their gradient; of sums only */
  bool has_padding_index;
  int64_t padding_index; /* negative: from the end; in no bag, its row zeros and never trained */
  bool sparse;           /* the table's gradient as rows; not for maxima */
} tdm_embedding_bag_options;

/* PyTorch's EmbeddingBag: ids int (bags, length), or (n) with offsets -> (bags, dim), the sum, mean
 * or maximum of a bag's rows; zeros for an empty bag. name.weight (rows, dim), normal(0, 1).
 * options may be NULL: means. Bags of one length can be cut along the batch, in replicas and in
 * micro-batches; bags given by offsets cannot. */
TDM_API tdm_value tdm_embedding_bag(tdm_graph *graph, const char *name, tdm_value ids, int64_t rows,
                                    int64_t dim, const tdm_embedding_bag_options *options);

#ifdef __cplusplus
}
#endif
#endif
