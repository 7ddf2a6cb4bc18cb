/* Random numbers by index. A 32-bit word is lane index % 4 of block index / 4. A 64-bit number
 * takes two words, so a block holds two. A block also holds two normals, computed together from the
 * block's two uniforms. Invariant: no state is kept between calls. */
#include "core/philox.h"

#include <math.h>

#include "core/hash.h"
#include "tandem/core/core.h"

uint64_t tdm_random_stream(const char *name) {
  return tdm_hash_string(!name ? "" : name, 0);
}

void tdm_random_block(const tdm_random *random, uint64_t block, uint32_t out[4]) {
  const tdm_random none = {0};
  if (!random) random = &none;
  if (out) tdm_philox_block(random->seed, random->stream, random->step, block, out);
}

uint32_t tdm_random_uint32(const tdm_random *random, uint64_t index) {
  uint32_t words[4];
  tdm_random_block(random, index / 4, words);
  return words[index % 4];
}

float tdm_random_uniform_float32(const tdm_random *random, uint64_t index) {
  return tdm_philox_float32(tdm_random_uint32(random, index));
}

double tdm_random_uniform_float64(const tdm_random *random, uint64_t index) {
  uint32_t words[4];
  tdm_random_block(random, index / 2, words);
  const uint64_t lane = index % 2 * 2;
  return tdm_philox_float64(words[lane], words[lane + 1]);
}

/* Box and Muller, "A note on the generation of random normal deviates", 1958: even indices take the
 * cosine, odd ones the sine. 1 - u is in (0, 1], so the logarithm is finite. */
double tdm_random_normal(const tdm_random *random, uint64_t index) {
  uint32_t words[4];
  tdm_random_block(random, index / 2, words);
  const double radius = sqrt(-2.0 * log(1.0 - tdm_philox_float64(words[0], words[1])));
  const double angle = 6.283185307179586476925 * tdm_philox_float64(words[2], words[3]);
  return radius * (index % 2 == 0 ? cos(angle) : sin(angle));
}
