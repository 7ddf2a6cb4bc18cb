/* Public part of layers/: embedding bags. Included by layers/layers.h. The conventions of functions
 * that build a graph are at the top of graph/building.h. */
#ifndef TANDEM_LAYERS_TABLES_H
#define TANDEM_LAYERS_TABLES_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the rows of a bag are combined, element by element. */
typedef enum tdm_bag_mode {
  TDM_BAG_MEAN, /* Their mean. */
  TDM_BAG_SUM,  /* Their sum. */
  TDM_BAG_MAX   /* Their maximum. */
} tdm_bag_mode;

/* Options of tdm_embedding_bag. */
typedef struct tdm_embedding_bag_options {
  size_t struct_size;
  tdm_bag_mode mode; /* How the rows of a bag are combined. Default TDM_BAG_MEAN. */
  /* int32 or int64 (bags): where each bag begins in ids (n). Default invalid: none; ids are (bags,
   * length). */
  tdm_value offsets;
  /* true: offsets has a further element, where the last bag ends. Default false. */
  bool include_last_offset;
  /* PyTorch's per_sample_weights, of the shape of ids: each row is multiplied by one. Gradients
   * flow into them. For TDM_BAG_SUM only. Default invalid: none. */
  tdm_value scales;
  /* Id that is ignored, and whose row is initially zeros and never trained; negative: from the end.
   * Default TDM_NO_INDEX: none. */
  int64_t padding_index;
  /* true: the gradient of the table consists of rows (tdm_embedding_options.sparse). Not for
   * TDM_BAG_MAX. Default false. */
  bool sparse;
} tdm_embedding_bag_options;
static inline tdm_embedding_bag_options tdm_embedding_bag_options_default(void) {
  tdm_embedding_bag_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_embedding_bag_options);
  options.mode = TDM_BAG_MEAN;
  options.padding_index = TDM_NO_INDEX;
  return options;
}

/* Looks up bags of rows of a trained table and combines each bag into one row
 * (torch.nn.EmbeddingBag). Declares `name.weight` (rows, dim), normal(0, 1). An empty bag gives
 * zeros. Bags of one length can be cut along the batch by parallel regions and micro-batches; bags
 * with offsets cannot.
 * @code
 * tdm_embedding_bag_options options = tdm_embedding_bag_options_default();
 * options.mode = TDM_BAG_SUM;
 * options.offsets = offsets;
 * tdm_value y = tdm_embedding_bag(graph, "words", ids, 10000, 64, &options);
 * @endcode
 * @param ids int32 or int64: (bags, length), or (n) with options->offsets; each 0 to rows - 1.
 * @param rows number of rows, 1 or more.
 * @param dim size of a row, 1 or more.
 * @param options NULL: all defaults.
 * @return (bags, dim). */
TDM_API tdm_value tdm_embedding_bag(tdm_graph *graph, const char *name, tdm_value ids, int64_t rows,
                                    int64_t dim, const tdm_embedding_bag_options *options);

#ifdef __cplusplus
}
#endif
#endif
