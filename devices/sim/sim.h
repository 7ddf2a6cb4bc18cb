/* The kind "sim": an accelerator that executes on the cpu and behaves like a discrete one. */
#ifndef TANDEM_DEVICES_SIM_SIM_H
#define TANDEM_DEVICES_SIM_SIM_H

#include "devices/contract/kind.h"

extern const tdm_kind tdm_sim_kind;

#endif
