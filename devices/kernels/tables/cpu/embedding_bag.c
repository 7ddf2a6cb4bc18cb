/* Embedding bags: sums, means and maxima of a table's rows. Tables are larger than caches, so rows
 * are fetched long before they are read; ids are checked by the thread that reduces them, after
 * some of their rows were fetched. Invariant: a bag is reduced in the order of its ids by one
 * thread. */
#include <stdatomic.h>

#include "core/status.h"
#include "devices/kernels/cpu/fetch.h"
#include "devices/kernels/tables/cpu/bags.h"
#include "devices/kernels/tables/lookup.h"

enum {
  AHEAD = 64,        /* rows; measured: fewer leave the memory waiting, more gain nothing, */
  LINES_AHEAD = 128, /* except for rows of one line */
  MOST_VECTORS = 8   /* columns that are summed in registers at once */
};

typedef struct bag_job {
  bag_list list;
  const stored *weight; /* (rows, dim) */
  const stored *scales; /* (count) or NULL */
  stored *y;            /* (bags, dim) */
  int64_t *winners;     /* (bags, dim), of the maximum */
  atomic_bool stray;    /* some id is out of range */
} bag_job;

static int64_t rows_ahead(int64_t dim) {
  return row_lines(dim) > 1 ? AHEAD : LINES_AHEAD;
}

/* How a sum reads its rows. The fields are known at compile time, so that little code is left
 * besides the loads. */
typedef struct bag_access {
  bool wide;   /* ids are int64 */
  bool scaled; /* each row has its scale */
} bag_access;

/* Prefetches the columns of a row that a sum will read, without a test for each line. */
ALWAYS_INLINE void fetch_columns(const stored *columns, int64_t id, int64_t dim,
                                 const int vectors) {
  const uintptr_t row = (uintptr_t)columns + (uint64_t)id * (uint64_t)dim * sizeof(stored);
#pragma GCC unroll 8
  for (int at = 0; at < vectors * TDM_VECTOR_BYTES; at += TDM_LINE_BYTES)
    __builtin_prefetch((const void *)(row + (uintptr_t)at));
}

/* y: `vectors` vectors of columns from `column` on, of which the last may be short. */
ALWAYS_INLINE void sum_columns(const bag_job *job, int64_t bag, int64_t column, const int vectors,
                               const bag_access how) {
  const bag_state *state = job->list.state;
  const tdm_cpu_ids ids = {job->list.ids.data, job->list.ids.count, how.wide};
  const stored *scales = job->scales, *weight = job->weight + column;
  const int64_t dim = state->sizes.dim, padding = state->sizes.padding, ahead = rows_ahead(dim);
  const int64_t begin = bag_begin(&job->list, bag), end = bag_end(&job->list, bag);
  const int64_t last = dim - column - (vectors - 1) * LANES; /* columns of the last */
  vec sums[MOST_VECTORS] = {{0}};
  for (int64_t i = begin; i < end; i++) {
    if (i + ahead < ids.count) fetch_columns(weight, tdm_cpu_id(&ids, i + ahead), dim, vectors);
    const int64_t id = tdm_cpu_id(&ids, i);
    if (id == padding) continue;
    const stored *row = weight + id * dim;
    const vec scale = vec_set(how.scaled ? widened(scales[i]) : 1);
    for (int v = 0; v < vectors - 1; v++)
      sums[v] += scale * element_load_whole(row + v * LANES);
    sums[vectors - 1] += scale * element_load(row + (vectors - 1) * LANES, last);
  }
  const real size = state->sizes.mean ? (real)bag_size(&job->list, bag) : 1;
  const vec divisor = vec_set(size > 0 ? size : 1);
  stored *y = job->y + bag * dim + column;
  for (int v = 0; v < vectors; v++)
    element_store(y + v * LANES, sums[v] / divisor, v < vectors - 1 ? LANES : last);
}

ALWAYS_INLINE void sum_bags(const bag_job *job, int64_t begin, int64_t end, const bag_access how) {
  const int64_t dim = job->list.state->sizes.dim;
  for (int64_t bag = begin; bag < end; bag++) {
    int64_t column = 0;
    for (; dim - column >= MOST_VECTORS * LANES; column += MOST_VECTORS * LANES)
      sum_columns(job, bag, column, MOST_VECTORS, how);
    for (; dim - column >= 4 * LANES; column += 4 * LANES)
      sum_columns(job, bag, column, 4, how);
    for (; column < dim; column += LANES)
      sum_columns(job, bag, column, 1, how);
  }
}

