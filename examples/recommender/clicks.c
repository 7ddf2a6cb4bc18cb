/* The model that generates clicks; clicks.h defines it. */
#include "examples/recommender/clicks.h"

#include <math.h>

/* Streams of random numbers. */
enum { OF_DENSE = 1, OF_IDS, OF_CLICKS, OF_EFFECTS, OF_WEIGHTS };

/* Returns the hidden effect of a row of a table. */
static double effect_of(const clicks *from, int64_t table, int64_t row) {
  const tdm_random random = {from->seed, OF_EFFECTS + 16 * (uint64_t)table, 0};
  return tdm_random_normal(&random, (uint64_t)row);
}

/* d of the model. */
static double dense_effect(const clicks *from, uint64_t sample, float dense[DENSE]) {
  const tdm_random numbers = {from->seed, OF_DENSE, 0}, fixed = {from->seed, OF_WEIGHTS, 0};
  double product = 0, length = 0;
  for (uint64_t i = 0; i < DENSE; i++) {
    const double weight = tdm_random_normal(&fixed, i);
    dense[i] = (float)tdm_random_normal(&numbers, sample * DENSE + i);
    product += weight * (double)dense[i];
    length += weight * weight;
  }
  return product / sqrt(length);
}

/* t + i of the model: 2 t and the interaction of the first two tables. */
static double rows_effect(const clicks *from, uint64_t sample, int64_t *ids) {
  const tdm_random random = {from->seed, OF_IDS, 0};
  const int64_t count = from->tables * from->lookups;
  double sum = 0, of_first[2] = {0, 0};
  for (int64_t i = 0; i < count; i++) {
    const double u = tdm_random_uniform_float64(&random, sample * (uint64_t)count + (uint64_t)i);
    const int64_t row = (int64_t)((double)from->rows * u * u * u);
    const int64_t table = i / from->lookups;
    ids[i] = row < from->rows ? row : from->rows - 1;
    const double effect = effect_of(from, table, ids[i]);
    sum += effect;
    if (table < 2) of_first[table] += effect;
  }
  const double lookups = (double)from->lookups;
  return 2 * sum / sqrt((double)count) + of_first[0] * of_first[1] / (lookups * sqrt(lookups));
}

static tdm_status make_sample(void *user, int64_t index, void *const *out_fields) {
  const clicks *from = user;
  const uint64_t sample = (uint64_t)(from->first + index);
  const tdm_random random = {from->seed, OF_CLICKS, 0};
  const double logit = -1 + 1.5 * dense_effect(from, sample, out_fields[CLICKS_DENSE]) +
                       rows_effect(from, sample, out_fields[CLICKS_IDS]);
  const double likely = 1 / (1 + exp(-logit));
  *(float *)out_fields[CLICKS_CLICK] = tdm_random_uniform_float64(&random, sample) < likely ? 1 : 0;
  return TDM_OK;
}

tdm_dataset *clicks_dataset(tdm_context *context, const clicks *from, int64_t count) {
  const tdm_field fields[CLICKS_FIELDS] = {
      {"dense", TDM_FLOAT32, tdm_shape_of(1, DENSE)},
      {"ids", TDM_INT64, tdm_shape_of(1, from->tables * from->lookups)},
      {"click", TDM_FLOAT32, tdm_shape_of(1, 1)},
  };
  const tdm_dataset_source source = {.struct_size = sizeof source,
                                     .user = (void *)from,
                                     .length = count,
                                     .fields = fields,
                                     .field_count = CLICKS_FIELDS,
                                     .item = make_sample};
  return tdm_dataset_create(context, &source);
}
