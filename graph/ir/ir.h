/* The intermediate form that all passes work on: nodes, values, and what a user's graph holds
 * besides. A user's graph has symbolic shapes; lower.c makes a concrete copy of what a run needs,
 * and the passes rewrite that copy.
 * Invariants: index 0 of nodes and values is unused (invalid); a node's outputs have consecutive
 * indices; nodes and values never move, so pointers to them stay valid; live nodes are linked in a
 * topological order, which is the plan order. rewriter.h has the verbs that change a graph. */
#ifndef TANDEM_GRAPH_IR_IR_H
#define TANDEM_GRAPH_IR_IR_H

#include "core/allocate.h"
#include "core/map.h"
#include "devices/context/context.h"
#include "devices/contract/device.h"
#include "devices/kernels.h"
#include "graph/ir/prepared.h"
#include "tandem/graph/graph.h"

#define TDM_NO_DEVICE (-1)

typedef enum tdm_value_kind {
  TDM_VALUE_NODE,       /* a node's output */
  TDM_VALUE_INPUT,      /* fed */
  TDM_VALUE_PERSISTENT, /* a parameter or state at its home */
  TDM_VALUE_DERIVED,    /* a persistent copy of a parameter on another device */
  TDM_VALUE_LOG,        /* the rows that one update of a table has touched, beside the table */
} tdm_value_kind;

typedef struct tdm_ir_value {
  tdm_spec spec;
  uint64_t bytes;    /* of memory; 0 until layout where shapes are symbolic */
  uint32_t producer; /* 0: none */
  uint32_t root;     /* the value whose memory this is; itself if its own */
  uint64_t offset;   /* in the root's memory, in bytes */
  uint32_t readers;  /* inputs of nodes that are this value */
  uint32_t binding;  /* INPUT, PERSISTENT, DERIVED, LOG: index in that list */
  int16_t device;    /* context index of the device, or TDM_NO_DEVICE */
  uint8_t kind;      /* tdm_value_kind */
  bool trainable;
  bool pinned;      /* INPUT: fed from a pinned staging buffer */
  bool handed_out;  /* a run's caller gets this memory itself */
  uint32_t kept;    /* INPUT: not fed, but a sequence's: 1 + its index there; 0: fed */
  const char *name; /* of inputs and persistents */
} tdm_ir_value;

typedef enum tdm_node_role {
  TDM_ROLE_FORWARD,
  TDM_ROLE_GRADIENT, /* backward, and what prepares the update */
  TDM_ROLE_UPDATE,   /* overwrites persistent values: the last phase */
  TDM_ROLE_REORDER,
  TDM_ROLE_TRANSFER, /* between devices: an edge of the graph */
  TDM_ROLE_BOUNDARY, /* of an input, a target, an output, the loss */
  TDM_ROLE_REFRESH,  /* of a derived copy */
  TDM_ROLE_COUNT
} tdm_node_role;

typedef struct tdm_ir_node {
  const tdm_operation *operation; /* NULL for transfers: a copy */
  const void *attributes;
  const char *name;          /* path; backward nodes have their forward node's */
  const char *wanted_device; /* of scope or own call; NULL: none */
  const tdm_kernel *kernel;
  const tdm_prepared *prepared;
  const uint32_t *inputs;       /* (input_count) value indices, 0: absent; tdm_set_input */
  struct tdm_ir_node *previous; /* in the plan's order, of nodes that are in it */
  struct tdm_ir_node *next;
  uint32_t index; /* its own */
  uint32_t first_output;
  uint16_t input_count;
  uint16_t output_count;
  int16_t device;
  uint8_t role;
  bool joined : 1;        /* a concatenation whose inputs lie in its output: no step */
  bool pushed : 1;        /* transfers: the compute queue of the device it comes from carries it */
  bool beside : 1;        /* kernels: the device's queue for sums has it, where there is one */
  bool later_replica : 1; /* not the first replica of some parallel region */
  bool evaluates : 1;     /* of an evaluation scope: computes in training as in other runs */
  uint8_t hop;            /* transfers: which of its route's, from 0 */
  uint8_t collective;   /* additions that make a sum over devices: how (tdm_collective); 0: none */
  uint8_t bucket;       /* the same: which of its device's buckets what comes in crosses into */
  uint8_t update_group; /* whose learning rate it reads (graph/describe/update_groups.h) */
  uint16_t parallel_region; /* the innermost parallel region it belongs to; 0: none */
  uint16_t replica;  /* 1 + its number among the replicas of a parallel region; 0: not replicated */
  uint16_t micro;    /* 1 + the number of the micro-batch it works on; 0: it works on the whole */
  uint32_t consumer; /* transfers: the first node that asked for the copy; 0: the caller */
  uint32_t condition; /* 1 + index of the row condition that it is executed under; 0: none */
  uint32_t described; /* the user's node that it computes, or a part of; 0: none */
} tdm_ir_node;

