/* The intermediate form on which all passes work: nodes, values, and the lists of a graph. A user's
 * graph has a description and symbolic shapes. lower.c copies what a run requires to the graph of a
 * plan, with the sizes of the run, and the passes rewrite that copy.
 * Invariants:
 * - index 0 of nodes and values is unused (invalid);
 * - a node's outputs have consecutive indices;
 * - nodes and values never move, so pointers to them stay valid;
 * - live nodes are linked in a topological order, which is the plan order.
 * rewriter.h has the functions that change a graph. */
#ifndef TANDEM_GRAPH_IR_IR_H
#define TANDEM_GRAPH_IR_IR_H

#include "core/allocate.h"
#include "core/map.h"
#include "devices/context/context.h"
#include "devices/contract/device.h"
#include "devices/kernels.h"
#include "graph/ir/prepared.h"
#include "graph/ir/specs.h"
#include "tandem/graph/graph.h"

#define TDM_NO_DEVICE (-1)

typedef enum tdm_value_kind {
  TDM_VALUE_NODE,       /* a node's output */
  TDM_VALUE_INPUT,      /* fed by the caller */
  TDM_VALUE_PERSISTENT, /* a parameter or state on its home device */
  TDM_VALUE_DERIVED,    /* a persistent copy of a parameter on another device */
  TDM_VALUE_LOG,        /* the rows that one update of a table changed */
} tdm_value_kind;

typedef struct tdm_ir_value {
  const tdm_spec *spec; /* shared with equal values (specs.h) */
  const char *name;     /* name of inputs and persistents */
  uint64_t bytes;       /* 0 until layout if shapes are symbolic */
  uint64_t offset;      /* offset in the root's memory, in bytes */
  uint32_t root;        /* the value that owns the memory; the value itself if it owns it */
  uint32_t producer;    /* 0: none */
  uint32_t readers;     /* number of node inputs that are this value */
  uint32_t binding;     /* INPUT, PERSISTENT, DERIVED, LOG: index in that list */
  uint32_t kept;        /* INPUT: 1 + index of the kept value of a sequence; 0: fed */
  int16_t device;       /* context index of the device, or TDM_NO_DEVICE */
  uint8_t kind;         /* tdm_value_kind */
  bool trainable : 1;
  bool pinned : 1;     /* INPUT: fed from a pinned staging buffer */
  bool handed_out : 1; /* the caller of a run receives this memory */
} tdm_ir_value;

typedef enum tdm_node_role {
  TDM_ROLE_FORWARD,
  TDM_ROLE_GRADIENT, /* backward, and the preparation of the update */
  TDM_ROLE_UPDATE,   /* overwrites persistent values: the last phase */
  TDM_ROLE_REORDER,
  TDM_ROLE_TRANSFER, /* between devices: an edge of the graph */
  TDM_ROLE_BOUNDARY, /* copy of an input, a target, an output or the loss */
  TDM_ROLE_REFRESH,  /* update of a derived copy */
  TDM_ROLE_COUNT
} tdm_node_role;

/* A node's use of a term of a sum over devices. A term that comes from another device is sent
 * into a bucket, from which nodes other than these do not read. */
typedef enum tdm_sum_role {
  TDM_SUM_NONE,
  TDM_SUM_BEGIN,     /* copies its input, the first term */
  TDM_SUM_RECEIVE,   /* receives a term, which stays in its bucket until it is added */
  TDM_SUM_ADD,       /* adds its second input, a term, to the first */
  TDM_SUM_ALL_REDUCE /* one of several nodes that compute the same sum together */
} tdm_sum_role;

/* The part of a divided computation that a node computes. */
typedef struct tdm_node_part {
  uint16_t parallel_region; /* innermost parallel region of the node; 0: none */
  uint16_t replica;         /* 1 + index of its replica in a parallel region; 0: none */
  uint16_t micro;           /* 1 + index of its micro-batch; 0: whole batch */
} tdm_node_part;

/* Properties of a copy between devices. */
typedef struct tdm_node_transfer {
  uint32_t consumer; /* first node that requires the copy; 0: the caller */
  uint8_t hop;       /* index in its route, from 0 */
  bool pushed;       /* executed on the compute queue of the source device */
} tdm_node_transfer;

