/* The context's part of links. Reads the machine's file when the context is created and when its
 * cores are divided again, or a job's file when all ranks have joined. Calibrates on request.
 * Invariant: an unusable file is logged, and links stay modelled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/last_failure.h"
#include "devices/context/context.h"
#include "devices/context/route.h"
#include "devices/links/table.h"
#include "devices/network/network.h"

enum { PATH_BYTES = 3072 };

double tdm_context_route_ns(tdm_context *context, tdm_device *from, tdm_device *to, double bytes,
                            tdm_link_predictor predict) {
  if (from == to) return 0;
  const tdm_route route = tdm_route_between(from, to);
  double ns = 0;
  for (uint32_t i = 0; i < route.count; i++) {
    tdm_link_estimate link;
    tdm_context_link(context, route.hops[i].from, route.hops[i].to, true, &link);
    ns += predict(&link, bytes);
  }
  return ns;
}

/* Returns true if the file belongs to this machine with separate cores for devices on the host,
 * which they may still get before the start. */
static bool is_for_own_cores(tdm_context *context, const char *path) {
  if (!tdm_context_divide_cores(context, true)) return false;
  const bool is = tdm_links_load(context, path) == TDM_OK;
  if (is) tdm_links_forget(tdm_context_links(context));
  (void)tdm_context_divide_cores(context, false);
  return is;
}

/* Only a lack of memory is a failure. */
static tdm_status read_machines_file(tdm_context *context) {
  char path[PATH_BYTES];
  const bool asked_for = getenv("TANDEM_LINKS") != NULL;
  tdm_last_failure before, failure;
  tdm_last_failure_keep(&before);
  /* Without a folder, or with links off, there is nothing to read. */
  tdm_status status = tdm_links_path(context, path, sizeof path);
  const bool has_path = status == TDM_OK;
  if (has_path) status = tdm_links_load(context, path);
  if (status == TDM_OK || status == TDM_OUT_OF_MEMORY) return status;
  tdm_last_failure_keep(&failure);
  const bool expected =
      !has_path || (status == TDM_UNAVAILABLE && (!asked_for || is_for_own_cores(context, path)));
  tdm_last_failure_restore(&before);
  if (!expected)
    tdm_context_log(context, TDM_LOG_WARNING, "links are modelled, not calibrated: %s",
                    failure.message);
  return TDM_OK;
}

tdm_status tdm_links_open(tdm_context *context, tdm_links **out_links) {
  TDM_TRY(tdm_links_create(context, out_links));
  return tdm_context_rank_count(context) > 1 ? TDM_OK : read_machines_file(context);
}

void tdm_links_read_again(tdm_links *links) {
  tdm_context *context = tdm_links_context(links);
  if (tdm_context_rank_count(context) > 1)
    return; /* a job of several ranks has not read this
             * machine's file */
  tdm_links_forget(links);
  if (read_machines_file(context) != TDM_OK)
    tdm_context_log(context, TDM_LOG_WARNING, "links are modelled, not calibrated: %s",
                    tdm_last_message());
}

tdm_status tdm_links_join(tdm_context *context) {
  const tdm_status read = tdm_context_rank(context) == 0 ? read_machines_file(context) : TDM_OK;
  return tdm_links_send(context, read);
}

/* Writes what was calibrated, unless saving is off. */
static tdm_status keep(tdm_context *context, const char *cache_path) {
  char path[PATH_BYTES];
  const char *off = getenv("TANDEM_LINKS");
  if (cache_path) return tdm_links_save(context, cache_path, false);
  if (off && strcmp(off, "off") == 0) return TDM_OK;
  TDM_TRY(tdm_links_path(context, path, sizeof path));
  return tdm_links_save(context, path, true);
}

static tdm_status calibrate_job(tdm_context *context, const char *cache_path) {
  tdm_network *network = tdm_context_network(context);
  const char *before = tdm_network_intend(network, "calibrate links");
  tdm_status status = tdm_links_calibrate_ranks(context, 0);
  if (status == TDM_OK) {
    const tdm_status kept = tdm_context_rank(context) == 0 ? keep(context, cache_path) : TDM_OK;
    status = tdm_network_agree(network, kept);
  }
  (void)tdm_network_intend(network, before);
  return status;
}

static tdm_status calibrate(tdm_context *context, const char *cache_path) {
  if (tdm_context_rank_count(context) > 1) return calibrate_job(context, cache_path);
  TDM_TRY(tdm_links_calibrate(context, 0));
  return keep(context, cache_path);
}

tdm_status tdm_context_calibrate(tdm_context *context, const char *cache_path) {
  if (!context) return tdm_fail_null("the context");
  if (!tdm_context_enter(context)) return tdm_context_refuse(context);
  const tdm_status status = calibrate(context, cache_path);
  tdm_context_leave(context);
  return status;
}
