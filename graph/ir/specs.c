/* Shares the memory of equal specs. Invariant: a shared spec never changes. Two equal specs may
 * have different addresses, because each entry of the table holds only the latest spec. */
#include "graph/ir/specs.h"

#include "graph/ir/ir.h"

const tdm_spec *tdm_ir_share_spec(tdm_graph *graph, const tdm_spec *spec) {
  const tdm_spec **shared = &graph->specs[tdm_spec_hash(spec, 0) % TDM_SHARED_SPECS];
  if (*shared && tdm_spec_equal(*shared, spec)) return *shared;
  const tdm_spec *copy = tdm_ir_copy_bytes(graph, spec, sizeof *spec);
  if (copy) *shared = copy;
  return copy;
}
