/* Kernels prepared for shapes, attributes and a team: made once, shared by all plans of a session,
 * and gone with the last of them, since shapes may be others in every run. Invariant: an entry
 * never changes once it is found; its state is read-only for execute. */
#ifndef TANDEM_GRAPH_IR_PREPARED_H
#define TANDEM_GRAPH_IR_PREPARED_H

#include "devices/contract/device.h"

typedef struct tdm_prepared tdm_prepared;
typedef struct tdm_prepared_cache tdm_prepared_cache;

struct tdm_prepared {
  tdm_prepared_cache *cache;
  uint64_t hash;
  uint64_t users; /* how often it was got, and is not let go of yet */
  const tdm_kernel *kernel;
  tdm_kernel_answer answer;
  const void *attributes; /* a copy */
  tdm_spec *specs;        /* inputs as the kernel wants them, then outputs as it makes them */
  tdm_spec *offered;      /* as they were asked for: the key */
  size_t attribute_bytes;
  size_t input_count;
  size_t output_count;
  size_t team_size;
};

typedef struct tdm_prepare_key {
  const tdm_kernel *kernel;
  const void *attributes;
  size_t attribute_bytes;
  const tdm_spec *specs; /* inputs, then outputs */
  size_t input_count;
  size_t output_count;
  size_t team_size;
} tdm_prepare_key;

tdm_status tdm_prepared_cache_create(const tdm_allocator *allocator, bool deterministic,
                                     tdm_prepared_cache **out_cache) TDM_WARN_UNUSED;
/* Every entry was let go of; NULL is legal. */
void tdm_prepared_cache_destroy(tdm_prepared_cache *cache);
/* Finds or makes; the caller lets go of it. These two by one thread at a time (the session's
 * planning lock). */
tdm_status tdm_prepared_get(tdm_prepared_cache *cache, const tdm_prepare_key *key,
                            tdm_prepared **out_prepared) TDM_WARN_UNUSED;
/* The last time releases the kernel's state. */
void tdm_prepared_let_go(tdm_prepared *prepared);
/* Time spent in kernels' prepare since creation: planning is reported without it. */
uint64_t tdm_prepared_cache_prepare_ns(const tdm_prepared_cache *cache);

#endif
