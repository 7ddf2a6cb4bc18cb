/* See models.h. */
#include "tests/graph/plans/models.h"
#include "tests/options.h"

#define TOY                                                                                        \
  "\"device\": {\"model\": \"toy\", \"memory_bytes\": 1e6, \"flops_per_second\": {\"float32\": "   \
  "2e9}, \"memory_bytes_per_second\": 1e9, \"launch_us\": 3}"
/* Four devices with links between all of them. Pairs share the link to the host. */
#define ONE_HOST                                                                                   \
  "{\"title\": \"four\", \"sources\": [\"this test\"], \"devices_per_host\": 4, " TOY              \
  ", \"peer\": {\"latency_us\": 1, \"bytes_per_second\": 4e9}, \"host_link\": {\"latency_us\": "   \
  "5, \"bytes_per_second\": 10e9, \"sharing\": 2}}"
/* Three hosts of two devices, which are connected through the host. */
#define THREE_HOSTS                                                                                \
  "{\"title\": \"six\", \"sources\": [\"this test\"], \"hosts\": 3, \"devices_per_host\": 2, " TOY \
  ", \"host_link\": {\"latency_us\": 5, \"bytes_per_second\": 10e9}, \"network\": "                \
  "{\"latency_us\": 30, \"bytes_per_second\": 1e9}}"

/* ---- A network of three layers below "net", and its loss ------------------------------------- */

tdm_value plan_build_net(tdm_graph *graph, const char *device, bool loss_within) {
  if (device) tdm_place(graph, device);
  const tdm_value input =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), PLAN_WIDTH));
  tdm_scope_push(graph, "net");
  tdm_value x = tdm_relu(graph, "bend1", tdm_linear(graph, "fc1", input, PLAN_WIDTH));
  x = tdm_relu(graph, "bend2", tdm_linear(graph, "fc2", x, 2 * PLAN_WIDTH));
  x = tdm_linear(graph, "fc3", x, PLAN_WIDTH);
  tdm_value loss = {0};
  if (loss_within) loss = tdm_mse(graph, "loss", x, input);
  tdm_scope_pop(graph);
  return loss_within ? loss : tdm_mse(graph, "loss", x, input);
}

void plan_wrap(tdm_graph *graph, const char *scope, const char *devices) {
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = devices);
  tdm_data_parallel(graph, scope, &options);
}

tdm_value plan_build_summed(tdm_graph *graph, tdm_session_options *options, const char *home,
                            const char *devices, tdm_collective collective) {
  options->collective = collective;
  const tdm_value loss = plan_build_net(graph, home, true);
  plan_wrap(graph, "net", devices);
  return loss;
}

tdm_value plan_build_sharded(tdm_graph *graph, const char *home, const char *devices,
                             tdm_parallel_sharding sharding) {
  const tdm_value loss = plan_build_net(graph, home, true);
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = devices, o.sharding = sharding);
  tdm_data_parallel(graph, "net", &options);
  return loss;
}

static const char three[] = "sim:0,sim:1,sim:2";

static tdm_value build_home(tdm_graph *graph, tdm_session_options *options,
                            tdm_optimizer *optimizer) {
  optimizer->clip_norm = 1;
  return plan_build_summed(graph, options, "sim:0", three, TDM_COLLECTIVE_HOME);
}

static tdm_value build_chain(tdm_graph *graph, tdm_session_options *options,
                             tdm_optimizer *optimizer) {
  (void)optimizer;
  options->deterministic = true;
  return plan_build_summed(graph, options, "sim:0", three, TDM_COLLECTIVE_CHAIN);
}

static tdm_value build_ring(tdm_graph *graph, tdm_session_options *options,
                            tdm_optimizer *optimizer) {
  *optimizer = tdm_adam(1e-3);
  return plan_build_summed(graph, options, "sim:0", three, TDM_COLLECTIVE_RING);
}

