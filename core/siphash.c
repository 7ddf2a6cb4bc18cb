/* SipHash-2-4. Invariant: the result depends only on the key and the bytes, not on the machine's
 * byte order. */
#define _GNU_SOURCE /* getrandom */
#include "core/siphash.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "core/hash.h"

tdm_status tdm_siphash_key_draw(tdm_siphash_key *out_key) {
  ssize_t got;
  do {
    got = getrandom(out_key, sizeof *out_key, 0); /* a request this small is never split */
  } while (got < 0 && errno == EINTR);
  if (got == (ssize_t)sizeof *out_key) return TDM_OK;
  return tdm_fail(TDM_UNAVAILABLE, "the system gives no random bytes for the key of a table: %s",
                  strerror(errno));
}

static uint64_t rotate(uint64_t word, int bits) {
  return word << bits | word >> (64 - bits);
}

static void mix_rounds(uint64_t v[4], int count) {
  for (int i = 0; i < count; i++) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
  }
}

static void take_word(uint64_t v[4], uint64_t word) {
  v[3] ^= word;
  mix_rounds(v, 2);
  v[0] ^= word;
}

uint64_t tdm_siphash(const tdm_siphash_key *key, const void *bytes, size_t size) {
  const unsigned char *cursor = (const unsigned char *)bytes;
  const uint64_t k0 = key->words[0];
  const uint64_t k1 = key->words[1];
  uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
                   k1 ^ 0x7465646279746573u};
  size_t left = size;
  for (; left >= 8; cursor += 8, left -= 8)
    take_word(v, tdm_hash_word(cursor, 8));
  take_word(v, (uint64_t)size << 56 | (left > 0 ? tdm_hash_word(cursor, left) : 0));
  v[2] ^= 0xff;
  mix_rounds(v, 4);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}
