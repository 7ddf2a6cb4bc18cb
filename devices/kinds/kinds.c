/* The kinds of devices of this build, as TDM_KINDS tells them (kinds.bzl). Invariant: cpu comes
 * first, being the host itself; a kind that is left out says why. */
#include "devices/contract/kind.h"

#define DECLARED(kind) extern const tdm_kind tdm_##kind##_kind;
#define LISTED(kind) &tdm_##kind##_kind,

TDM_KINDS(DECLARED)

const tdm_kind *const tdm_device_kinds[] = {TDM_KINDS(LISTED) NULL};
