/* Tandem: models that live on more than one device.
 *
 * The one header a program includes. Describe a graph of layers and say where each lives
 * (layers/layers.h, graph/graph.h), create a session, run it: transfers appear by themselves,
 * overlap with compute, and can be asked what they cost. Devices, tensors and kernels of your own:
 * devices/devices.h; real files: data/data.h; going on with training: checkpoint/checkpoint.h;
 * statuses, dtypes, shapes: core/core.h. */
#ifndef TANDEM_H
#define TANDEM_H

#include "checkpoint/checkpoint.h"
#include "core/core.h"
#include "data/data.h"
#include "devices/devices.h"
#include "graph/forecasts.h"
#include "graph/graph.h"
#include "layers/layers.h"

#endif
