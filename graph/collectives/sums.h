/* State shared by the files of the pass: the sums that it has found, their costs, and how they are
 * made. Invariant: the node of a sum stays in the graph until the node that computes its value
 * replaces it. */
#ifndef TANDEM_GRAPH_COLLECTIVES_SUMS_H
#define TANDEM_GRAPH_COLLECTIVES_SUMS_H

#include "graph/ir/rewriter.h"
#include "tandem/graph/sessions.h"

typedef struct tdm_sum {
  tdm_ir_node *node;
  uint32_t value;           /* the sum, on the node's device */
  tdm_collective algorithm; /* chosen algorithm; AUTO: not chosen yet */
  bool late;                /* only updates use it */
  bool can_chain;
  bool can_go_around;  /* the sum can be computed in a ring or a tree */
  bool can_come_home;  /* each term can use its own link */
  bool can_all_reduce; /* every rank of a job has terms; with one rank: its devices are a group */
  bool on_devices; /* can_all_reduce, and the devices are a group, whose engine computes the sum */
  bool can_own;        /* every device with a term can do the updates itself */
  bool own;            /* every device with a term does the updates itself */
  bool everywhere;     /* `own`, required even though states are sharded */
  bool comes_home;     /* computed at home, but its terms travel as in a ring, because states are
                        * sharded */
  size_t bucket;       /* index of the first bucket for its terms; only used in rounds */
  uint32_t count;      /* number of devices with terms */
  int16_t *devices;    /* (count), in the order of terms; in a tree the home is first */
  uint32_t *totals;    /* (count): the device's own terms; in the end the sum, where available */
  uint32_t *pieces;    /* ring: (count, count) of each device's own terms, then of the sum */
  uint32_t *current;   /* ring: (count) pieces of the partial sum; chain: (piece_count); comes_home:
                        * (inputs of the node) terms at home */
  size_t piece_count;  /* number of pieces in a chain */
} tdm_sum;

typedef struct tdm_sums {
  tdm_graph *graph;
  tdm_region *region;
  tdm_ir_node *updates; /* the first update; NULL: none */
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
  return &tdm_ir_value_at(graph, sum->value)->spec->shape;
}

/* ---- Costs of algorithms (costs.c) ----------------------------------------------------------- */

/* Predicts, by algorithm, how long the busiest link is busy with all late sums, and with the
 * parameters that are copied again. A sum that the algorithm cannot make is made at home. */
void tdm_predict_sums(const tdm_sums *sums, double out_ns[TDM_COLLECTIVE_COUNT]);
/* Returns the time of only the late sums, at home, and how much of it is latencies. */
double tdm_home_ns(const tdm_sums *sums);
double tdm_home_latencies_ns(const tdm_sums *sums);
/* Returns a sum's time by one of the algorithms. */
double tdm_sum_ns(const tdm_sums *sums, const tdm_sum *sum, tdm_collective algorithm);
/* Returns true if the sum should use a tree instead of a ring: few messages, or mostly
 * latencies. */
bool tdm_is_for_tree(const tdm_graph *graph, const tdm_sum *sum);
/* Returns a sum's time in all-reduces of buckets, and the bytes of a bucket (all_reduces.c). */
double tdm_all_reduce_ns(const tdm_sums *sums, const tdm_sum *sum);
double tdm_bucket_bytes(const tdm_sums *sums);
bool tdm_can_all_reduce(const tdm_graph *graph, const tdm_sum *sum);
/* Returns the engine that makes the sum on its devices. Returns NULL if hosts make it, with the
 * reason in text (TDM_GROUP_REASON_BYTES), as for tdm_group_engine. */
const char *tdm_sum_engine(const tdm_graph *graph, const tdm_sum *sum, char *text);
/* Return true if each hop of an algorithm has its own link. */
bool tdm_can_chain(const tdm_graph *graph, const tdm_sum *sum);
bool tdm_can_go_around(const tdm_graph *graph, const tdm_sum *sum);
bool tdm_can_come_home(const tdm_graph *graph, const tdm_sum *sum);
/* Returns the number of terms that are not at home. */
size_t tdm_terms_from_afar(const tdm_graph *graph, const tdm_sum *sum);
/* Returns the number of pieces that a chain cuts the value into. */
size_t tdm_chain_pieces(const tdm_graph *graph, const tdm_sum *sum);

/* ---- Inserting sums -------------------------------------------------------------------------- */

/* Returns where a node of the sum is inserted on a device. */
tdm_insertion tdm_sum_insertion(const tdm_sum *sum, tdm_ir_node *before, int16_t device);
/* Adds total, term -> total on the device, in total's memory or (fresh) in its own. */
uint32_t tdm_sum_add(tdm_graph *graph, const tdm_insertion *at, const tdm_sum *sum, bool fresh,
                     uint32_t total, uint32_t term, size_t bucket);
/* Returns the term in memory of the sum, which may be overwritten; 0 on failure. */
uint32_t tdm_own_term(tdm_graph *graph, const tdm_insertion *at, uint32_t term);
/* Returns the term, from any device, in memory of the sum on the insertion's device; 0 on
 * failure. */
uint32_t tdm_begin_total(tdm_graph *graph, const tdm_insertion *at, uint32_t term);
/* Cuts the value into pieces on its device. */
tdm_status tdm_cut_term(tdm_graph *graph, const tdm_insertion *at, uint32_t value, size_t count,
                        uint32_t *out_pieces) TDM_WARN_UNUSED;
/* Joins the pieces, from any devices, to one value of the sum's shape on the insertion's device. */
uint32_t tdm_put_together(tdm_graph *graph, const tdm_insertion *at, const tdm_sum *sum,
                          const uint32_t *pieces, size_t count);
/* Returns x, from any device, with that shape on the insertion's device: the target of a copy,
 * without a kernel. */
uint32_t tdm_view_there(tdm_graph *graph, const tdm_insertion *at, const tdm_shape *shape,
                        uint32_t x);
/* Gives the sum's value to the node that computed it. No other node reads made. */
tdm_status tdm_take_over(tdm_graph *graph, const tdm_sum *sum, uint32_t made) TDM_WARN_UNUSED;

/* Makes the sum at its place, at home or in a chain (chains.c). */
tdm_status tdm_sum_at_home(tdm_graph *graph, tdm_sum *sum) TDM_WARN_UNUSED;
tdm_status tdm_sum_in_chain(const tdm_sums *sums, tdm_sum *sum) TDM_WARN_UNUSED;
/* Moves the readers of sums that are available later than their place, because they are made around
 * or by an all-reduce. They are moved right before the updates, even across other nodes. Returns
 * the first of them (rounds.c). */
tdm_status tdm_defer_readers(const tdm_sums *sums, tdm_ir_node **out_first) TDM_WARN_UNUSED;
/* Makes all sums over ranks by the engine (all_reduces.c). */
tdm_status tdm_sum_by_all_reduces(const tdm_sums *sums) TDM_WARN_UNUSED;
/* Makes all sums in rings or trees (rounds.c); nodes take turns by device. */
tdm_status tdm_sum_in_rounds(const tdm_sums *sums) TDM_WARN_UNUSED;

/* ---- Updates (own_updates.c) ----------------------------------------------------------------- */

/* Finds for each sum whether every device can do all its updates itself. */
tdm_status tdm_find_own_updates(const tdm_sums *sums) TDM_WARN_UNUSED;
/* Inserts separate updates on every device of the sums that all devices get (own, totals). */
tdm_status tdm_insert_own_updates(const tdm_sums *sums) TDM_WARN_UNUSED;

#endif