/* Bags of a task: enough for their rows to be fetched ahead, few enough for every thread. */
static int64_t bags_of_task(const bag_state *state) {
  const int64_t mean = state->sizes.bags > 0 ? state->sizes.count / state->sizes.bags : 0;
  return mean > 256 ? 1 : 512 / (mean + 1) + 1;
}

static bool ids_are_inside(bag_job *job, int64_t begin, int64_t end) {
  if (begin >= end || bag_list_inside(&job->list, begin, end)) return true;
  atomic_store_explicit(&job->stray, true, memory_order_relaxed);
  return false;
}

/* Reduces all bags by the team; the error names the first id that is outside. */
static tdm_status reduce_bags(const tdm_kernel_call *call,
                              void (*reduce)(void *user, int64_t begin, int64_t end),
                              bag_job *job) {
  const bag_state *state = call->state;
  TDM_TRY(bag_list_take(call, 1, &job->list));
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.bags, bags_of_task(state), reduce,
               job);
  if (!atomic_load_explicit(&job->stray, memory_order_relaxed)) return TDM_OK;
  return tdm_cpu_ids_check(&job->list.ids, state->sizes.rows);
}

static void sum_range(void *user, int64_t begin, int64_t end) {
  bag_job *job = user;
  if (!ids_are_inside(job, begin, end)) return;
  const bool scaled = job->scales != NULL;
  if (job->list.ids.wide && scaled)
    sum_bags(job, begin, end, (bag_access){.wide = true, .scaled = true});
  else if (job->list.ids.wide)
    sum_bags(job, begin, end, (bag_access){.wide = true});
  else if (scaled)
    sum_bags(job, begin, end, (bag_access){.scaled = true});
  else
    sum_bags(job, begin, end, (bag_access){0});
}

static tdm_status embedding_bag_prepare(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer) {
  bag_state *state = bag_state_create(request, answer, 1, &request->outputs[0]);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->sizes.count * (6.0 + (double)state->sizes.dim / 8.0));
  return TDM_OK;
}

static tdm_status embedding_bag_execute(const tdm_kernel_call *call) {
  bag_job job = {.weight = call->inputs[0], .scales = call->inputs[3], .y = call->outputs[0]};
  return reduce_bags(call, sum_range, &job);
}

/* ---- Maximum --------------------------------------------------------------------------------- */

static void largest_of_bag(const bag_job *job, int64_t bag) {
  const bag_state *state = job->list.state;
  const int64_t dim = state->sizes.dim, ahead = rows_ahead(dim);
  stored *y = job->y + bag * dim;              /* (dim) */
  int64_t *winners = job->winners + bag * dim; /* (dim) */
  for (int64_t j = 0; j < dim; j++) {
    y[j] = narrowed(0);
    winners[j] = -1;
  }
  for (int64_t i = bag_begin(&job->list, bag); i < bag_end(&job->list, bag); i++) {
    if (i + ahead < job->list.ids.count)
      row_fetch(job->weight, tdm_cpu_id(&job->list.ids, i + ahead), dim);
    const int64_t id = tdm_cpu_id(&job->list.ids, i);
    if (id == state->sizes.padding) continue;
    const stored *row = job->weight + id * dim; /* (dim) */
    for (int64_t j = 0; j < dim; j++) {
      const bool wins = winners[j] < 0 || widened(row[j]) > widened(y[j]);
      y[j] = wins ? row[j] : y[j];
      winners[j] = wins ? i : winners[j];
    }
  }
}

static void largest_range(void *user, int64_t begin, int64_t end) {
  if (!ids_are_inside(user, begin, end)) return;
  for (int64_t bag = begin; bag < end; bag++)
    largest_of_bag(user, bag);
}

static tdm_status embedding_bag_max_execute(const tdm_kernel_call *call) {
  bag_job job = {.weight = call->inputs[0], .y = call->outputs[0], .winners = call->outputs[1]};
  return reduce_bags(call, largest_range, &job);
}

KERNELS(embedding_bag, KERNEL(TDM_OP_EMBEDDING_BAG, embedding_bag_prepare, embedding_bag_execute),
        KERNEL(TDM_OP_EMBEDDING_BAG_MAX, embedding_bag_prepare, embedding_bag_max_execute))
