/* Sums by the engine over all ranks: gradients, and whether a step has failed on any rank or has
 * different settings. Invariant: a queue has at most one sum, of which at most one piece is
 * outstanding. Every rank makes the same sums in the same order. A rank that cannot make one takes
 * part in no later one. */
#include <stdio.h>
#include <string.h>

#include "core/number.h"
#include "devices/network/network_state.h"

/* Ends the sum if status is a failure, or all of it is done. */
static tdm_status go_on(tdm_sum_progress *progress, tdm_status status, size_t bytes,
                        bool *out_ended) {
  *out_ended = status != TDM_OK || (!progress->out && progress->passed == bytes);
  if (!*out_ended) return TDM_OK;
  progress->passed = 0;
  progress->out = false;
  return status;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* A rank that has not computed its input takes part all the same; the vote notifies the others. */
static tdm_status reduce_piece(tdm_network *network, const tdm_message *sum,
                               const tdm_flight *flight, bool spoiled) {
  tdm_sum_progress *progress = &network->reducing;
  const size_t left = sum->bytes - progress->passed;
  progress->piece = left < TDM_SUM_PIECE_BYTES ? left : TDM_SUM_PIECE_BYTES;
  if (spoiled)
    memset(progress->buffer, 0, progress->piece);
  else
    memcpy(progress->buffer, tdm_message_memory(sum, flight) + progress->passed, progress->piece);
  const tdm_status status =
      tdm_network_post_sum(network, &progress->call, sum->dtype, progress->buffer,
                           progress->piece / tdm_dtype_bytes(sum->dtype));
  progress->out = status == TDM_OK;
  tdm_network_give_up(network, status); /* others would wait for what is not posted */
  return status;
}

tdm_status tdm_network_sum(tdm_network *network, const tdm_command *command,
                           const tdm_flight *flight, bool spoiled, bool *out_ended) {
  const tdm_message *sum = &command->message;
  tdm_sum_progress *progress = &network->reducing;
  tdm_status status = TDM_OK;
  if (progress->out) {
    bool settled = false;
    status = tdm_network_look_after(network, &progress->call, &settled);
    if (!settled) return go_on(progress, status, sum->bytes, out_ended);
    if (status == TDM_OK && !spoiled)
      memcpy(tdm_message_memory(sum, flight) + progress->passed, progress->buffer, progress->piece);
    progress->passed += progress->piece;
    progress->out = false;
    if (network->control) tdm_control_progress(network->control, TDM_WATCHED_SEND, sum->number);
    if (status != TDM_OK || progress->passed == sum->bytes)
      return go_on(progress, status, sum->bytes, out_ended);
  }
  status = reduce_piece(network, sum, flight, spoiled);
  return go_on(progress, status, sum->bytes, out_ended);
}

/* ---- Votes ----------------------------------------------------------------------------------- */

/* A ballot contains whether the rank's flight has failed, then each part of its settings and that
 * part's square. Sums of these are exact up to 4,096 ranks and identical on all ranks, so all ranks
 * agree on whether settings are equal. */
enum { PART_BITS = 12 };

static void fill_ballot(const tdm_flight *flight, bool failed, double *ballot) {
  ballot[0] = failed ? 1 : 0;
  for (int i = 0; i < TDM_NETWORK_SETTING_PARTS; i++) {
    const double part = (double)(flight->settings >> (i * PART_BITS) & ((1 << PART_BITS) - 1));
    ballot[1 + 2 * i] = part;
    ballot[2 + 2 * i] = part * part;
  }
}

/* Returns true if the numbers are equal: the square of their sum equals the sum of their squares
 * times their count. */
static bool are_alike(const double *ballot, int rank_count) {
  bool alike = true;
  for (int i = 0; i < TDM_NETWORK_SETTING_PARTS; i++)
    alike &= ballot[1 + 2 * i] * ballot[1 + 2 * i] == rank_count * ballot[2 + 2 * i];
  return alike;
}

static tdm_status cast_vote(tdm_network *network, tdm_flight *flight) {
  const bool failed = atomic_load_explicit(&flight->failed, memory_order_acquire) != 0 ||
                      tdm_flight_close(flight) != TDM_OK;
  fill_ballot(flight, failed, network->ballot);
  const tdm_status status = tdm_network_post_sum(network, &network->voting, TDM_FLOAT64,
                                                 network->ballot, TDM_NETWORK_BALLOT_COUNT);
  network->votes = status == TDM_OK;
  tdm_network_give_up(network, status);
  return status;
}

static tdm_status count_votes(const tdm_network *network, const tdm_flight *flight) {
  const double *ballot = network->ballot;
  const int rank_count = network->endpoint->rank_count;
  if (ballot[0] > 0)
    return tdm_fail(TDM_CANCELLED, "the step has failed on %.0f of %d ranks: none is updated",
                    ballot[0], rank_count);
  if (are_alike(ballot, rank_count)) return TDM_OK;
  const tdm_run_scalars *first = flight->scalars;
  char momentum[40] = "the optimizer's momentum";
  if (first->has_momentum)
    (void)tdm_plain_print(momentum, sizeof momentum, "momentum %g", first->momentum);
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "learning rates or momenta differ between ranks, and must be the same on all: "
                  "rank %d has %g with %s, for its first parameters; none is updated",
                  network->endpoint->rank, first->learning_rate, momentum);
}

tdm_status tdm_network_vote(tdm_network *network, tdm_flight *flight, bool *out_ended) {
  tdm_status status = TDM_OK;
  if (!network->votes) {
    status = cast_vote(network, flight);
    *out_ended = status != TDM_OK;
    return status;
  }
  bool settled = false;
  status = tdm_network_look_after(network, &network->voting, &settled);
  *out_ended = settled || status != TDM_OK;
  if (!*out_ended) return TDM_OK;
  network->votes = false;
  return status == TDM_OK ? count_votes(network, flight) : status;
}
