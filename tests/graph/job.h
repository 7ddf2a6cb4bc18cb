/* Jobs of several ranks in one process. Each rank is a context with a separate thread, connected by
 * simnet. Invariant: a rank that fails reports it in its result, and the others can end. */
#ifndef TANDEM_TESTS_GRAPH_JOB_H
#define TANDEM_TESTS_GRAPH_JOB_H

#include "net/control.h"
#include "tests/graph/support.h"
#include "tests/support/simnet.h"

enum { JOB_MOST_RANKS = 8 };

/* The work of a rank, and its result. */
typedef struct job_rank {
  int rank;
  int rank_count;
  tdm_context *context;
  tdm_simnet *net;
  const void *user;
  tdm_status status;
  char message[TDM_MESSAGE_BYTES];
  double loss;   /* results of the body: this field and those after it */
  uint64_t hash; /* hash of parameters */
  uint64_t number;
} job_rank;

typedef tdm_status (*job_body)(job_rank *rank);

typedef struct job_options {
  int rank_count;
  int cpu_devices;                  /* CPU devices per rank; 0: 1 */
  int sim_devices;                  /* 0: none */
  const tdm_allocator *allocators;  /* (rank_count); NULL: the default of each */
  const tdm_control_options *watch; /* what waits for a rank that is lost fails; NULL: or not */
  tdm_simnet_options net;
  const void *user;                          /* argument for each rank */
  void (*begin)(int rank, const void *user); /* runs first on a rank's thread; may be NULL */
  /* log function of all ranks; NULL: none */
  void (*log)(void *user, tdm_log_level level, const char *message);
  void *log_user;
} job_options;

/* Runs body on every rank and waits for all of them. ranks (rank_count) receives the result of
 * each. */
void job_run(const job_options *options, job_body body, job_rank *ranks);
/* Runs the job and fails the test unless all ranks succeed. */
void job_must(const job_options *options, job_body body, job_rank *ranks);

/* ---- Training -------------------------------------------------------------------------------- */

/* The model that every rank of a job describes and trains, on batches of the models of
 * support.h. */
typedef struct job_model {
  tdm_graph *(*build)(job_rank *rank, tdm_value *out_loss);
  tdm_optimizer optimizer;
  int64_t rows;
  int micro_batches;
  tdm_collective collective;
  bool any_order; /* sums need not be in the order of replicas */
} job_model;

/* Creates a session of the model, deterministic unless the order of sums is irrelevant. Takes
 * ownership of the reference to graph. model NULL: the session does not train. */
tdm_session *job_session(tdm_graph *graph, tdm_value loss, const job_model *model);
/* A job's body whose user is a job_model: 20 steps; the loss of the last and the hash. */
tdm_status job_train(job_rank *rank);
/* All of that in jobs of 1 rank, which is a process without others, to `most`: the same loss on all
 * ranks, and one hash of parameters and states. */
void job_trains_alike(const job_model *model, int most, const job_options *options);

/* Wraps scope in a region of `count` replicas, spread over the ranks in order: each rank's first on
 * its device first, as "cpu:0", the others on second (NULL: on first as well). */
void job_replicate(const job_rank *rank, tdm_graph *graph, const char *scope, int count,
                   const char *first, const char *second);

/* Creates a graph with the models' inputs ids and targets -> "embedding" to width, `layers` of
 * "hidden0" and bend (of none NULL), the output "scores", all in the scope "model"; cross-entropy
 * "loss". */
tdm_graph *job_deep_graph(const job_rank *rank, int layers, int64_t width,
                          tdm_value (*bend)(tdm_graph *, const char *, tdm_value),
                          tdm_value *out_loss);

/* Returns a hash of those parameters and states of the session's store that live on this rank: the
 * XOR of all ranks' is that of one process that has all of them. */
uint64_t job_hash(tdm_session *session);

#endif
