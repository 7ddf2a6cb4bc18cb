/* Reads the options that callers pass. */
#include "core/options.h"

#include <string.h>

#include "core/status.h"

tdm_status tdm_options_read(const char *where, const char *initializer, const void *options,
                            size_t bytes, void *defaults) {
  if (!options) return TDM_OK;
  size_t given = 0;
  memcpy(&given, options, sizeof given);
  if (!(given & TDM_OPTIONS_INITIALIZED))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "%s: its options were not made by %s, whose defaults they need. Call it, and "
                    "change fields of what it returns",
                    where, initializer);
  given &= ~TDM_OPTIONS_INITIALIZED;
  if (given < sizeof given || given > bytes)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "%s: its options have %zu bytes, expected %zu to %zu. Run the program with a "
                    "library as new as its headers",
                    where, given, sizeof given, bytes);
  memcpy((char *)defaults + sizeof given, (const char *)options + sizeof given,
         given - sizeof given);
  return TDM_OK;
}
