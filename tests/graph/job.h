/* Jobs of several ranks in one process: each rank is a context with a thread of its own, connected
 * by simnet. Invariant: a rank that fails says so in its result, and the others are let end. */
#ifndef TANDEM_TESTS_GRAPH_JOB_H
#define TANDEM_TESTS_GRAPH_JOB_H

#include "net/simnet.h"
#include "tests/graph/support.h"

enum { JOB_MOST_RANKS = 8 };

/* What a rank does, and what became of it. */
typedef struct job_rank {
  int rank;
  int rank_count;
  tdm_context *context;
  const void *user;
  tdm_status status;
  char message[TDM_MESSAGE_BYTES];
  double loss;   /* the caller's, as what follows */
  uint64_t hash; /* of parameters */
  uint64_t number;
} job_rank;

typedef tdm_status (*job_body)(job_rank *rank);

typedef struct job_options {
  int rank_count;
  int cpu_devices; /* of each; 0: 1 */
  int sim_devices; /* 0: none */
  tdm_simnet_options net;
  const void *user; /* of each rank */
} job_options;

/* Runs body on every rank and waits for all; ranks (rank_count) tell what became of each. Fails the
 * test where a context cannot be made. net gets what crossed, unless it is NULL. */
void job_run(const job_options *options, job_body body, job_rank *ranks);
/* The same, and all must succeed. */
void job_must(const job_options *options, job_body body, job_rank *ranks);

/* A hash of those parameters and states of the session's store that live on this rank: the XOR of
 * all ranks' is that of one process that has all of them. */
uint64_t job_hash(tdm_session *session);

#endif
