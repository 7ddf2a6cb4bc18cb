/* The paper kind: devices of a machine that is described in a file. */
#ifndef TANDEM_DEVICES_PAPER_PAPER_H
#define TANDEM_DEVICES_PAPER_PAPER_H

#include "devices/kind.h"

extern const tdm_kind tdm_paper_kind;

#endif
