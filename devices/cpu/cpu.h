/* The kind "cpu": a NUMA node of the host, or a part of one, as a device. */
#ifndef TANDEM_DEVICES_CPU_CPU_H
#define TANDEM_DEVICES_CPU_CPU_H

#include "devices/contract/kind.h"

extern const tdm_kind tdm_cpu_kind;

#endif
