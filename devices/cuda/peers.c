/* Peer access. Invariant: it is enabled only between GPUs with copies between them. A refusal is
 * logged, and copies are correct either way. */
#include "devices/cuda/peers.h"

#include "devices/context/context.h"
#include "devices/cuda/device.h"

static bool enable(const tdm_cuda_api *api, int ordinal, int peer) {
  int possible = 0;
  if (api->peer_possible(&possible, ordinal, peer) != TDM_CUDA_SUCCESS || !possible) return false;
  const tdm_cuda_code code = api->peer_enable(peer);
  return code == TDM_CUDA_SUCCESS || code == TDM_CUDA_PEER_ENABLED;
}

void tdm_cuda_peers_meet(tdm_device *device, const tdm_device *other) {
  if (!tdm_cuda_device_meets(device, other)) return;
  const bool direct = enable(tdm_cuda_device_of(device)->gpu.api, tdm_cuda_device_ordinal(device),
                             tdm_cuda_device_ordinal(other));
  tdm_context_log(device->context, TDM_LOG_INFO, "%s copies from %s %s", device->name, other->name,
                  direct ? "directly" : "through the host");
}