static tdm_value build_tree(tdm_graph *graph, tdm_session_options *options,
                            tdm_optimizer *optimizer) {
  (void)optimizer;
  return plan_build_summed(graph, options, "sim:0", three, TDM_COLLECTIVE_TREE);
}

static tdm_value build_spread(tdm_graph *graph, tdm_session_options *options,
                              tdm_optimizer *optimizer) {
  (void)options;
  *optimizer = tdm_adam(1e-3);
  return plan_build_sharded(graph, "sim:0", "sim:0,sim:1", TDM_SHARDING_OPTIMIZER_STATES);
}

static tdm_value build_by_rows(tdm_graph *graph, tdm_session_options *options,
                               tdm_optimizer *optimizer) {
  (void)options;
  *optimizer = tdm_adam(1e-3);
  return plan_build_sharded(graph, "sim:0", "sim:0,sim:1", TDM_SHARDING_PARAMETERS);
}

/* A table that ids look up stays whole; one that is read whole is sharded. */
static tdm_value build_table_by_rows(tdm_graph *graph, tdm_session_options *options,
                                     tdm_optimizer *optimizer) {
  (void)options;
  (void)optimizer;
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, "sim:0");
  tdm_scope_push(graph, "net");
  const tdm_value words = tdm_embedding(graph, "table", ids, PLAN_TABLE_ROWS, PLAN_WIDTH);
  const tdm_value scores = tdm_linear(graph, "scores", words, PLAN_TABLE_ROWS);
  const tdm_value loss = tdm_cross_entropy(graph, "loss", scores, ids);
  tdm_scope_pop(graph);
  const tdm_parallel_options spread = OPTIONS(tdm_parallel_options, o.devices = "sim:0,sim:1",
                                              o.sharding = TDM_SHARDING_PARAMETERS);
  tdm_data_parallel(graph, "net", &spread);
  return loss;
}

static tdm_value build_unequal(tdm_graph *graph, tdm_session_options *options,
                               tdm_optimizer *optimizer) {
  (void)optimizer;
  options->micro_batches = 2;
  const tdm_value loss = plan_build_net(graph, "cpu:0", false);
  const double weights[] = {3, 1};
  const tdm_parallel_options unequal = OPTIONS(tdm_parallel_options, o.devices = "sim:0,cpu:1",
                                               o.output_device = "sim:1", o.weights = weights);
  tdm_data_parallel(graph, "net", &unequal);
  return loss;
}

/* The statistics of later replicas have no readers. */
static tdm_value build_normalized(tdm_graph *graph, tdm_session_options *options,
                                  tdm_optimizer *optimizer) {
  (void)options;
  (void)optimizer;
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), PLAN_WIDTH));
  tdm_place(graph, "sim:0");
  tdm_scope_push(graph, "net");
  tdm_value y = tdm_batch_norm(graph, "norm", tdm_linear(graph, "fc", x, PLAN_WIDTH));
  y = tdm_dropout(graph, "drop", y, 0.25);
  tdm_scope_pop(graph);
  plan_wrap(graph, "net", "sim:0,sim:1");
  return tdm_mse(graph, "loss", y, x);
}

static tdm_value build_nested(tdm_graph *graph, tdm_session_options *options,
                              tdm_optimizer *optimizer) {
  (void)options;
  (void)optimizer;
  const tdm_value loss = plan_build_net(graph, "cpu:0", false);
  plan_wrap(graph, "net/fc2", "sim:0,sim:1");
  plan_wrap(graph, "net", "cpu:0,cpu:1");
  return loss;
}

/* ---- Tables in shards ------------------------------------------------------------------------ */

