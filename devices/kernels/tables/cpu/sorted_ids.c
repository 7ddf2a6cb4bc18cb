/* The radix sort of ids: least digit first, every pass stable. */
#include "devices/kernels/tables/cpu/sorted_ids.h"

#include <string.h>

#include "core/status.h"

enum { MOST_DIGIT_BITS = 11 }; /* counts of a digit stay in the first cache */

static int bits_of(int64_t most) {
  int bits = 0;
  while (most >> bits > 0)
    bits++;
  return bits;
}

tdm_status tdm_cpu_sorting_of(int64_t rows, int64_t count, tdm_cpu_sorting *out) {
  const int id_bits = rows > 1 ? bits_of(rows - 1) : 0;
  const int position_bits = count > 1 ? bits_of(count - 1) : 0;
  if (id_bits + position_bits > 63)
    return tdm_fail(TDM_UNSUPPORTED, "ids of a table of %lld rows, %lld at once, cannot be sorted",
                    (long long)rows, (long long)count);
  out->position_bits = position_bits;
  out->digits = (id_bits + MOST_DIGIT_BITS - 1) / MOST_DIGIT_BITS;
  out->digit_bits = out->digits == 0 ? 0 : (id_bits + out->digits - 1) / out->digits;
  return TDM_OK;
}

static void sort_pass(const uint64_t *from, uint64_t *to, int64_t count, int shift, int bits) {
  int64_t places[1 << MOST_DIGIT_BITS];
  const uint64_t mask = ((uint64_t)1 << bits) - 1;
  memset(places, 0, ((size_t)1 << bits) * sizeof *places);
  for (int64_t i = 0; i < count; i++)
    places[from[i] >> shift & mask]++;
  int64_t place = 0;
  for (uint64_t digit = 0; digit <= mask; digit++) {
    const int64_t size = places[digit];
    places[digit] = place;
    place += size;
  }
  for (int64_t i = 0; i < count; i++)
    to[places[from[i] >> shift & mask]++] = from[i];
}

const uint64_t *tdm_cpu_keys_sort(const tdm_cpu_sorting *sorting, uint64_t *keys, uint64_t *scratch,
                                  int64_t count) {
  for (int digit = 0; digit < sorting->digits; digit++) {
    sort_pass(keys, scratch, count, sorting->position_bits + digit * sorting->digit_bits,
              sorting->digit_bits);
    uint64_t *const swapped = keys;
    keys = scratch;
    scratch = swapped;
  }
  return keys;
}
