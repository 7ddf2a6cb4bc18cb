/* Random draws by which cases are made: a stream is a number, the same on every machine, and
 * shares nothing with the library's own generator. */
#ifndef TANDEM_TESTS_RANDOM_DRAW_H
#define TANDEM_TESTS_RANDOM_DRAW_H

#include <stdbool.h>
#include <stdint.h>

typedef struct draw {
  uint64_t state;
} draw;

static inline uint64_t draw_bits(draw *stream) {
  uint64_t bits = stream->state += 0x9e3779b97f4a7c15u;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
  return bits ^ bits >> 31;
}

/* Returns the stream of this pair; each pair has its own. */
static inline draw draw_of(uint64_t seed, uint64_t topic) {
  draw stream = {seed * 0x100000001b3u + topic};
  stream.state = draw_bits(&stream) ^ topic << 32;
  return stream;
}

/* Returns a number from 0 to count - 1. */
static inline int draw_below(draw *stream, int count) {
  return (int)(draw_bits(stream) % (uint64_t)count);
}

/* Returns a number from least to most. */
static inline int draw_between(draw *stream, int least, int most) {
  return least + draw_below(stream, most - least + 1);
}

/* Returns true with probability 1 / of. */
static inline bool draw_one_in(draw *stream, int of) {
  return draw_below(stream, of) == 0;
}

#endif
