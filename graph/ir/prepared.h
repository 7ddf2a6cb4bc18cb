/* Kernels that are prepared for shapes, attributes and a team. All plans of a session share them.
 * An entry is released with the last plan that uses it, since each run may have new shapes.
 * Invariant: an entry in the cache never changes, and execute only reads its state. */
#ifndef TANDEM_GRAPH_IR_PREPARED_H
#define TANDEM_GRAPH_IR_PREPARED_H

#include "devices/contract/device.h"

typedef struct tdm_prepared tdm_prepared;
typedef struct tdm_prepared_cache tdm_prepared_cache;

struct tdm_prepared {
  tdm_prepared_cache *cache;
  uint64_t hash;
  uint64_t users; /* number of tdm_prepared_get without tdm_prepared_let_go */
  const tdm_kernel *kernel;
  tdm_kernel_answer answer;
  const void *attributes; /* copy of the attributes */
  tdm_spec *specs;        /* inputs, then outputs, in the formats that the kernel requires */
  tdm_spec *offered;      /* specs that were requested: the key of the cache */
  size_t attribute_bytes;
  size_t input_count;
  size_t output_count;
  size_t team_size;
};

typedef struct tdm_prepare_key {
  const tdm_kernel *kernel;
  const void *attributes;
  size_t attribute_bytes;
  const tdm_spec *const *specs; /* inputs, then outputs */
  size_t input_count;
  size_t output_count;
  size_t team_size;
} tdm_prepare_key;

tdm_status tdm_prepared_cache_create(const tdm_allocator *allocator, bool deterministic,
                                     tdm_prepared_cache **out_cache) TDM_WARN_UNUSED;
/* Destroys a cache all of whose entries have been released. Accepts NULL. */
void tdm_prepared_cache_destroy(tdm_prepared_cache *cache);
/* Returns an existing or a new entry, which the caller releases with tdm_prepared_let_go. The
 * caller of either function must hold the session's planning lock. */
tdm_status tdm_prepared_get(tdm_prepared_cache *cache, const tdm_prepare_key *key,
                            tdm_prepared **out_prepared) TDM_WARN_UNUSED;
/* Releases an entry. The last release also releases the kernel's state. */
void tdm_prepared_let_go(tdm_prepared *prepared);
/* Returns the time spent in prepare since creation. Planning times exclude it. */
uint64_t tdm_prepared_cache_prepare_ns(const tdm_prepared_cache *cache);

#endif
