/* Injects failures. Invariant: a site that is not armed costs one relaxed load and counts nothing,
 * so that devices do not share a busy counter in production. */
#include <inttypes.h>

#include "devices/contract/device.h"

static const char *const site_names[TDM_FAULT_SITES] = {
    [TDM_FAULT_ALLOCATION] = "allocation",
    [TDM_FAULT_COPY] = "copy",
    [TDM_FAULT_KERNEL] = "kernel",
    [TDM_FAULT_WAIT] = "wait",
};

static const tdm_status site_statuses[TDM_FAULT_SITES] = {
    [TDM_FAULT_ALLOCATION] = TDM_OUT_OF_MEMORY,
    [TDM_FAULT_COPY] = TDM_DEVICE_LOST,
    [TDM_FAULT_KERNEL] = TDM_DEVICE_LOST,
    [TDM_FAULT_WAIT] = TDM_DEVICE_LOST,
};

void tdm_faults_arm(tdm_faults *faults, tdm_fault_site site, uint64_t n, bool from_on) {
  atomic_store(&faults->fail_at[site], 0);
  atomic_store(&faults->calls[site], 0);
  atomic_store(&faults->from_on, from_on);
  atomic_store(&faults->fail_at[site], n);
}

tdm_status tdm_faults_strike(tdm_faults *faults, tdm_fault_site site) {
  const uint64_t fail_at = atomic_load_explicit(&faults->fail_at[site], memory_order_relaxed);
  if (fail_at == 0) return TDM_OK;
  const uint64_t call = atomic_fetch_add(&faults->calls[site], 1) + 1;
  if (call != fail_at && !(atomic_load(&faults->from_on) && call > fail_at)) return TDM_OK;
  return tdm_fail(site_statuses[site], "injected failure of %s %" PRIu64, site_names[site], call);
}
