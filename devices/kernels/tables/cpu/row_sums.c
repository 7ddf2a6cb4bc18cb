/* Sums of rows by sorted ids. One thread sorts; the sums are divided among the team. */
#include "devices/kernels/tables/cpu/row_sums.h"

#include "devices/kernels/cpu/fetch.h"

typedef struct sum_job {
  const row_sums *self;
  const uint64_t *keys;  /* ascending */
  const int64_t *begins; /* (used + 1): where a row's keys begin */
  int64_t used;
} sum_job;

static const stored *source_row(const row_source *source, int64_t position) {
  return source->d + (source->bags ? source->bags[position] : position) * source->dim;
}

static void set_row(const row_source *source, int64_t position, stored *row) {
  const stored *d = source_row(source, position);
  const int64_t dim = source->dim;
  if (!source->scales) {
    row_copy(row, d, dim);
    return;
  }
  const vec scale = vec_set(source->scales[position]);
  for (int64_t j = 0; j < dim; j += LANES)
    element_store(row + j, scale * element_load(d + j, dim - j), dim - j);
}

static void add_row(const row_source *source, int64_t position, stored *row) {
  const stored *d = source_row(source, position);
  const int64_t dim = source->dim;
  if (!source->scales) {
    row_add(row, d, dim);
    return;
  }
  const vec scale = vec_set(source->scales[position]);
  for (int64_t j = 0; j < dim; j += LANES) {
    const vec sum = element_load(row + j, dim - j) + scale * element_load(d + j, dim - j);
    element_store(row + j, sum, dim - j);
  }
}

/* Prefetches the row that is added this number of keys later. */
ALWAYS_INLINE void fetch_source(const sum_job *job, int64_t key) {
  const row_source *source = &job->self->source;
  if (key >= job->begins[job->used]) return;
  const int64_t position = tdm_cpu_key_position(&job->self->sorting, job->keys[key]);
  row_fetch(source->d, source->bags ? source->bags[position] : position, source->dim);
}

/* Computes rows begin <= row < end of the result; those beyond `used` are zeros. */
static void sum_range(void *user, int64_t begin, int64_t end) {
  const sum_job *job = user;
  const row_sums *self = job->self;
  const int64_t dim = self->source.dim, ahead = row_fetch_ahead(dim);
  for (int64_t i = begin; i < end; i++) {
    stored *row = self->rows + i * dim; /* (dim) */
    if (i >= job->used) {
      row_zero(row, dim);
      continue;
    }
    const int64_t first = job->begins[i];
    fetch_source(job, first + ahead);
    set_row(&self->source, tdm_cpu_key_position(&self->sorting, job->keys[first]), row);
    for (int64_t k = first + 1; k < job->begins[i + 1]; k++) {
      fetch_source(job, k + ahead);
      add_row(&self->source, tdm_cpu_key_position(&self->sorting, job->keys[k]), row);
    }
  }
}

/* Writes the keys of the ids that contribute; returns their number. */
static int64_t make_keys(const row_sums *self, uint64_t *keys) {
  const int64_t *bags = self->source.bags;
  int64_t count = 0;
  for (int64_t i = 0; i < self->ids.count; i++) {
    const int64_t id = tdm_cpu_id(&self->ids, i);
    keys[count] = tdm_cpu_key(&self->sorting, id, i);
    count += id != self->padding && (!bags || bags[i] >= 0);
  }
  return count;
}

void row_sums_run(const row_sums *self, void *workspace, tdm_team *team) {
  const int64_t count = self->ids.count;
  uint64_t *keys = workspace;                         /* (count) */
  int64_t *begins = (int64_t *)workspace + 2 * count; /* (count + 1) */
  const int64_t key_count = make_keys(self, keys);
  const uint64_t *sorted = tdm_cpu_keys_sort(&self->sorting, keys, keys + count, key_count);
  int64_t used = 0, before = -1;
  for (int64_t i = 0; i < key_count; i++) {
    const int64_t id = tdm_cpu_key_id(&self->sorting, sorted[i]);
    if (id == before) continue;
    begins[used] = i;
    self->indices[used++] = before = id;
  }
  begins[used] = key_count;
  for (int64_t i = used; i < count; i++)
    self->indices[i] = -1;
  *self->used = used;
  sum_job job = {.self = self, .keys = sorted, .begins = begins, .used = used};
  tdm_team_run(team, count, 256, sum_range, &job);
}
