/* What ranks tell one another outside of plans, blocking. Invariant: calls that are out lie in the
 * network's memory, which outlives a failure. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "devices/network/network_state.h"

enum { GATHER_PAUSE_NS = 50000 };

static tdm_status await_all(tdm_network *network, tdm_network_call *calls, size_t count) {
  tdm_status first = TDM_OK;
  for (size_t i = 0; i < count; i++) {
    for (;;) {
      bool settled = false;
      const tdm_status status = tdm_network_look_after(network, &calls[i], &settled);
      if (first == TDM_OK) first = status;
      if (settled || status != TDM_OK) break;
      const struct timespec pause = {.tv_nsec = GATHER_PAUSE_NS};
      (void)nanosleep(&pause, NULL);
    }
  }
  return first;
}

tdm_status tdm_network_gather(tdm_network *network, const void *own, size_t bytes, void *all) {
  tdm_network_call *calls = network->gathering;
  size_t posted = 0;
  tdm_status status = TDM_OK;
  for (int r = 0; r < network->endpoint->rank_count && status == TDM_OK; r++) {
    unsigned char *at = (unsigned char *)all + (size_t)r * bytes;
    if (r == network->endpoint->rank) {
      memcpy(at, own, bytes);
      continue;
    }
    status = tdm_network_post_receive(network, &calls[posted], (uint32_t)r, TDM_GATHER_CHANNEL, at,
                                      bytes);
    if (status == TDM_OK) posted++;
    if (status == TDM_OK)
      status = tdm_network_post_send(network, &calls[posted], (uint32_t)r, TDM_GATHER_CHANNEL, own,
                                     bytes);
    if (status == TDM_OK) posted++;
  }
  const tdm_status ended = await_all(network, calls, posted);
  return status != TDM_OK ? status : ended;
}

static tdm_status first_failure(const tdm_rank_report *reports, int count) {
  for (int r = 0; r < count; r++)
    if (reports[r].status != TDM_OK)
      return tdm_fail((tdm_status)reports[r].status, "rank %d: %.*s", r, TDM_MESSAGE_BYTES - 16,
                      reports[r].text);
  return TDM_OK;
}

tdm_status tdm_network_agree(tdm_network *network, tdm_status status) {
  tdm_rank_report own = {.status = (uint32_t)status};
  if (status != TDM_OK) (void)snprintf(own.text, sizeof(own.text), "%s", tdm_last_message());
  TDM_TRY(tdm_network_gather(network, &own, sizeof(own), network->reports));
  return first_failure(network->reports, network->endpoint->rank_count);
}

static tdm_status post_pass(tdm_network *network, int from, int to, void *memory, size_t bytes,
                            size_t *posted) {
  const int rank = network->endpoint->rank;
  tdm_network_call *calls = network->gathering;
  if (rank != from && (to < 0 || to == rank)) {
    TDM_TRY(tdm_network_post_receive(network, &calls[0], (uint32_t)from, TDM_GATHER_CHANNEL, memory,
                                     bytes));
    *posted = 1;
  }
  for (int r = 0; rank == from && r < network->endpoint->rank_count; r++) {
    if (r == from || (to >= 0 && r != to)) continue;
    TDM_TRY(tdm_network_post_send(network, &calls[*posted], (uint32_t)r, TDM_GATHER_CHANNEL, memory,
                                  bytes));
    *posted += 1;
  }
  return TDM_OK;
}

tdm_status tdm_network_pass(tdm_network *network, int from, int to, void *memory, size_t bytes) {
  size_t posted = 0;
  const tdm_status status = post_pass(network, from, to, memory, bytes, &posted);
  const tdm_status ended = await_all(network, network->gathering, posted);
  return status != TDM_OK ? status : ended;
}