/* Properties of a node of a sum over devices. */
typedef struct tdm_node_sum {
  uint8_t collective; /* additions: tdm_collective; 0: none */
  uint8_t bucket;     /* additions: index of the device's bucket that receives */
  bool beside;        /* executed on the device's queue for sums, if it has one */
} tdm_node_sum;

typedef struct tdm_ir_node {
  const tdm_operation *operation; /* NULL for transfers, which are copies */
  const void *attributes;
  const char *name;             /* path; a backward node has that of its forward node */
  const tdm_prepared *prepared; /* its kernel, from the pass `layout` on; NULL: it has none */
  const uint32_t *inputs;       /* (input_count) value indices, 0: absent; set by tdm_set_input */
  struct tdm_ir_node *previous; /* plan order; NULL if first, or not in it */
  struct tdm_ir_node *next;
  uint32_t index; /* index of this node */
  uint32_t first_output;
  uint32_t condition; /* 1 + index of the row condition of its execution; 0: none */
  uint32_t described; /* node of the user's graph that it computes at least in part; 0: none */
  union {
    tdm_node_transfer transfer; /* operation is NULL */
    tdm_node_sum sum;           /* set for all other nodes */
  };
  tdm_node_part part;
  int16_t device;
  uint16_t wanted; /* 1 + context index of the device of its scope or call; 0: none */
  uint8_t input_count;
  uint8_t output_count;
  uint8_t role;           /* tdm_node_role */
  uint8_t update_group;   /* selects the learning rate (graph/describe/update_groups.h) */
  bool joined : 1;        /* a concatenation whose inputs are in its output's memory: no step */
  bool later_replica : 1; /* not in a region's first replica */
  bool evaluates : 1;     /* in an evaluation scope: computes the same in training */
  uint8_t sum_role : 3;   /* tdm_sum_role */
} tdm_ir_node;

/* Returns the member `wanted` of a node for a device, or for none (NULL). */
static inline uint16_t tdm_wanted(const tdm_device *device) {
  return device ? (uint16_t)(device->context_index + 1) : 0;
}

/* The linked list of live nodes. */
typedef struct tdm_node_order {
  tdm_ir_node *first;
  tdm_ir_node *last;
  size_t count;
} tdm_node_order;

/* Visits the nodes in order. The successor is read before the body runs, so nodes inserted directly
 * after the current one are skipped, and the current one may be moved or removed. */
