/* Clipping of gradients by value and by their joint norm, for optimizer rules. */
#ifndef TANDEM_LAYERS_CLIP_H
#define TANDEM_LAYERS_CLIP_H

#include "tandem/graph/graph.h"

/* The factor that brings the joint norm of all gradients of update to at most the optimizer's
 * clip_norm: a scalar in float32 and in float64, or invalid where nothing is clipped. */
typedef struct tdm_clip {
  tdm_value factors[2];
} tdm_clip;

/* Appends what finds the factor. Call once, before any update. */
tdm_status tdm_clip_begin(tdm_update *update, tdm_clip *out_clip) TDM_WARN_UNUSED;
/* The same, then append for each parameter in turn; the graph's status. */
tdm_status tdm_clip_updates(tdm_update *update,
                            void (*append)(tdm_update *update, const tdm_clip *clip,
                                           size_t index)) TDM_WARN_UNUSED;
/* Returns the gradient of parameter index (rows of a sparse one), clipped by value and scaled by
 * the factor, if the optimizer has them; its negative if the optimizer maximizes. */
tdm_value tdm_clip_gradient(tdm_update *update, const tdm_clip *clip, size_t index);

#endif
