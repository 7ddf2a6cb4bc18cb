/* Peer access. Invariant: a refusal is told in the log, and copies are right either way. */
#include "devices/cuda/peers.h"

#include "devices/context.h"

static bool enable(const tdm_cuda_api *api, int ordinal, int peer) {
  int possible = 0;
  if (api->peer_possible(&possible, ordinal, peer) != TDM_CUDA_SUCCESS || !possible) return false;
  const tdm_cuda_code code = api->peer_enable(peer);
  return code == TDM_CUDA_SUCCESS || code == TDM_CUDA_PEER_ENABLED;
}

void tdm_cuda_peers_enable(tdm_device *device, const tdm_cuda_api *api) {
  tdm_context *context = device->context;
  const int ordinal = tdm_cuda_device_ordinal(device);
  for (size_t i = 0; i < tdm_device_count(context); ++i) {
    const tdm_device *other = tdm_context_device(context, i);
    if (!tdm_device_same_kind(device, other)) continue;
    const int peer = tdm_cuda_device_ordinal(other);
    if (peer == ordinal) continue;
    tdm_context_log(context, TDM_LOG_INFO, "%s copies from %s %s", device->name, other->name,
                    enable(api, ordinal, peer) ? "directly" : "through the host");
  }
}