#define TDM_EACH_NODE(graph, node)                                                                 \
  for (tdm_ir_node *node = (graph)->order.first, *node##_next;                                     \
       node && (node##_next = node->next, true); node = node##_next)
/* Iterates over the nodes from first_node on (NULL: none). */
#define TDM_EACH_NODE_FROM(first_node, node)                                                       \
  for (tdm_ir_node *node = (first_node), *node##_next; node && (node##_next = node->next, true);   \
       node = node##_next)
/* The same in reverse order: from the last node, or from a given node, to the first. */
#define TDM_EACH_NODE_BACKWARD(graph, node) TDM_EACH_NODE_BACKWARD_FROM((graph)->order.last, node)
#define TDM_EACH_NODE_BACKWARD_FROM(last_node, node)                                               \
  for (tdm_ir_node *node = (last_node), *node##_next;                                              \
       node && (node##_next = node->previous, true); node = node##_next)

/* Records how a value enters a parallel region. */
typedef struct tdm_parallel_input {
  uint32_t value;
  int32_t dimension; /* >= 0, or TDM_BROADCAST */
} tdm_parallel_input;

/* A parallel region: the nodes whose `parallel_region` is its index in graph->parallel_regions, or
 * the index of a region inside it. */
typedef struct tdm_parallel_region {
  const char *name;
  uint16_t parent; /* parallel region that contains it; 0: none */
  uint16_t device_count;
  const int16_t *devices; /* (device_count); memory of the graph, as are weights and inputs */
  int16_t output_device;
  tdm_parallel_sharding sharding;
  bool done;                  /* replaced */
  const double *weights;      /* (device_count); NULL: even chunks */
  tdm_parallel_input *inputs; /* (input_count) */
  size_t input_count;
} tdm_parallel_region;

/* The rows of a table that a parameter, or a state of its shape, contains. */
typedef struct tdm_table_shard {
  const char *table; /* name of the table or of its state; NULL: not a shard */
  int64_t first;
  int64_t table_rows; /* 0: each shard has the whole value, such as a count of steps */
  uint16_t index;
  uint16_t count; /* number of shards */
} tdm_table_shard;

typedef struct tdm_graph_persistent {
  const char *name;
  uint32_t value;
  tdm_initializer initializer;
  uint32_t like;   /* value of the parameter on whose device it is; 0: none */
  uint32_t origin; /* concrete graph: index in the user's graph; UINT32_MAX: a new state */
  bool is_state;
  bool is_taken;              /* used by a layer */
  bool is_updated_everywhere; /* every rank applies the update if its gradients can be exchanged */
  tdm_table_shard shard;
  const void *data; /* constants: elements, in the memory of the user's graph; else NULL */
} tdm_graph_persistent;

/* Layers under `name` use the parameters of `of`; both are paths from the top. */
typedef struct tdm_graph_tie {
  const char *name;
  const char *of;
} tdm_graph_tie;

/* Another name of a tied parameter: the one it would have in its own layer. */
typedef struct tdm_graph_alias {
  const char *path;
  size_t persistent; /* index */
} tdm_graph_alias;

/* A table that is sharded by rows, or kept whole if it has one shard. Until the pass `shard`, its
 * look-ups read the value of the whole table; later that value is its first shard. A parameter of a
 * parallel region that is divided into pieces is one too (is_gathered): each device that reads it
 * joins its pieces. */
typedef struct tdm_sharding {
  uint32_t table;         /* value */
  uint16_t count;         /* number of shards; 1: the table is not sharded */
  const uint32_t *shards; /* (count) values; the first is the table's; memory of the graph */
  const int64_t *rows;    /* (count) */
  const char *first_name; /* name of the first shard */
  bool is_gathered;       /* read as a whole, if a session does not keep it whole */
} tdm_sharding;

/* State that persists between consecutive runs of a sequence: an input of the graph. */
typedef struct tdm_graph_kept {
  uint32_t value;
  uint32_t written;                /* latest write in place while the graph is built; 0: none yet */
  const char *keeper;              /* name of the tdm_keep that keeps the value, while the graph is
                                    * built; NULL: none yet */
  const tdm_device *wanted_device; /* device of its scope; NULL: none */
} tdm_graph_kept;

typedef struct tdm_graph_output {
  const char *name;
  uint32_t value;
  int16_t device; /* device on which it is delivered; TDM_NO_DEVICE: that of its producer */
} tdm_graph_output;

/* A value that runs deliver to the caller. */
typedef struct tdm_graph_delivery {
  uint32_t value;
  int16_t device; /* TDM_HOST_DEVICE: on each rank's host; TDM_NO_DEVICE: its producer's */
} tdm_graph_delivery;

typedef struct tdm_graph_derived {
  uint32_t value;  /* value of kind DERIVED */
  uint32_t source; /* value of kind PERSISTENT */
} tdm_graph_derived;

/* Maximum number of past versions whose changed rows are logged. */
#define TDM_LOGGED_VERSIONS 4

/* The indices of the rows of a table that one update changed: int64 (window), -1 for unused
 * entries. */
typedef struct tdm_graph_log {
  uint32_t value;      /* value of kind LOG */
  uint32_t persistent; /* index of the table in that list */
  int32_t age;         /* 0: latest update, 1: the one before, ...; -1: the current one */
} tdm_graph_log;

/* True in runs in which a copy of the table is older by more than `age` updates, all of which are
 * logged. Then the rows of update `age` are copied. */
typedef struct tdm_row_condition {
  uint32_t persistent;
  int16_t device; /* device of the copy; TDM_NO_DEVICE: any device */
  int32_t age;
} tdm_row_condition;

typedef struct tdm_scope {
  const char *prefix;       /* "block2/" or "" */
  const tdm_device *device; /* NULL: none */
  tdm_dtype dtype;
  bool evaluates;     /* tdm_scope_evaluate */
  const char *absent; /* why the last requested device is not available; NULL: it is */
} tdm_scope;

#define TDM_MAX_SCOPES 32

/* A growing array of T: items, count, capacity. */
#define TDM_ARRAY(T)                                                                               \
  struct {                                                                                         \
    T *items;                                                                                      \
    size_t count;                                                                                  \
    size_t capacity;                                                                               \
  }

/* Reserves capacity for `more` items after the last one. */
#define TDM_ARRAY_RESERVE(graph, array, more)                                                      \
  ((array)->count + (more) <= (array)->capacity                                                    \
       ? TDM_OK                                                                                    \
       : tdm_array_reserve((graph)->allocator, (void **)&(array)->items, &(array)->capacity,       \
                           (array)->count + (more), sizeof *(array)->items, "graph"))
#define TDM_ARRAY_DEINIT(graph, array)                                                             \
  tdm_release((graph)->allocator, (void *)(array)->items,                                          \
              (array)->capacity * sizeof *(array)->items)

/* A growing array whose items never move: blocks of items in the graph's region. */
#define TDM_STABLE_ITEMS 64
typedef struct tdm_stable_array {
  void **blocks; /* (capacity / TDM_STABLE_ITEMS); room for block_room */
  size_t count;
  size_t capacity;
  size_t block_room;
} tdm_stable_array;

/* Records outlive the graph, so a record that was checked at an address needs no second check. */
#define TDM_SOUND_RECORDS 32

#define TDM_SHARED_SPECS 64

/* State that only a user's graph has: the names, ties and scopes of its description. */
typedef struct tdm_described {
  _Atomic uint32_t references;
  _Atomic bool frozen; /* set by threads that create sessions of it */
  tdm_map input_names; /* path to index + 1, as in the other maps */
  tdm_map output_names;
  tdm_map tie_names; /* name to its latest tie */
  tdm_map alias_names;
  TDM_ARRAY(tdm_graph_tie) ties;
  TDM_ARRAY(tdm_graph_alias) aliases; /* distinct aliases */
  TDM_ARRAY(tdm_graph_output) outputs;
  tdm_scope scopes[TDM_MAX_SCOPES];
  int scope_depth;
} tdm_described;

/* State that only a plan's graph has: its results, the copies and rows that runs refresh, and its
 * kernels. */
typedef struct tdm_planned {
  TDM_ARRAY(tdm_graph_delivery)
  deliveries; /* after the pass `transfer` those of each rank, in the order of the ranks */
  TDM_ARRAY(tdm_graph_derived) deriveds;
  TDM_ARRAY(tdm_graph_log) logs;
  TDM_ARRAY(tdm_row_condition)
  row_conditions;                     /* conditions on rows; that of any device comes first */
  TDM_ARRAY(tdm_prepared *) prepared; /* kernels of its nodes; released by deinit */
} tdm_planned;

/* State of a user's graph and of a plan's graph. */
struct tdm_graph {
  tdm_context *context; /* retained */
  const tdm_allocator *allocator;
  tdm_region region;        /* nodes, values, names, attributes */
  uint32_t tag;             /* distinguishes values of different graphs */
  tdm_described *described; /* a user's graph; NULL: a plan's */
  tdm_planned *planned;     /* a plan's graph; NULL: a user's */
  tdm_stable_array nodes;   /* elements: tdm_ir_node */
  tdm_stable_array values;  /* elements: tdm_ir_value */
  tdm_node_order order;
  TDM_ARRAY(uint32_t) inputs; /* value indices */
  TDM_ARRAY(tdm_graph_kept) kepts;
  TDM_ARRAY(tdm_graph_persistent) persistents;
  tdm_map persistent_names; /* path to index + 1, of those declared here */
  TDM_ARRAY(tdm_sharding) shardings;
  TDM_ARRAY(tdm_parallel_region) parallel_regions; /* parallel regions, starting at index 1 */
  tdm_map nameless;                 /* scope's prefix to number of nodes without a name */
  tdm_map streams;                  /* path to number of random operations with it */
  const struct tdm_insertion *lent; /* where tdm_append inserts while a rule runs; NULL otherwise */
  const tdm_operation *sound[TDM_SOUND_RECORDS]; /* some of the valid records */
  const tdm_spec *specs[TDM_SHARED_SPECS];       /* latest spec of each hash */
  tdm_status status;                             /* the first error */
  char message[TDM_MESSAGE_BYTES];
};

/* Initialize the graph of a plan, and that of a user. Both are deinitialized by the same function,
 * also after a failure. */
tdm_status tdm_graph_init(tdm_graph *graph, tdm_context *context) TDM_WARN_UNUSED;
tdm_status tdm_graph_init_described(tdm_graph *graph, tdm_context *context) TDM_WARN_UNUSED;
void tdm_graph_deinit(tdm_graph *graph);

static inline tdm_ir_value *tdm_ir_value_at(const tdm_graph *graph, size_t index) {
  tdm_ir_value *block = graph->values.blocks[index / TDM_STABLE_ITEMS];
  return &block[index % TDM_STABLE_ITEMS];
}
static inline tdm_ir_node *tdm_ir_node_at(const tdm_graph *graph, size_t index) {
  tdm_ir_node *block = graph->nodes.blocks[index / TDM_STABLE_ITEMS];
  return &block[index % TDM_STABLE_ITEMS];
}
/* The first function returns the number of values that each rank delivers, the second the i-th
 * value of a rank. The graph must have been through the pass `transfer`. */
static inline size_t tdm_ir_delivery_count(const tdm_graph *graph) {
  return graph->planned->deliveries.count / (size_t)tdm_context_rank_count(graph->context);
}
static inline uint32_t tdm_ir_delivery(const tdm_graph *graph, int rank, size_t i) {
  return graph->planned->deliveries.items[(size_t)rank * tdm_ir_delivery_count(graph) + i].value;
}
/* True if the operation's struct contains the field. Programs built with an older header have
 * shorter structs. */
#define TDM_OPERATION_HAS(operation, field)                                                        \
  ((operation)->struct_size >= offsetof(tdm_operation, field) + sizeof(operation)->field)

/* Returns the operation's name in messages: the public function. */
static inline const char *tdm_operation_layer(const tdm_operation *operation) {
  const bool other = TDM_OPERATION_HAS(operation, layer) && operation->layer;
  return other ? operation->layer : operation->name;
}
/* Returns true if the node becomes a step; nodes that only define where values are do not. */
static inline bool tdm_ir_has_step(const tdm_ir_node *node) {
  return !node->joined && !(node->operation && node->operation->is_view);
}
static inline bool tdm_ir_is_all_reduce(const tdm_ir_node *node);
static inline bool tdm_ir_is_share(const tdm_ir_node *node);
/* Returns the algorithm (tdm_collective) of the sum over devices to which the node adds, or 0. */
static inline uint8_t tdm_ir_collective(const tdm_ir_node *node) {
  return node->operation ? node->sum.collective : 0;
}
/* Returns true if a kernel executes the node. */
static inline bool tdm_ir_has_kernel(const tdm_ir_node *node) {
  return node->operation && !node->operation->is_view && !tdm_ir_is_all_reduce(node) &&
         !tdm_ir_is_share(node);
}
/* Returns the rank of a device. */
static inline int tdm_rank_of(const tdm_graph *graph, int16_t device) {
  return tdm_context_device(graph->context, (size_t)device)->rank;
}
/* Returns true if the node is a transfer between ranks. The node's index identifies the message. */
bool tdm_ir_is_message(const tdm_graph *graph, const tdm_ir_node *node);
/* Returns true if the node is a message that devices exchange directly, without their hosts. */
bool tdm_ir_is_exchange(const tdm_graph *graph, const tdm_ir_node *node);
/* Returns true if input k is used only by the operation's rule `persist`. */
static inline bool tdm_ir_is_persisted(const tdm_ir_node *node, uint32_t k) {
  return k < 32 && (node->operation->persist_inputs >> k & 1) != 0;
}
/* Returns the kept value whose memory the value uses, or NULL. */
static inline tdm_graph_kept *tdm_ir_kept(const tdm_graph *graph, uint32_t value) {
  const uint32_t root = tdm_ir_value_at(graph, value)->root;
  const uint32_t kept = tdm_ir_value_at(graph, root)->kept;
  return kept ? &graph->kepts.items[kept - 1] : NULL;
}
/* Returns the kept value that the node writes for later runs, or NULL. */
static inline tdm_graph_kept *tdm_ir_kept_by(const tdm_graph *graph, const tdm_ir_node *node) {
  return node->operation && node->operation->overwrites[0] ? tdm_ir_kept(graph, node->first_output)
                                                           : NULL;
}
/* Returns the parameter's name for users: a shard has that of its table. */
static inline const char *tdm_persistent_table(const tdm_graph_persistent *persistent) {
  return persistent->shard.table ? persistent->shard.table : persistent->name;
}
/* Returns true if the value belongs to this graph and exists. */
static inline bool tdm_ir_owns(const tdm_graph *graph, tdm_value value) {
  return value.index != 0 && value.graph == graph->tag && value.index < graph->values.count;
}
static inline tdm_value tdm_ir_handle(const tdm_graph *graph, uint32_t value) {
  return (tdm_value){value ? graph->tag : 0, value};
}

/* Reserve capacity for more nodes or values. */
tdm_status tdm_ir_reserve_nodes(tdm_graph *graph, size_t more) TDM_WARN_UNUSED;
tdm_status tdm_ir_reserve_values(tdm_graph *graph, size_t more) TDM_WARN_UNUSED;
/* Adds a value that owns its memory. Returns 0 if memory is exhausted, also if it was for the
 * value's spec (NULL). */
uint32_t tdm_ir_add_value(tdm_graph *graph, const tdm_ir_value *value);
size_t tdm_ir_output_count(const tdm_operation *operation, const void *attributes);
/* Runs the operation's shape rule. Specs of the inputs are those of the values. */
tdm_status tdm_ir_infer(const tdm_graph *graph, const tdm_operation *operation, const char *name,
                        const void *attributes, const uint32_t *inputs, size_t input_count,
                        tdm_spec *output_specs) TDM_WARN_UNUSED;
/* Returns true if dtypes and ranks are equal, and sizes are equal wherever both are fixed. */
bool tdm_spec_may_be(const tdm_spec *a, const tdm_spec *b);
/* Returns true if a tensor with the fixed sizes of the spec can exist. Otherwise it exceeds any
 * memory, whatever sizes its names have. */
bool tdm_ir_is_possible(const tdm_spec *spec);
/* Returns true if an object of that name may be added. Otherwise the reason is the thread's message
 * and, if graph is not NULL, the graph's error. */
bool tdm_graph_is_open(tdm_graph *graph, const char *name);
/* Returns true if that object may be described: the graph is open and a user's. A rule that runs on
 * the graph of a plan only appends nodes. */
bool tdm_graph_describes(tdm_graph *graph, const char *name);
/* Returns the current scope. The graph of a plan has only the outermost one. */
const tdm_scope *tdm_graph_scope(const tdm_graph *graph);
/* Copies bytes into the graph's region. Returns NULL if count is 0 or memory is exhausted. */
const void *tdm_ir_copy_bytes(tdm_graph *graph, const void *bytes, size_t count);
/* Returns a spec that equal values of the graph may share, or NULL if memory is exhausted. */
const tdm_spec *tdm_ir_share_spec(tdm_graph *graph, const tdm_spec *spec);

/* Adds a log of that age for a table, on the table's device. Returns 0 if memory is exhausted. */
uint32_t tdm_ir_add_log(tdm_graph *graph, uint32_t persistent, int32_t age, int64_t window);

/* Operations that only passes append. */
extern const tdm_operation tdm_operation_fill;
extern const tdm_operation tdm_operation_accumulate;
/* A sum of values from other devices. It starts as a copy of its first term or in memory of its
 * own; for each further term: total, term -> =total. */
extern const tdm_operation tdm_operation_begin_sum;
extern const tdm_operation tdm_operation_add_incoming;
/* One rank's part of a sum over all ranks (passes/device_sums.h). */
extern const tdm_operation tdm_operation_all_reduce;
static inline bool tdm_ir_is_all_reduce(const tdm_ir_node *node) {
  return node->operation == &tdm_operation_all_reduce;
}
/* An operation that identical ranks share, in plans that are only forecast. */
extern const tdm_operation tdm_operation_share;
static inline bool tdm_ir_is_share(const tdm_ir_node *node) {
  return node->operation == &tdm_operation_share;
}
extern const tdm_operation tdm_operation_sparse_add;
extern const tdm_operation tdm_operation_log_rows;
extern const tdm_operation tdm_operation_take_rows;
extern const tdm_operation tdm_operation_put_rows;
extern const tdm_operation tdm_operation_add_rows;
/* Kept state: whole, rows, indices -> =whole; value, whole -> =whole. */
extern const tdm_operation tdm_operation_index_copy;
extern const tdm_operation tdm_operation_keep;
extern const tdm_operation tdm_operation_check_finite;
extern const tdm_operation tdm_operation_reorder;
extern const tdm_operation tdm_operation_observe;
/* Several elementwise nodes as one node. Its attributes are tdm_fused_attributes. */
extern const tdm_operation tdm_operation_fused;

#endif