/* Live nodes, linked. */
typedef struct tdm_node_order {
  tdm_ir_node *first;
  tdm_ir_node *last;
  size_t count;
} tdm_node_order;

/* Each node in its order, of those that are there when the one before it has its turn: what is
 * inserted right behind a node is passed over, and a node may itself be moved or removed. */
#define TDM_EACH_NODE(graph, node)                                                                 \
  for (tdm_ir_node *node = (graph)->order.first, *node##_next;                                     \
       node && (node##_next = node->next, true); node = node##_next)
/* The same from one node on (NULL: none). */
#define TDM_EACH_NODE_FROM(first_node, node)                                                       \
  for (tdm_ir_node *node = (first_node), *node##_next; node && (node##_next = node->next, true);   \
       node = node##_next)
/* The same as these two from the last node, or from that one, to the first. */
#define TDM_EACH_NODE_BACKWARD(graph, node) TDM_EACH_NODE_BACKWARD_FROM((graph)->order.last, node)
#define TDM_EACH_NODE_BACKWARD_FROM(last_node, node)                                               \
  for (tdm_ir_node *node = (last_node), *node##_next;                                              \
       node && (node##_next = node->previous, true); node = node##_next)

/* How a value of the graph enters a parallel region. */
typedef struct tdm_parallel_input {
  uint32_t value;
  int32_t dimension; /* >= 0, or TDM_BROADCAST */
} tdm_parallel_input;

/* A parallel region: the nodes whose `parallel_region` is its index in
 * graph->parallel_regions, or that of one inside it. */
typedef struct tdm_parallel_region {
  const char *name;
  uint16_t parent; /* the parallel region it lies in; 0: none */
  uint16_t device_count;
  const int16_t *devices; /* (device_count), of the graph's region, as weights and inputs */
  int16_t output_device;
  bool spread_homes;          /* of parameters, over the devices */
  double updated_everywhere;  /* of their bytes; 0 to 1 */
  bool spread_rows;           /* of large ones */
  bool done;                  /* replaced */
  const double *weights;      /* (device_count); NULL: even chunks */
  tdm_parallel_input *inputs; /* (input_count) */
  size_t input_count;
} tdm_parallel_region;

/* Which rows of a table a parameter, or a state of its shape, is. */
typedef struct tdm_table_shard {
  const char *table; /* the table's name, or its state's; NULL: it is no shard */
  int64_t first;
  int64_t table_rows; /* 0: each shard has all of it, as of a count of steps */
  uint16_t index;
  uint16_t count; /* of the table's shards */
} tdm_table_shard;

typedef struct tdm_graph_persistent {
  const char *name;
  uint32_t value;
  tdm_initializer initializer;
  uint32_t like; /* value of the parameter it lives with; 0: none */
  uint32_t
      origin; /* of a concrete graph: index in the user's graph; UINT32_MAX: a state of its own */
  bool is_state;
  bool is_taken;              /* a layer has it */
  bool is_updated_everywhere; /* where its gradients can go around */
  tdm_table_shard shard;
  const void *data; /* of a constant: its elements, of the described graph's region; NULL: it is a
                       parameter or a state */
} tdm_graph_persistent;

/* Layers under `name` have the parameters of `of`: paths from the top. */
typedef struct tdm_graph_tie {
  const char *name;
  const char *of;
} tdm_graph_tie;

/* Another name that a tied parameter would have if it were a layer's own. */
typedef struct tdm_graph_alias {
  const char *path;
  size_t persistent; /* its index */
} tdm_graph_alias;

/* A table that is sharded: by rows, or, where it has one shard, as a whole. Until the pass `shard`
 * its look-ups read the value of the whole table, which is that of its first shard from then on. A
 * parameter of a parallel region that is cut into pieces is one too (is_gathered): every device
 * that reads it puts its pieces together. */
typedef struct tdm_sharding {
  uint32_t table;         /* value */
  uint16_t count;         /* of shards; 1: the table is whole */
  const uint32_t *shards; /* (count) values; the first is the table's; of the graph's region */
  const int64_t *rows;    /* (count) */
  const char *first_name; /* of the first shard */
  bool is_gathered;       /* read as a whole, where a session does not keep it whole */
} tdm_sharding;

/* A value that runs of a sequence leave to one another: an input. */
typedef struct tdm_graph_kept {
  uint32_t value;
  uint32_t written;          /* while building: by the latest write in place; 0: by none yet */
  const char *keeper;        /* while building: the tdm_keep that keeps it; NULL: none yet */
  const char *wanted_device; /* of its scope; NULL: none */
} tdm_graph_kept;

typedef struct tdm_graph_output {
  const char *name;
  uint32_t value;
  int16_t device; /* that it is delivered on; TDM_NO_DEVICE: the one where it is made */
} tdm_graph_output;

/* A value that runs hand out. */
typedef struct tdm_graph_delivery {
  uint32_t value;
  int16_t
      device; /* where: TDM_HOST_DEVICE: on that of each rank; TDM_NO_DEVICE: where it is made */
} tdm_graph_delivery;

typedef struct tdm_graph_derived {
  uint32_t value;  /* of kind DERIVED */
  uint32_t source; /* of kind PERSISTENT */
} tdm_graph_derived;

/* How many versions back the rows that a version has touched are known. */
#define TDM_LOGGED_VERSIONS 4

/* The indices of a table's rows that one update has touched: int64 (window), -1 where none. */
typedef struct tdm_graph_log {
  uint32_t value;      /* of kind LOG */
  uint32_t persistent; /* the table's index in that list */
  int32_t age;         /* 0: of the latest update, 1: of the one before, ...; -1: this update's */
} tdm_graph_log;

/* Holds in runs where some copy of the table is old by more than `age` updates, of which all are
 * known: then the rows of update `age` move. */
typedef struct tdm_row_condition {
  uint32_t persistent;
  int16_t device; /* of the copy; TDM_NO_DEVICE: any of them */
  int32_t age;
} tdm_row_condition;

typedef struct tdm_scope {
  const char *prefix; /* "block2/" or "" */
  const char *device; /* NULL: none */
  tdm_dtype dtype;
  bool evaluates;     /* tdm_scope_evaluate */
  const char *absent; /* why the device that was asked for last is not there; NULL: it is */
} tdm_scope;

#define TDM_MAX_SCOPES 32

/* A growing array of T: items, count, capacity. */
#define TDM_ARRAY(T)                                                                               \
  struct {                                                                                         \
    T *items;                                                                                      \
    size_t count;                                                                                  \
    size_t capacity;                                                                               \
  }

/* Room for `more` items behind count. */
#define TDM_ARRAY_RESERVE(graph, array, more)                                                      \
  ((array)->count + (more) <= (array)->capacity                                                    \
       ? TDM_OK                                                                                    \
       : tdm_array_reserve((graph)->allocator, (void **)&(array)->items, &(array)->capacity,       \
                           (array)->count + (more), sizeof *(array)->items, "graph"))
#define TDM_ARRAY_DEINIT(graph, array)                                                             \
  tdm_release((graph)->allocator, (void *)(array)->items,                                          \
              (array)->capacity * sizeof *(array)->items)

/* A growing array whose items never move: blocks of them, in the graph's region. */
#define TDM_STABLE_ITEMS 64
typedef struct tdm_stable_array {
  void **blocks; /* (capacity / TDM_STABLE_ITEMS), in a list with room for block_room */
  size_t count;
  size_t capacity;
  size_t block_room;
} tdm_stable_array;

/* Records outlive the graph, so that what was found of one at an address stays true. */
#define TDM_SOUND_RECORDS 32

struct tdm_graph {
  _Atomic uint32_t references;
  tdm_context *context; /* retained */
  const tdm_allocator *allocator;
  tdm_region region;   /* nodes, values, names, attributes */
  uint32_t tag;        /* tells values of graphs apart */
  _Atomic bool frozen; /* by threads that make sessions of it */
  bool concrete;
  tdm_stable_array nodes;  /* of tdm_ir_node */
  tdm_stable_array values; /* of tdm_ir_value */
  tdm_node_order order;
  TDM_ARRAY(uint32_t) inputs; /* value indices */
  TDM_ARRAY(tdm_graph_kept) kepts;
  TDM_ARRAY(tdm_graph_persistent) persistents;
  tdm_map persistent_names; /* path to index + 1, of those declared here; so the next four */
  tdm_map input_names;
  tdm_map output_names;
  tdm_map tie_names; /* to the latest of the name */
  tdm_map alias_names;
  tdm_map nameless; /* a scope's prefix to how many names were left out in it */
  tdm_map streams;  /* path to how many random operations have drawn a stream by it */
  TDM_ARRAY(tdm_graph_tie) ties;
  TDM_ARRAY(tdm_graph_alias) aliases; /* distinct */
  TDM_ARRAY(tdm_graph_output) outputs;
  TDM_ARRAY(tdm_sharding) shardings;
  TDM_ARRAY(tdm_graph_delivery)
  deliveries; /* of a concrete graph: what it is for. After the pass
                 `transfer` those of every rank, rank after rank */
  TDM_ARRAY(tdm_graph_derived) deriveds;
  TDM_ARRAY(tdm_graph_log) logs;
  TDM_ARRAY(tdm_row_condition) row_conditions;     /* one for any device before those of each */
  TDM_ARRAY(tdm_parallel_region) parallel_regions; /* from 1 on */
  TDM_ARRAY(tdm_prepared *) prepared;              /* what its nodes had got; let go of by deinit */
  tdm_scope scopes[TDM_MAX_SCOPES];
  int scope_depth;
  const tdm_operation *sound[TDM_SOUND_RECORDS]; /* some of those that were found without a flaw */
  const struct tdm_insertion *lent; /* to the rule that is being asked: where tdm_append inserts */
  tdm_status status;                /* the first error */
  char message[TDM_MESSAGE_BYTES];
};

/* Where nodes and names of one graph come from. */
tdm_status tdm_graph_init(tdm_graph *graph, tdm_context *context) TDM_WARN_UNUSED;
void tdm_graph_deinit(tdm_graph *graph);

static inline tdm_ir_value *tdm_ir_value_at(const tdm_graph *graph, size_t index) {
  tdm_ir_value *block = graph->values.blocks[index / TDM_STABLE_ITEMS];
  return &block[index % TDM_STABLE_ITEMS];
}
static inline tdm_ir_node *tdm_ir_node_at(const tdm_graph *graph, size_t index) {
  tdm_ir_node *block = graph->nodes.blocks[index / TDM_STABLE_ITEMS];
  return &block[index % TDM_STABLE_ITEMS];
}
/* Returns how many values each rank delivers, and (rank, i) the i-th of them. Only of a graph that
 * has been through the pass `transfer`. */
static inline size_t tdm_ir_delivery_count(const tdm_graph *graph) {
  return graph->deliveries.count / (size_t)tdm_context_rank_count(graph->context);
}
static inline uint32_t tdm_ir_delivery(const tdm_graph *graph, int rank, size_t i) {
  return graph->deliveries.items[(size_t)rank * tdm_ir_delivery_count(graph) + i].value;
}
/* Does the operation's struct reach that field? Programs built with an older header have shorter
 * ones. */
#define TDM_OPERATION_HAS(operation, field)                                                        \
  ((operation)->struct_size >= offsetof(tdm_operation, field) + sizeof(operation)->field)

/* Returns the name by which messages call the operation: the function that users call. */
static inline const char *tdm_operation_layer(const tdm_operation *operation) {
  const bool other = TDM_OPERATION_HAS(operation, layer) && operation->layer;
  return other ? operation->layer : operation->name;
}
/* Does the node do anything, rather than tell where values lie? */
static inline bool tdm_ir_has_step(const tdm_ir_node *node) {
  return !node->joined && !(node->operation && node->operation->is_view);
}
static inline bool tdm_ir_is_all_reduce(const tdm_ir_node *node);
static inline bool tdm_ir_is_share(const tdm_ir_node *node);
/* Does a kernel execute the node? */
static inline bool tdm_ir_has_kernel(const tdm_ir_node *node) {
  return node->operation && !node->operation->is_view && !tdm_ir_is_all_reduce(node) &&
         !tdm_ir_is_share(node);
}
/* The rank of the job that a device is of. */
static inline int tdm_rank_of(const tdm_graph *graph, int16_t device) {
  return tdm_context_device(graph->context, (size_t)device)->rank;
}
/* Is the node a transfer from one rank to another? Its index is the message's number. */
bool tdm_ir_is_message(const tdm_graph *graph, const tdm_ir_node *node);
/* One that devices bring to one another themselves, without their hosts? */
bool tdm_ir_is_exchange(const tdm_graph *graph, const tdm_ir_node *node);
/* Is input k there for the operation's rule `persist` alone? */
static inline bool tdm_ir_is_persisted(const tdm_ir_node *node, uint32_t k) {
  return k < 32 && (node->operation->persist_inputs >> k & 1) != 0;
}
/* The kept value whose memory a value is; NULL: it is another's. */
static inline tdm_graph_kept *tdm_ir_kept(const tdm_graph *graph, uint32_t value) {
  const uint32_t root = tdm_ir_value_at(graph, value)->root;
  const uint32_t kept = tdm_ir_value_at(graph, root)->kept;
  return kept ? &graph->kepts.items[kept - 1] : NULL;
}
/* The same of what the node writes for later runs; NULL: nothing. */
static inline tdm_graph_kept *tdm_ir_kept_by(const tdm_graph *graph, const tdm_ir_node *node) {
  return node->operation && node->operation->overwrites[0] ? tdm_ir_kept(graph, node->first_output)
                                                           : NULL;
}
/* What a parameter is called outside of the library: a shard by its table. */
static inline const char *tdm_persistent_table(const tdm_graph_persistent *persistent) {
  return persistent->shard.table ? persistent->shard.table : persistent->name;
}
/* Is it a value of this graph, rather than none, another's or made up? */
static inline bool tdm_ir_owns(const tdm_graph *graph, tdm_value value) {
  return value.index != 0 && value.graph == graph->tag && value.index < graph->values.count;
}
static inline tdm_value tdm_ir_handle(const tdm_graph *graph, uint32_t value) {
  return (tdm_value){value ? graph->tag : 0, value};
}

/* Room for more nodes, or values, behind those that there are. */
tdm_status tdm_ir_reserve_nodes(tdm_graph *graph, size_t more) TDM_WARN_UNUSED;
tdm_status tdm_ir_reserve_values(tdm_graph *graph, size_t more) TDM_WARN_UNUSED;
/* A value of its own memory. 0 when memory is short. */
uint32_t tdm_ir_add_value(tdm_graph *graph, const tdm_ir_value *value);
size_t tdm_ir_output_count(const tdm_operation *operation, const void *attributes);
/* Runs the shape rule of operation; specs of the inputs are read from the values. */
tdm_status tdm_ir_infer(const tdm_graph *graph, const tdm_operation *operation, const char *name,
                        const void *attributes, const uint32_t *inputs, size_t input_count,
                        tdm_spec *output_specs) TDM_WARN_UNUSED;
/* Are both of one dtype and rank, and their sizes the same as far as both are known? */
bool tdm_spec_may_be(const tdm_spec *a, const tdm_spec *b);
/* Can a tensor have the sizes among the spec's dimensions, whatever its names stand for? If not, no
 * memory holds it. */
bool tdm_ir_is_possible(const tdm_spec *spec);
/* May something of that name be added? Else the reason is the graph's error, if there is a graph,
 * and the thread's message. */
bool tdm_graph_is_open(tdm_graph *graph, const char *name);
/* Copies bytes into the graph's region; NULL bytes 0. */
const void *tdm_ir_copy_bytes(tdm_graph *graph, const void *bytes, size_t count);

/* A log of that age, of a table at its home. 0 when memory is short. */
uint32_t tdm_ir_add_log(tdm_graph *graph, uint32_t persistent, int32_t age, int64_t window);

/* The operations that passes themselves append. */
extern const tdm_operation tdm_operation_fill;
extern const tdm_operation tdm_operation_accumulate;
/* A sum of what comes from other devices: begun with a copy of its first term, or in its own
 * memory; then total, term -> =total for each. */
extern const tdm_operation tdm_operation_begin_sum;
extern const tdm_operation tdm_operation_add_incoming;
/* One rank's part in a sum over all of them (passes/device_sums.h). */
extern const tdm_operation tdm_operation_all_reduce;
static inline bool tdm_ir_is_all_reduce(const tdm_ir_node *node) {
  return node->operation == &tdm_operation_all_reduce;
}
/* What one of many alike ranks shares with the others, in plans that are only forecast. */
extern const tdm_operation tdm_operation_share;
static inline bool tdm_ir_is_share(const tdm_ir_node *node) {
  return node->operation == &tdm_operation_share;
}
extern const tdm_operation tdm_operation_sparse_add;
extern const tdm_operation tdm_operation_log_rows;
extern const tdm_operation tdm_operation_take_rows;
extern const tdm_operation tdm_operation_put_rows;
extern const tdm_operation tdm_operation_add_rows;
/* What is kept between runs: whole, rows, indices -> =whole; value, whole -> =whole. */
extern const tdm_operation tdm_operation_index_copy;
extern const tdm_operation tdm_operation_keep;
extern const tdm_operation tdm_operation_check_finite;
extern const tdm_operation tdm_operation_reorder;
extern const tdm_operation tdm_operation_observe;
/* Several elementwise nodes as one; its attributes are tdm_fused_attributes. */
extern const tdm_operation tdm_operation_fused;

#endif
