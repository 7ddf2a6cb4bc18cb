/* Copies larger than the caches, by non-temporal stores if the architecture has them. Invariant:
 * such stores are fenced before the function returns, so that a point published afterwards covers
 * them. */
#include "devices/host/copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { ASSUMED_CACHE_BYTES = 32 << 20 };

size_t tdm_copy_large_bytes(size_t cache_bytes) {
  return (cache_bytes > 0 ? cache_bytes : (size_t)ASSUMED_CACHE_BYTES) / 2;
}

#if defined(__SSE2__)
static bool overlap(const void *to, const void *from, size_t bytes) {
  const uintptr_t a = (uintptr_t)to;
  const uintptr_t b = (uintptr_t)from;
  return a < b + bytes && b < a + bytes;
}

static void copy_past_caches(char *to, const char *from, size_t bytes) {
  enum { LINE = 64, STEP = sizeof(__m128i) };
  const size_t unaligned = -(uintptr_t)to % LINE;
  const size_t head = unaligned < bytes ? unaligned : bytes;
  memcpy(to, from, head);
  to += head;
  from += head;
  const size_t lines = (bytes - head) / LINE;
  for (size_t i = 0; i < lines; i++, to += LINE, from += LINE) {
    const __m128i a = _mm_loadu_si128((const __m128i *)from);
    const __m128i b = _mm_loadu_si128((const __m128i *)(from + STEP));
    const __m128i c = _mm_loadu_si128((const __m128i *)(from + 2 * STEP));
    const __m128i d = _mm_loadu_si128((const __m128i *)(from + 3 * STEP));
    _mm_stream_si128((__m128i *)to, a);
    _mm_stream_si128((__m128i *)(to + STEP), b);
    _mm_stream_si128((__m128i *)(to + 2 * STEP), c);
    _mm_stream_si128((__m128i *)(to + 3 * STEP), d);
  }
  _mm_sfence();
  memcpy(to, from, (bytes - head) % LINE);
}
#endif

void tdm_copy_host(void *to, const void *from, size_t bytes, size_t large_bytes) {
#if defined(__SSE2__)
  if (bytes >= large_bytes && !overlap(to, from, bytes)) {
    copy_past_caches(to, from, bytes);
    return;
  }
#else
  (void)large_bytes;
#endif
  if (bytes > 0) memmove(to, from, bytes);
}
