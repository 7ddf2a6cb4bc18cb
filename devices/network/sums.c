/* What the engine sums over all ranks: gradients, and whether a step has failed anywhere.
 * Invariant: a queue has at most one sum, of which at most one piece is out; every rank makes the
 * same ones in the same order, and who cannot make one takes part in none that follows. */
#include <string.h>

#include "devices/network/network_state.h"

/* Ends the sum when status is a failure, or all of it has passed. */
static tdm_status go_on(tdm_sum_progress *progress, tdm_status status, size_t bytes,
                        bool *out_ended) {
  *out_ended = status != TDM_OK || (!progress->out && progress->passed == bytes);
  if (!*out_ended) return TDM_OK;
  progress->passed = 0;
  progress->out = false;
  return status;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Who has not made what is summed takes part all the same; the vote tells the others. */
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
  tdm_network_give_up(network, status); /* what is not posted, others would wait for */
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

static tdm_status cast_vote(tdm_network *network, tdm_flight *flight) {
  const bool failed = atomic_load_explicit(&flight->failed, memory_order_acquire) != 0 ||
                      tdm_flight_close(flight) != TDM_OK;
  network->against = failed ? 1.0f : 0.0f;
  const tdm_status status =
      tdm_network_post_sum(network, &network->voting, TDM_FLOAT32, &network->against, 1);
  network->votes = status == TDM_OK;
  tdm_network_give_up(network, status);
  return status;
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
  if (status != TDM_OK || network->against == 0) return status;
  return tdm_fail(TDM_CANCELLED, "the step has failed on %.0f of %d ranks: none is updated",
                  (double)network->against, network->endpoint->rank_count);
}