tdm_value plan_build_shards(tdm_graph *graph, tdm_optimizer *optimizer, tdm_shard_by by,
                            const char *devices) {
  *optimizer = tdm_adagrad(0.1);
  const tdm_embedding_bag_options sums =
      OPTIONS(tdm_embedding_bag_options, o.mode = TDM_BAG_SUM, o.sparse = true);
  tdm_place(graph, "cpu:0");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, TDM_DIM("batch"), 2));
  const tdm_value y =
      tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), PLAN_WIDTH));
  const tdm_value users =
      tdm_embedding_bag(graph, "users", ids, PLAN_TABLE_ROWS, PLAN_WIDTH, &sums);
  const tdm_value items =
      tdm_embedding_bag(graph, "items", ids, 2 * PLAN_TABLE_ROWS, PLAN_WIDTH, &sums);
  const tdm_shard_options shards = OPTIONS(tdm_shard_options, o.devices = devices, o.by = by);
  tdm_shard(graph, "users,items", &shards);
  return tdm_mse(graph, "loss", tdm_mul(graph, "both", users, items), y);
}

static tdm_value build_shards_of_rows(tdm_graph *graph, tdm_session_options *options,
                                      tdm_optimizer *optimizer) {
  (void)options;
  return plan_build_shards(graph, optimizer, TDM_SHARD_ROWS, "cpu:1,sim:0,sim:1");
}

static tdm_value build_shards_of_tables(tdm_graph *graph, tdm_session_options *options,
                                        tdm_optimizer *optimizer) {
  (void)options;
  return plan_build_shards(graph, optimizer, TDM_SHARD_TABLES, "cpu:1,sim:0,sim:1");
}

/* ---- On machines that are described ---------------------------------------------------------- */

static tdm_value build_on_four(tdm_graph *graph, tdm_session_options *options,
                               tdm_optimizer *optimizer) {
  (void)options;
  (void)optimizer;
  const tdm_value loss = plan_build_net(graph, "paper:0", true);
  plan_wrap(graph, "net", "paper:*");
  return loss;
}

static tdm_value build_on_six(tdm_graph *graph, tdm_session_options *options,
                              tdm_optimizer *optimizer) {
  (void)options;
  *optimizer = tdm_adam(1e-3);
  const tdm_value loss = plan_build_net(graph, "paper:0", true);
  plan_wrap(graph, "net", "paper:*");
  return loss;
}

static tdm_value build_of_many(tdm_graph *graph, tdm_session_options *options,
                               tdm_optimizer *optimizer) {
  (void)optimizer;
  options->alike_ranks = 3;
  const tdm_value loss = plan_build_net(graph, "paper:0", true);
  plan_wrap(graph, "net", "paper:0,paper:1");
  return loss;
}

static tdm_value build_stages_on_four(tdm_graph *graph, tdm_session_options *options,
                                      tdm_optimizer *optimizer) {
  (void)optimizer;
  options->device_map = "net/fc2=paper:1,net/bend2=paper:1,net/fc3=paper:3,*=paper:0";
  options->micro_batches = 3;
  return plan_build_net(graph, NULL, false);
}

/* The table's home is another device than its second reader's. */
static tdm_value build_rows_on_paper(tdm_graph *graph, tdm_session_options *options,
                                     tdm_optimizer *optimizer) {
  options->device_map = "loss=paper:1,*=paper:0";
  const tdm_value loss = plan_build_rows(graph, options, optimizer);
  *optimizer = tdm_sparse_adam(1e-3);
  return loss;
}

static tdm_value build_image_on_paper(tdm_graph *graph, tdm_session_options *options,
                                      tdm_optimizer *optimizer) {
  options->device_map = "scores=paper:1,loss=paper:1,*=paper:0";
  return plan_build_image(graph, options, optimizer);
}

static tdm_value build_steps_on_paper(tdm_graph *graph, tdm_session_options *options,
                                      tdm_optimizer *optimizer) {
  options->device_map = "lstm=paper:1,*=paper:0";
  return plan_build_steps(graph, options, optimizer);
}

static tdm_value build_block_on_paper(tdm_graph *graph, tdm_session_options *options,
                                      tdm_optimizer *optimizer) {
  options->device_map = "head=paper:1,*=paper:0";
  return plan_build_block(graph, options, optimizer);
}

/* ---- The list -------------------------------------------------------------------------------- */

