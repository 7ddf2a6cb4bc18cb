/* Clipping of gradients by value and by their joint norm, for optimizer rules. */
#ifndef TANDEM_LAYERS_UPDATES_CLIP_H
#define TANDEM_LAYERS_UPDATES_CLIP_H

#include "tandem/graph/graph.h"

/* The factor that limits the joint norm of all gradients of an update to the optimizer's clip_norm:
 * a scalar in float32 and in float64, or invalid values if norms are not clipped. */
typedef struct tdm_clip {
  tdm_value factors[2];
} tdm_clip;

/* Appends the operations that compute the factor. Call once, before any update. */
tdm_status tdm_clip_begin(tdm_update *update, tdm_clip *out_clip) TDM_WARN_UNUSED;
/* Returns the gradient of parameter index (the rows of a sparse one), clipped by value and scaled
 * by the factor, if the optimizer requires these. The result is negated if the optimizer
 * maximizes. */
tdm_value tdm_clip_gradient(tdm_update *update, const tdm_clip *clip, size_t index);

#endif
