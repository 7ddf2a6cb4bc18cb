/* The rules by which symbolic dimensions are compared. */
#include "tandem/graph/graph.h"

bool tdm_dim_agree(tdm_dim a, tdm_dim b) {
  if (a == TDM_DIM_UNKNOWN || b == TDM_DIM_UNKNOWN || a == b) return true;
  /* A name may have any size; the run checks it. */
  return (tdm_dim_is_named(a) && tdm_dim_is_size(b)) || (tdm_dim_is_size(a) && tdm_dim_is_named(b));
}

tdm_dim tdm_dim_merge(tdm_dim a, tdm_dim b) {
  if (tdm_dim_is_size(a) || b == TDM_DIM_UNKNOWN) return a;
  if (tdm_dim_is_size(b) || a == TDM_DIM_UNKNOWN) return b;
  return a;
}
