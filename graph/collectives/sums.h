/* What the files of the pass share: the sums that it has found, what they cost, how they are made.
 * Invariant: the node of a sum stays in the graph until the node that makes its value takes it
 * over. */
#ifndef TANDEM_GRAPH_COLLECTIVES_SUMS_H
#define TANDEM_GRAPH_COLLECTIVES_SUMS_H

#include "graph/ir/rewriter.h"
#include "tandem/graph/sessions.h"

typedef struct tdm_sum {
  tdm_ir_node *node;
  uint32_t value;           /* the sum, on the node's device */
  tdm_collective algorithm; /* AUTO: not chosen yet */
  bool late;                /* only updates need it */
  bool can_chain;
  bool can_go_around;  /* in a ring or a tree */
  bool can_come_home;  /* each term by a link of its own */
  bool can_all_reduce; /* every rank of a job has terms; of one rank: its devices are a group */
  bool on_devices;     /* and its devices are a group, whose engine makes it */
  bool can_own;        /* every device that has a term can do the updates for itself */
  bool own;            /* and does */
  bool everywhere;     /* and shall, though homes are spread */
  bool comes_home;     /* at home, but its terms travel as a ring's do: the homes are spread */
  size_t bucket;       /* in rounds: the first of those that its terms come into */
  uint32_t count;      /* of devices that have terms */
  int16_t *devices;    /* (count), as the terms come; of a tree the home first, if it is there */
  uint32_t *totals;    /* (count): the device's own terms; in the end the sum, where it has it */
  uint32_t *pieces;    /* ring: (count, count) of each device's own, then of the sum */
  uint32_t *current;   /* ring: (count) pieces of the sum so far; chain: (piece_count); comes_home:
                          (inputs of the node) terms, as they lie at home */
  size_t piece_count;  /* chain */
} tdm_sum;

typedef struct tdm_sums {
  tdm_graph *graph;
  tdm_region *region;
  tdm_ir_node *updates; /* the first; NULL: there are none */
  tdm_sum *items;       /* (count), in plan order */
  size_t count;
} tdm_sums;

static inline int16_t tdm_place_of(const tdm_graph *graph, uint32_t value) {
  return tdm_ir_value_at(graph, value)->device;
}
static inline double tdm_sum_bytes(const tdm_graph *graph, const tdm_sum *sum) {
  return (double)tdm_ir_value_at(graph, sum->value)->bytes;
}
static inline const tdm_shape *tdm_sum_shape(const tdm_graph *graph, const tdm_sum *sum) {
  return &tdm_ir_value_at(graph, sum->value)->spec.shape;
}

/* ---- What algorithms cost (costs.c) ---- */

/* How long the busiest link is busy with all late sums, and with the parameters that are copied out
 * again, by algorithm. What an algorithm cannot do is done at home. */
void tdm_predict_sums(const tdm_sums *sums, double out_ns[TDM_COLLECTIVE_COUNT]);
/* Of the late sums alone, at home; what of that is latencies. */
double tdm_home_ns(const tdm_sums *sums);
double tdm_home_latencies_ns(const tdm_sums *sums);
/* A sum's time by one of the algorithms. */
double tdm_sum_ns(const tdm_sums *sums, const tdm_sum *sum, tdm_collective algorithm);
/* Whether a tree is for it what a ring is for others: messages are few, or latencies most of them.
 */
bool tdm_is_for_tree(const tdm_graph *graph, const tdm_sum *sum);
/* A sum's time in all-reduces of buckets, and how many bytes a bucket has (all_reduces.c). */
double tdm_all_reduce_ns(const tdm_sums *sums, const tdm_sum *sum);
double tdm_bucket_bytes(const tdm_sums *sums);
bool tdm_can_all_reduce(const tdm_graph *graph, const tdm_sum *sum);
/* Which engine makes the sum on its devices; NULL: hosts do, and text (TDM_GROUP_REASON_BYTES) says
 * why, as tdm_group_engine does. */
