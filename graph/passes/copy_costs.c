/* What a copy takes by the links of its way: passes choose by it what is copied from where.
 * Invariant: host memory on the way is taken to be pinned, as what plans own is. */
#include "devices/context/route.h"
#include "devices/links/links.h"
#include "graph/passes/passes.h"

static double predict_ns(const tdm_graph *graph, int16_t from, int16_t to, double bytes,
                         double (*of_link)(const tdm_link_estimate *link, double bytes)) {
  if (from == to) return 0;
  const tdm_route route = tdm_route_between(tdm_context_device(graph->context, (size_t)from),
                                            tdm_context_device(graph->context, (size_t)to));
  double ns = 0;
  for (uint32_t i = 0; i < route.count; i++) {
    tdm_link_estimate link;
    tdm_context_link(graph->context, route.hops[i].from, route.hops[i].to, true, &link);
    ns += of_link(&link, bytes);
  }
  return ns;
}

double tdm_predict_copy_ns(const tdm_graph *graph, int16_t from, int16_t to, double bytes) {
  return predict_ns(graph, from, to, bytes, tdm_link_predict_ns);
}

double tdm_predict_exchange_ns(const tdm_graph *graph, int16_t from, int16_t to, double bytes) {
  return predict_ns(graph, from, to, bytes, tdm_link_predict_both_ns);
}
