/* Cases of dropout: the whole value, and chunks of it along each dimension. */
#include <math.h>

#include "core/philox.h"
#include "tests/devices/kernels/cases.h"

/* Returns the position of the chunk's element i in the whole value. */
static int64_t place_of(const tdm_chunk *chunk, const tdm_shape *shape, int64_t i) {
  if (chunk->whole == 0) return i;
  int64_t inner = 1;
  for (int64_t d = chunk->dimension + 1; d < shape->rank; d++)
    inner *= shape->dims[d];
  const int64_t size = shape->dims[chunk->dimension];
  const int64_t index = i / inner % size + chunk->offset;
  return (i / inner / size * chunk->whole + index) * inner + i % inner;
}

static void dropout_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const tdm_dropout_attributes *attributes = &self->attributes.dropout;
  const tdm_shape *shape = &self->inputs[0].spec.shape;
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    const uint64_t place = (uint64_t)place_of(&attributes->chunk, shape, i);
    uint32_t words[4];
    tdm_philox_block(self->scalars.seed, attributes->stream, (uint32_t)self->scalars.step,
                     place / 4, words);
    const bool goes = (double)(words[place % 4] >> 8) < floor(attributes->p * 0x1p24);
    outputs[0][i] = goes ? 0 : inputs[0][i] / (1 - attributes->p);
  }
}

static void dropout_case(tdm_dtype dtype, tdm_shape x, double p, tdm_chunk chunk,
                         kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  kernel_case test = kernel_case_make(TDM_OP_DROPOUT, dtype, dropout_reference, "%s p %g chunk %d",
                                      tdm_shape_text(&x, text, sizeof text), p, (int)chunk.offset);
  test.attributes.dropout = (tdm_dropout_attributes){.p = p, .stream = 99, .chunk = chunk};
  kernel_case_input(&test, dtype, x, -2, 2);
  kernel_case_output(&test, dtype, x);
  visit(&test, user);
}

void dropout_cases(kernel_visit visit, void *user) {
  const tdm_chunk whole = {0};
  static const double probabilities[] = {0, 0.1, 0.5, 1};
  EACH_REAL(dtype) {
    for (int i = 0; i < 4; i++)
      dropout_case(dtype, tdm_shape_of(1, 1003), probabilities[i], whole, visit, user);
    dropout_case(dtype, tdm_shape_of(2, 30, 1001), 0.5, whole, visit, user);
    dropout_case(dtype, tdm_shape_of(2, 0, 3), 0.5, whole, visit, user);
    for (int64_t d = 0; d < 3; d++) {
      const tdm_chunk chunk = {.dimension = d, .offset = 3 + d, .whole = 11};
      dropout_case(dtype, tdm_shape_of(3, 5, 3, 7), 0.3, chunk, visit, user);
    }
  }
}
