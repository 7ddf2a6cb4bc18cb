/* SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", INDOCRYPT 2012): a hash with
 * a secret key, for tables whose keys come from outside, so that keys cannot be chosen to
 * collide. Invariant: its results never leave the process. Use core/hash.h for hashes that must be
 * the same in every process. */
#ifndef TANDEM_CORE_SIPHASH_H
#define TANDEM_CORE_SIPHASH_H

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_siphash_key {
  uint64_t words[2];
} tdm_siphash_key;

/* Draws a key from the system's random numbers. Fails with UNAVAILABLE if the system provides
 * none. */
tdm_status tdm_siphash_key_draw(tdm_siphash_key *out_key) TDM_WARN_UNUSED;
uint64_t tdm_siphash(const tdm_siphash_key *key, const void *bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif
