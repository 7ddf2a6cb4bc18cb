/* Tandem: models on several devices. This is the only header that a program includes.
 *
 * A program describes a graph of layers with a device for each (layers/layers.h, graph/graph.h),
 * creates a session, and runs it. Transfers between devices are inserted automatically and overlap
 * with computation, and their cost can be reported.
 * @code
 * #include <tandem/tandem.h>
 *
 * int main(void) {
 *   const float numbers[3][4] = {{1.0F, 2.0F, 3.0F, 4.0F}};
 *   tdm_context *context = tdm_context_create(NULL);
 *   tdm_graph *graph = tdm_graph_create(context);
 *   tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
 *   tdm_output(graph, "y", tdm_linear(graph, "fc", x, 2));
 *   tdm_session *session = tdm_session_create(graph, NULL);
 *   tdm_tensor *rows = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 3, 4), numbers);
 *   const tdm_feed feed = {"x", rows, false};
 *   tdm_tensor *y = tdm_run_output(session, &feed, 1, "y");
 *   if (!y) fprintf(stderr, "%s\n", tdm_last_message());
 *   tdm_tensor_release(y);
 *   tdm_tensor_release(rows);
 *   tdm_session_release(session);
 *   tdm_graph_release(graph);
 *   tdm_context_release(context);
 *   return 0;
 * }
 * @endcode
 * - core/core.h: conventions of all functions, statuses, dtypes, shapes.
 * - devices/devices.h: contexts, devices and tensors. devices/properties.h: their properties.
 *   devices/kernel.h: kernels of the program's own.
 * - graph/building.h: graphs. graph/sessions.h: sessions and runs. graph/operations.h: operations
 *   of the program's own. graph/forecasts.h: forecasts.
 * - layers/layers.h: layers, losses and optimizers.
 * - data/data.h: datasets and files.
 * - checkpoint/checkpoint.h: checkpoints. */
#ifndef TANDEM_H
#define TANDEM_H

/* Detects programs whose include path is PREFIX/include/tandem, as it was for version 0.1. */
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
