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
  tdm_bag_mode mode; /* default TDM_BAG_MEAN */
  tdm_value offsets; /* int (bags): where each bag begins in ids of one dimension; or invalid */
  bool include_last_offset; /* offsets has one more, where the last bag ends */
  tdm_value scales; /* like ids: PyTorch's per_sample_weights, with their gradient; of sums only */
  /* In no bag, its row zeros and never trained; negative: from the end. Default TDM_NO_INDEX: none.
   */
  int64_t padding_index;
  bool sparse; /* the table's gradient as rows; not for maxima */
} tdm_embedding_bag_options;
static inline tdm_embedding_bag_options tdm_embedding_bag_options_default(void) {
  tdm_embedding_bag_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_embedding_bag_options);
  options.mode = TDM_BAG_MEAN;
  options.padding_index = TDM_NO_INDEX;
  return options;
}

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