const plan_model plan_parallel_models[] = {
    {.name = "sums_at_home",
     .says = "replicas' gradients are summed where the parameters are, and clipped",
     .build = build_home,
     .feeds = PLAN_NET_FEEDS},
    {.name = "sums_by_chain",
     .says = "they are summed from device to device, in the order of replicas",
     .build = build_chain,
     .feeds = PLAN_NET_FEEDS},
    {.name = "sums_by_ring",
     .says = "they are summed around a ring; every device updates, with states of its own",
     .build = build_ring,
     .feeds = PLAN_NET_FEEDS},
    {.name = "sums_by_tree",
     .says = "they are summed up a tree and sent down again",
     .build = build_tree,
     .feeds = PLAN_NET_FEEDS},
    {.name = "homes_spread",
     .says = "parameters have their homes on both devices",
     .build = build_spread,
     .feeds = PLAN_NET_FEEDS},
    {.name = "homes_by_rows",
     .says = "a third is updated on both, and of the rest each has half of the rows",
     .build = build_by_rows,
     .feeds = PLAN_NET_FEEDS},
    {.name = "table_by_rows",
     .says = "each has half of the rows of what is read whole; a table that ids look up is whole",
     .build = build_table_by_rows,
     .feeds = {PLAN_IDS("ids")}},
    {.name = "unequal_replicas",
     .says = "three quarters of the rows here, one there; results elsewhere; two parts",
     .build = build_unequal,
     .feeds = PLAN_NET_FEEDS},
    {.name = "normalized_replicas",
     .says = "replicas with statistics of batches, of which the first one's are kept",
     .build = build_normalized,
     .feeds = PLAN_NET_FEEDS},
    {.name = "nested_replicas",
     .says = "replicas whose middle layer has replicas",
     .build = build_nested,
     .feeds = PLAN_NET_FEEDS},
    {.name = "shards_of_rows",
     .says = "tables of which each device has rows",
     .build = build_shards_of_rows,
     .feeds = PLAN_SHARD_FEEDS},
    {.name = "shards_of_tables",
     .says = "tables each of which one device has",
     .build = build_shards_of_tables,
     .feeds = PLAN_SHARD_FEEDS},
    {.name = "described_host",
     .says = "replicas on four devices that are described; how sums go is chosen",
     .build = build_on_four,
     .feeds = PLAN_NET_FEEDS,
     .machine = ONE_HOST},
    {.name = "described_hosts",
     .says = "replicas on two devices of each of three hosts; every device has a copy",
     .build = build_on_six,
     .feeds = PLAN_NET_FEEDS,
     .machine = THREE_HOSTS},
    {.name = "alike_ranks",
     .says = "one of three ranks alike, each of two devices",
     .build = build_of_many,
     .feeds = PLAN_NET_FEEDS,
     .machine = THREE_HOSTS},
    {.name = "described_stages",
     .says = "three stages on devices that are described, in three parts",
     .build = build_stages_on_four,
     .feeds = PLAN_NET_FEEDS,
     .machine = ONE_HOST},
    {.name = "described_rows",
     .says = "a table with gradients of rows on a described device; what its updates are to take",
     .build = build_rows_on_paper,
     .feeds = {PLAN_IDS("ids"), PLAN_IDS("others")},
     .machine = ONE_HOST},
    {.name = "described_image",
     .says = "what a convolution is to take",
     .build = build_image_on_paper,
     .feeds = PLAN_IMAGE_FEEDS,
     .machine = ONE_HOST},
    {.name = "described_steps",
     .says = "what recurrent layers are to take",
     .build = build_steps_on_paper,
     .feeds = PLAN_STEPS_FEEDS,
     .machine = ONE_HOST},
    {.name = "described_block",
     .says = "what a transformer's block is to take",
     .build = build_block_on_paper,
     .feeds = PLAN_BLOCK_FEEDS,
     .machine = ONE_HOST},
};
const size_t plan_parallel_count = TDM_COUNT_OF(plan_parallel_models);
