/* See models.h. */
#include "tests/graph/plans/models.h"

static tdm_value build_stages(tdm_graph *graph, tdm_session_options *options,
                              tdm_optimizer *optimizer) {
  *optimizer = tdm_adam(1e-3);
  optimizer->clip_norm = 1;
  options->device_map = "net/fc2=host:1/cpu:0,net/bend2=host:1/cpu:0,*=host:0/cpu:0";
  return plan_build_net(graph, NULL, false);
}

static tdm_value build_parts(tdm_graph *graph, tdm_session_options *options,
                             tdm_optimizer *optimizer) {
  options->micro_batches = 3;
  options->depth = 2;
  return build_stages(graph, options, optimizer);
}

static const char home[] = "host:0/cpu:0";
static const char all[] = "host:*/cpu:0";

static tdm_value build_home(tdm_graph *graph, tdm_session_options *options,
                            tdm_optimizer *optimizer) {
  (void)optimizer;
  options->deterministic = true;
  return plan_build_summed(graph, options, home, all, TDM_COLLECTIVE_HOME);
}

static tdm_value build_chain(tdm_graph *graph, tdm_session_options *options,
                             tdm_optimizer *optimizer) {
  (void)optimizer;
  options->deterministic = true;
  return plan_build_summed(graph, options, home, all, TDM_COLLECTIVE_CHAIN);
}

static tdm_value build_ring(tdm_graph *graph, tdm_session_options *options,
                            tdm_optimizer *optimizer) {
  *optimizer = tdm_adam(1e-3);
  return plan_build_summed(graph, options, home, all, TDM_COLLECTIVE_RING);
}

static tdm_value build_all_reduce(tdm_graph *graph, tdm_session_options *options,
                                  tdm_optimizer *optimizer) {
  optimizer->clip_norm = 1;
  return plan_build_summed(graph, options, home, all, TDM_COLLECTIVE_ALL_REDUCE);
}

static tdm_value build_spread(tdm_graph *graph, tdm_session_options *options,
                              tdm_optimizer *optimizer) {
  (void)options;
  (void)optimizer;
  return plan_build_sharded(graph, home, all, TDM_SHARDING_PARAMETERS);
}

static tdm_value build_shards(tdm_graph *graph, tdm_session_options *options,
                              tdm_optimizer *optimizer) {
  (void)options;
  return plan_build_shards(graph, optimizer, TDM_SHARD_ROWS, "host:0/cpu:0,host:1/cpu:0");
}

const plan_model plan_job_models[] = {
    {.name = "job_stages",
     .says = "a stage on another rank; gradients clipped by the norm of all of them",
     .build = build_stages,
     .feeds = PLAN_NET_FEEDS,
     .ranks = 2},
    {.name = "job_parts",
     .says = "the same, of a batch in three parts, two runs in flight",
     .build = build_parts,
     .feeds = PLAN_NET_FEEDS,
     .ranks = 2},
    {.name = "job_home",
     .says = "three ranks' gradients are summed where the parameters are",
     .build = build_home,
     .feeds = PLAN_NET_FEEDS,
     .ranks = 3},
    {.name = "job_chain",
     .says = "they are summed from rank to rank, in their order",
     .build = build_chain,
     .feeds = PLAN_NET_FEEDS,
     .ranks = 3},
    {.name = "job_ring",
     .says = "they are summed around a ring; every rank updates",
     .build = build_ring,
     .feeds = PLAN_NET_FEEDS,
     .ranks = 2},
    {.name = "job_all_reduce",
     .says = "they are summed by the engine that connects the ranks, and clipped",
     .build = build_all_reduce,
     .feeds = PLAN_NET_FEEDS,
     .ranks = 3},
    {.name = "job_spread",
     .says = "parameters are divided over both ranks, except those that both update",
     .build = build_spread,
     .feeds = PLAN_NET_FEEDS,
     .ranks = 2},
    {.name = "job_shards",
     .says = "tables of which each rank has rows",
     .build = build_shards,
     .feeds = PLAN_SHARD_FEEDS,
     .ranks = 2},
};
const size_t plan_job_count = TDM_COUNT_OF(plan_job_models);
