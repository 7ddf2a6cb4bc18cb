/* Tandem: models that live on more than one device.
 *
 * The one header a program includes. Describe a graph of layers and say where each lives
 * (layers/layers.h, graph/graph.h), create a session, run it: transfers appear by themselves,
 * overlap with compute, and can be asked what they cost. Devices, tensors and kernels of your own:
 * devices/devices.h; what devices and their links are: devices/properties.h; real files:
 * data/data.h; going on with training: checkpoint/checkpoint.h; statuses, dtypes, shapes:
 * core/core.h. */
#ifndef TANDEM_H
#define TANDEM_H

/* Programs of 0.1 had PREFIX/include/tandem itself on the path. */
#ifdef __has_include
#if !__has_include("tandem/core/core.h")
#error "#include <tandem/tandem.h>, with -I PREFIX/include instead of -I PREFIX/include/tandem"
#endif
#endif

#include "tandem/checkpoint/checkpoint.h"
#include "tandem/core/core.h"
#include "tandem/data/data.h"
#include "tandem/devices/devices.h"
#include "tandem/devices/properties.h"
#include "tandem/graph/forecasts.h"
#include "tandem/graph/graph.h"
#include "tandem/layers/layers.h"

#endif
