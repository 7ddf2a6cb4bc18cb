/* Models of many kinds for jobs of any number of ranks, with only the public header: recurrent and
 * convolutional layers, sparse tables, dropout, micro-batches, steps in flight. Invariant: the
 * number of replicas does not depend on the number of ranks, so all have one hash. */
#ifndef TANDEM_TESTS_NET_JOB_MODELS_H
#define TANDEM_TESTS_NET_JOB_MODELS_H

#include "tandem/tandem.h"

size_t job_model_count(void);
const char *job_model_name(size_t model);
/* Creates a session that trains the model over all ranks of the context; NULL: with a message. */
tdm_session *job_model_open(tdm_context *context, size_t model);
/* Trains it for 20 steps; returns a hash of their losses and of the final results of all rows. */
tdm_status job_model_train(tdm_session *session, size_t model, double *out_loss,
                           uint64_t *out_hash);

#endif
