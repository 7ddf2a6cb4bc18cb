/* Layers of capsules with dynamic routing (Sabour, Frosst, Hinton: "Dynamic routing between
 * capsules", NIPS 2017), which the library does not have. They use only tandem.h. Floating values
 * are float32 or float64. One thread, the graph's. An invalid input gives an invalid output. */
#ifndef EXAMPLES_CAPSULE_CAPSULES_H
#define EXAMPLES_CAPSULE_CAPSULES_H

#include <tandem/tandem.h>

/* Adds the kernels of these operations to the context; call it once, before the first session. */
tdm_status capsules_register(tdm_context *context);

/* x (batch, groups size, height, width) -> (batch, groups height width, size): capsules made of
 * `size` channels each, squashed. */
tdm_value capsule_primary(tdm_graph *graph, const char *name, tdm_value x, int64_t size);
/* u (batch, below, in) -> (batch, above, size): every capsule below votes for every one above, and
 * the votes are routed by agreement, `iterations` times, 1 to 8. name.weight (below, in, above,
 * size): normal(0, 0.05). The gradient goes through all iterations. */
tdm_value capsule_routing(tdm_graph *graph, const char *name, tdm_value u, int64_t above,
                          int64_t size, int64_t iterations);
/* v (batch, above, size) -> the capsules' lengths (batch, above). */
tdm_value capsule_length(tdm_graph *graph, const char *name, tdm_value v);
/* lengths (batch, above), classes int64 (batch) -> the margin loss's mean over the batch, of
 * equation 4 with the paper's constants. */
tdm_value capsule_margin(tdm_graph *graph, const char *name, tdm_value lengths, tdm_value classes);

#endif
