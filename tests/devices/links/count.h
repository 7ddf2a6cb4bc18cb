/* Counts calibrated links. */
#ifndef TANDEM_TESTS_DEVICES_LINKS_COUNT_H
#define TANDEM_TESTS_DEVICES_LINKS_COUNT_H

#include "devices/context/context.h"
#include "devices/links/table.h"

static inline size_t test_calibrated_links(tdm_context *context) {
  const size_t count = tdm_device_count(context);
  size_t calibrated = 0;
  for (size_t i = 0; i < 2 * count * count; i++) {
    const tdm_link_estimate *estimate =
        tdm_links_at(tdm_context_links(context), tdm_context_device(context, i / 2 / count),
                     tdm_context_device(context, i / 2 % count), i % 2 == 1);
    calibrated += estimate && estimate->origin == TDM_LINK_CALIBRATED;
  }
  return calibrated;
}

#endif
