/* A view of a random model: the devices of its nodes, its regions, and the options of its session.
 * Views of one model share a store. view_open describes it to the library through tandem.h. */
#ifndef TANDEM_TESTS_RANDOM_VIEW_H
#define TANDEM_TESTS_RANDOM_VIEW_H

#include "tandem/tandem.h"
#include "tests/random/model.h"

enum {
  MOST_DEVICES = 8,
  MOST_WRAPS = 3,
  MOST_REPLICAS = 6,
  MOST_SHARDS = 2,
  NOWHERE = -1, /* a node without a place of its own */
};

typedef struct random_machine {
  int cpu_count; /* 1 to 7 */
  int sim_count; /* 1 to 4, used or not */
  int device_count;
  int devices[MOST_DEVICES]; /* below cpu_count: cpu; the rest sim */
  uint64_t delay_seed;       /* 0: queues do not pause */
} random_machine;

typedef struct random_wrap {
  int first, last; /* nodes */
  int device_count;
  int devices[MOST_REPLICAS];
  int output_device;
  bool weighted;
  double weights[MOST_REPLICAS];
  tdm_parallel_sharding sharding;
  bool between; /* by its boundary values, not by names */
} random_wrap;

/* Tables that are sharded: each by a node that looks it up. */
typedef struct random_shard {
  int tables[MOST_PARAMETERS]; /* nodes, in their order */
  int table_count;
  int device_count;
  int devices[MOST_DEVICES];          /* each once */
  bool by_tables, weighted, is_first; /* described before parallel regions */
  double weights[MOST_DEVICES];
} random_shard;

typedef struct random_view {
  int devices[MOST_NODES];
  int node_count; /* those before it; all of them where it trains */
  bool trains;
  int wrap_count;
  random_wrap wraps[MOST_WRAPS]; /* one that lies in another comes before it */
  int shard_count;
  random_shard shards[MOST_SHARDS];
  int micro_batches; /* or TDM_MICRO_BATCHES_AUTO */
  int depth, queue_limit, plan_limit;
  int collective; /* tdm_collective */
  bool deterministic, check_finite, profile, unfused, observes;
  bool reads_averages; /* it reads averages of parameters and does not train */
  int trace_runs;
  double learning_rate;
  uint32_t frozen; /* a bit a parameter */
} random_view;

void machine_draw(random_machine *it, uint64_t seed);
const char *machine_device(const random_machine *it, int device, char text[16]);
tdm_context *machine_open(const random_machine *it);

void view_draw(random_view *it, const random_model *of, const random_machine *on, uint64_t seed);
void view_print(const random_view *it, const random_model *of, const random_machine *on, FILE *out);
/* Describes the view's shards. */
void shards_draw(random_view *it, const random_model *of, const random_machine *on, uint64_t seed);
void shards_print(const random_view *it, const random_machine *on, FILE *out);
/* NULL on failure, with the library's message. */
tdm_session *view_open(const random_view *it, const random_model *of, const random_machine *on,
                       tdm_context *context, tdm_store *store, _Atomic uint64_t *observations);

/* Shards the tables whose nodes the view has. */
void build_shard(tdm_graph *graph, const random_view *it, const random_machine *on,
                 const random_shard *part);
/* Lets the layer of node `index` have the parameters of those before it. */
void build_ties(tdm_graph *graph, const random_model *of, int index);

/* The groups of parameters that sessions have, frozen ones first. Must outlive the creation of the
 * session. */
enum { GROUP_TEXT = MOST_PARAMETERS * sizeof(((random_parameter *)0)->name) };
typedef struct view_groups {
  tdm_optimizer optimizers[MOST_GROUPS];
  tdm_parameter_group list[MOST_GROUPS];
  char names[MOST_GROUPS][GROUP_TEXT];
  size_t count;
} view_groups;
void build_groups(view_groups *out, const random_model *of, double learning_rate, uint32_t frozen);

/* The call for a NODE_ROWS. */
tdm_value build_rows(tdm_graph *graph, const random_node *what, tdm_value x, const extent *made);
/* The call for a NODE_REAL, and the optimizer of a group of the model's. */
tdm_value build_real(tdm_graph *graph, const random_node *what, tdm_value x, const extent *made);
tdm_optimizer build_optimizer(const random_model *of, int group, double learning_rate);

/* Returns true if the view has the model's output k. It is fetched as "o0", "o1", ... */
bool view_has_output(const random_view *it, const random_model *of, int output);
/* Returns true if the view's run needs the feed of this node, "n0", "n1", ... */
bool view_feeds(const random_view *it, const random_model *of, int node);

#endif
