/* Prints a plan as a Graphviz graph, from its picture. */
#include "graph/report/explain.h"
#include "graph/report/picture.h"

tdm_status tdm_explain_dot(const tdm_plan *plan, FILE *out) {
  tdm_picture picture;
  tdm_status status = tdm_picture_of_plan(plan, &picture);
  if (status == TDM_OK) status = tdm_picture_dot(&picture, out);
  tdm_picture_deinit(&picture);
  return status;
}
