/* Hashes and compares specs of values. */
#ifndef TANDEM_GRAPH_IR_SPECS_H
#define TANDEM_GRAPH_IR_SPECS_H

#include "core/hash.h"
#include "devices/kernels.h"
#include "tandem/graph/graph.h"

static inline uint64_t tdm_spec_hash(const tdm_spec *spec, uint64_t hash) {
  hash = tdm_hash_mix(hash, (uint64_t)spec->dtype << 40 | (uint64_t)spec->format << 8 |
                                (uint64_t)(uint32_t)spec->shape.rank);
  for (int i = 0; i < spec->shape.rank; i++)
    hash = tdm_hash_mix(hash, (uint64_t)spec->shape.dims[i]);
  return hash;
}
static inline bool tdm_spec_equal(const tdm_spec *a, const tdm_spec *b) {
  return a->dtype == b->dtype && a->format == b->format && tdm_shape_equal(&a->shape, &b->shape);
}

#endif
