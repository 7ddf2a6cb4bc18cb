/* A 64-bit hash of bytes for tables and for naming random streams. Invariant: the result depends
 * only on the bytes and the seed and never changes between versions, because seeds of parameters
 * are derived from it. It does not resist an adversary who chooses the keys; core/siphash.h
 * does. */
#ifndef TANDEM_CORE_HASH_H
#define TANDEM_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Folds both halves of the 128-bit product into one word: the mixing step of Wang Yi's wyhash. */
static inline uint64_t tdm_hash_fold(uint64_t a, uint64_t b) {
  const unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Returns up to 8 bytes as a little-endian word, padded with zeros. */
static inline uint64_t tdm_hash_word(const unsigned char *bytes, size_t count) {
  uint64_t word = 0;
  memcpy(&word, bytes, count);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

/* Mixes one word into a hash, for keys made of several numbers. */
static inline uint64_t tdm_hash_mix(uint64_t hash, uint64_t word) {
  return tdm_hash_fold(hash ^ 0x9e3779b97f4a7c15u, word ^ 0xd1b54a32d192ed03u);
}

/* bytes may be NULL if size is 0. */
static inline uint64_t tdm_hash_bytes(const void *bytes, size_t size, uint64_t seed) {
  const unsigned char *cursor = (const unsigned char *)bytes;
  uint64_t hash = tdm_hash_mix(seed, (uint64_t)size);
  size_t left = size;
  for (; left >= 8; cursor += 8, left -= 8)
    hash = tdm_hash_mix(hash, tdm_hash_word(cursor, 8));
  if (left > 0) hash = tdm_hash_mix(hash, tdm_hash_word(cursor, left));
  return tdm_hash_fold(hash ^ 0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu);
}

static inline uint64_t tdm_hash_string(const char *text, uint64_t seed) {
  return tdm_hash_bytes(text, strlen(text), seed);
}

#endif
