/* The device kinds of this build, as defined by TDM_KINDS (kinds.bzl). Invariant: cpu comes first,
 * being the host itself. A kind that is left out contains the reason. */
#include "devices/contract/kind.h"

#define DECLARED(kind) extern const tdm_kind tdm_##kind##_kind;
#define LISTED(kind) &tdm_##kind##_kind,

TDM_KINDS(DECLARED)

const tdm_kind *const tdm_device_kinds[] = {TDM_KINDS(LISTED) NULL};