const char *tdm_sum_engine(const tdm_graph *graph, const tdm_sum *sum, char *text);
/* Whether each hop of an algorithm has a link of its own. */
bool tdm_can_chain(const tdm_graph *graph, const tdm_sum *sum);
bool tdm_can_go_around(const tdm_graph *graph, const tdm_sum *sum);
bool tdm_can_come_home(const tdm_graph *graph, const tdm_sum *sum);
/* Terms that do not lie at home. */
size_t tdm_terms_from_afar(const tdm_graph *graph, const tdm_sum *sum);
/* Pieces that a chain cuts the value into. */
size_t tdm_chain_pieces(const tdm_graph *graph, const tdm_sum *sum);

/* ---- Making them ---- */

/* Where a node of the sum is made on a device. */
tdm_insertion tdm_sum_insertion(const tdm_sum *sum, tdm_ir_node *before, int16_t device);
/* total, term -> total on the device, in total's memory or (fresh) in memory of its own. */
uint32_t tdm_sum_add(tdm_graph *graph, const tdm_insertion *at, const tdm_sum *sum, bool fresh,
                     uint32_t total, uint32_t term, size_t bucket);
/* The term as memory of the sum's own, which may be overwritten; 0 on failure. */
uint32_t tdm_own_term(tdm_graph *graph, const tdm_insertion *at, uint32_t term);
/* The term as memory of the sum's own on the insertion's device, wherever it lies; 0 on failure. */
uint32_t tdm_begin_total(tdm_graph *graph, const tdm_insertion *at, uint32_t term);
/* The value cut into pieces on its device. */
tdm_status tdm_cut_term(tdm_graph *graph, const tdm_insertion *at, uint32_t value, size_t count,
                        uint32_t *out_pieces) TDM_WARN_UNUSED;
/* The pieces, which lie anywhere, as one value of the sum's shape on the insertion's device. */
uint32_t tdm_put_together(tdm_graph *graph, const tdm_insertion *at, const tdm_sum *sum,
                          const uint32_t *pieces, size_t count);
/* x, which lies anywhere, in that shape on the insertion's device: a copy's target, no kernel. */
uint32_t tdm_view_there(tdm_graph *graph, const tdm_insertion *at, const tdm_shape *shape,
                        uint32_t x);
/* The node that made the sum in the end takes over its value; nobody else reads made. */
tdm_status tdm_take_over(tdm_graph *graph, const tdm_sum *sum, uint32_t made) TDM_WARN_UNUSED;

/* At home, or in a chain, where the sum stands (chains.c). */
tdm_status tdm_sum_at_home(tdm_graph *graph, tdm_sum *sum) TDM_WARN_UNUSED;
tdm_status tdm_sum_in_chain(const tdm_sums *sums, tdm_sum *sum) TDM_WARN_UNUSED;
/* Moves whoever reads a sum that is there later than it stands, around or by an all-reduce, by
 * whatever other nodes, right before the updates; answers the first of them (rounds.c). */
tdm_status tdm_defer_readers(const tdm_sums *sums, tdm_ir_node **out_first) TDM_WARN_UNUSED;
/* All that the engine sums over ranks (all_reduces.c). */
tdm_status tdm_sum_by_all_reduces(const tdm_sums *sums) TDM_WARN_UNUSED;
/* All that go in rings or trees (rounds.c); nodes take turns by device. */
tdm_status tdm_sum_in_rounds(const tdm_sums *sums) TDM_WARN_UNUSED;

/* ---- Updates (own_updates.c) ---- */

/* Finds for each sum whether all that it updates may be updated on every device by itself. */
tdm_status tdm_find_own_updates(const tdm_sums *sums) TDM_WARN_UNUSED;
/* Gives every device of the sums that are to be had everywhere (own, totals) updates of its own. */
tdm_status tdm_insert_own_updates(const tdm_sums *sums) TDM_WARN_UNUSED;

#endif
