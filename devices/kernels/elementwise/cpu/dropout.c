/* Dropout. Invariant: whether an element is dropped depends only on seed, step, stream and its
 * position in the whole value, and is computed with integers. So it is the same for every dtype,
 * device and chunk. */
#include "devices/kernels/elementwise/dropout.h"
#include "core/philox.h"
#include "core/status.h"
#include "devices/kernels/cpu/vector.h"

#define GRAIN 4096
#define BLOCKS 64 /* blocks of four random words that are generated at a time */
#define FEW_BLOCKS 16

typedef struct dropout_state {
  int64_t count;
  int64_t stretch;       /* contiguous elements that are also contiguous in the whole value */
  int64_t whole_stretch; /* elements between the beginnings of two stretches in the whole value */
  int64_t first;         /* index of the first stretch in the whole value */
  uint64_t stream;
  uint32_t threshold;
  real scale;
  bool splits;
} dropout_state;

static tdm_status dropout_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_dropout_attributes *attributes = request->attributes;
  const tdm_spec *spec = &request->outputs[0];
  const tdm_chunk *chunk = &attributes->chunk;
  dropout_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = state->stretch = state->whole_stretch = count_of(spec);
  if (chunk->whole != 0) {
    const int64_t inner = dims_product(spec, chunk->dimension + 1, spec->shape.rank);
    state->stretch = spec->shape.dims[chunk->dimension] * inner;
    state->whole_stretch = chunk->whole * inner;
    state->first = chunk->offset * inner;
  }
  state->stream = attributes->stream;
  state->threshold = (uint32_t)(attributes->p * 16777216.0);
  state->scale = attributes->p < 1 ? (real)(1 / (1 - attributes->p)) : 0;
  state->splits = answer->splits = tdm_cpu_splits(request, (double)state->count);
  return TDM_OK;
}

/* tdm_philox_block of so many blocks (count, a constant where this is inlined), side by side in
 * vectors. words: (count, 4). */
ALWAYS_INLINE void draw_blocks(uint64_t seed, uint64_t stream, uint32_t step, uint64_t block,
                               int count, uint32_t *words) {
  uint32_t c0[BLOCKS], c1[BLOCKS], c2[BLOCKS], c3[BLOCKS];
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int b = 0; b < count; b++) {
    const uint64_t index = block + (uint64_t)b;
    c0[b] = (uint32_t)index;
    c1[b] = (uint32_t)(index >> 32) ^ tdm_philox_reverse_bits(step);
    c2[b] = (uint32_t)stream;
    c3[b] = (uint32_t)(stream >> 32);
  }
  for (int round = 0; round < 10; round++) {
    for (int b = 0; b < count; b++)
      tdm_philox_round(&c0[b], &c1[b], &c2[b], &c3[b], k0, k1);
    tdm_philox_next_key(&k0, &k1);
  }
  for (int b = 0; b < count; b++) {
    words[4 * b] = c0[b];
    words[4 * b + 1] = c1[b];
    words[4 * b + 2] = c2[b];
    words[4 * b + 3] = c3[b];
  }
}

/* Draws the random words of at least count blocks. */
static void draw_words(uint64_t seed, uint64_t stream, uint32_t step, uint64_t block, int64_t count,
                       uint32_t words[4 * BLOCKS]) {
  if (count <= FEW_BLOCKS)
    draw_blocks(seed, stream, step, block, FEW_BLOCKS, words);
  else
    draw_blocks(seed, stream, step, block, BLOCKS, words);
}

/* Drops count elements, which begin at `place` in the whole value. */
static void drop_stretch(const tdm_kernel_call *call, const stored *x, stored *y, uint64_t place,
                         int64_t count) {
  const dropout_state *state = call->state;
  const uint64_t seed = call->scalars->seed;
  const uint32_t step = (uint32_t)call->scalars->step, threshold = state->threshold;
  const real scale = state->scale; /* a local copy, because y may alias the state */
  uint32_t words[4 * BLOCKS];
  while (count > 0) {
    const uint64_t block = place / 4;
    const int64_t skipped = (int64_t)(place % 4);
    const int64_t taken = lesser_of(count, 4 * BLOCKS - skipped);
    draw_words(seed, state->stream, step, block, ceil_div(skipped + taken, 4), words);
    for (int64_t i = 0; i < taken; i++) {
      const real factor = words[skipped + i] >> 8 < threshold ? 0 : scale;
      y[i] = narrowed(widened(x[i]) * factor); /* NaN stays NaN where it is dropped */
    }
    x += taken;
    y += taken;
    place += (uint64_t)taken;
    count -= taken;
  }
}

static tdm_status dropout_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  const dropout_state *state = call->state;
  const stored *x = call->inputs[0]; /* (count) */
  stored *y = call->outputs[0];      /* (count) */
  while (begin < end) {
    const int64_t within = begin % state->stretch;
    const int64_t place = begin / state->stretch * state->whole_stretch + state->first + within;
    const int64_t count = lesser_of(end - begin, state->stretch - within);
    drop_stretch(call, x + begin, y + begin, (uint64_t)place, count);
    begin += count;
  }
  return TDM_OK;
}

static tdm_status dropout_execute(const tdm_kernel_call *call) {
  const dropout_state *state = call->state;
  return tdm_cpu_run_parts(call, dropout_part, state->splits, state->count, GRAIN);
}

KERNELS(dropout, ELEMENT_KERNEL(TDM_OP_DROPOUT, dropout_prepare, dropout_execute, dropout_part))
