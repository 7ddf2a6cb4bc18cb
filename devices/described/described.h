/* The described kind: devices of a machine that is described in a file. */
#ifndef TANDEM_DEVICES_DESCRIBED_DESCRIBED_H
#define TANDEM_DEVICES_DESCRIBED_DESCRIBED_H

#include "devices/contract/kind.h"

extern const tdm_kind tdm_described_kind;

#endif
