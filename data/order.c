/* Orders of items and batches. Invariant: items is a permutation of the item numbers, except for
 * items that replicas repeat as padding or drop. Batches are disjoint ranges of it that never cross
 * a segment. */
#include "data/order.h"

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

/* Returns a number in [0, bound): the high half of a 64-bit draw times bound (Lemire, "Fast random
 * integer generation in an interval", 2019, without the rejection: its bias is below bound /
 * 2^64). */
static int64_t draw_below(const tdm_random *random, int64_t index, int64_t bound) {
  uint32_t words[4];
  tdm_random_block(random, (uint64_t)index / 2, words);
  const int lane = (int)(index % 2) * 2;
  const uint64_t word = (uint64_t)words[lane + 1] << 32 | words[lane];
  return (int64_t)(((unsigned __int128)word * (uint64_t)bound) >> 64);
}

void tdm_shuffle(int64_t *items, int64_t count, const tdm_random *random, int64_t first) {
  for (int64_t i = count - 1; i > 0; i--) {
    const int64_t j = draw_below(random, first + i, i + 1);
    const int64_t moved = items[i];
    items[i] = items[j];
    items[j] = moved;
  }
}

static void shuffle_batches(tdm_batch_range *batches, int64_t count, const tdm_random *random) {
  for (int64_t i = count - 1; i > 0; i--) {
    const int64_t j = draw_below(random, i, i + 1);
    const tdm_batch_range moved = batches[i];
    batches[i] = batches[j];
    batches[j] = moved;
  }
}

typedef struct grouped_item {
  int32_t group;
  int64_t item;
} grouped_item;

static int compare_grouped_items(const void *left, const void *right) {
  const grouped_item *a = left;
  const grouped_item *b = right;
  if (a->group != b->group) return a->group < b->group ? -1 : 1;
  return a->item < b->item ? -1 : a->item > b->item;
}

static tdm_status add_segment(tdm_order *order, int64_t begin, int64_t end) {
  TDM_TRY(tdm_array_reserve(order->allocator, (void **)&order->segments, &order->segment_capacity,
                            order->segment_count + 1, sizeof *order->segments,
                            "the groups of a loader"));
  order->segments[order->segment_count++] = (tdm_order_segment){.begin = begin, .end = end};
  return TDM_OK;
}

/* Fills sorted and the segments. */
static tdm_status sort_by_group(tdm_order *order, const int32_t *groups) {
  const size_t count = (size_t)order->length;
  const tdm_allocator *allocator = order->allocator;
  grouped_item *list = tdm_allocate(allocator, count * sizeof *list, "the groups of a loader");
  if (!list) return TDM_OUT_OF_MEMORY;
  tdm_status status = TDM_OK;
  order->sorted = tdm_allocate(allocator, count * sizeof(int64_t), "the groups of a loader");
  if (!order->sorted) {
    status = TDM_OUT_OF_MEMORY;
    goto done;
  }
  for (size_t i = 0; i < count; i++)
    list[i] = (grouped_item){.group = groups[i], .item = (int64_t)i};
  qsort(list, count, sizeof *list, compare_grouped_items);
  size_t begin = 0;
  for (size_t i = 0; i < count && status == TDM_OK; i++) {
    order->sorted[i] = list[i].item;
    if (i + 1 == count || list[i + 1].group != list[i].group) {
      status = add_segment(order, (int64_t)begin, (int64_t)i + 1);
      begin = i + 1;
    }
  }
done:
  tdm_release(allocator, list, count * sizeof *list);
  return status;
}

/* Returns the number of batches of a segment. */
static int64_t count_batches(const tdm_order *order, const tdm_order_segment *segment) {
  const int64_t items = segment->end - segment->begin;
  return items / order->batch_size + (items % order->batch_size != 0 && !order->drop_last);
}

/* Writes the batches of a segment and returns their number. */
static int64_t cut_segment(const tdm_order *order, const tdm_order_segment *segment,
                           tdm_batch_range *out_batches) {
  int64_t count = 0;
  for (int64_t begin = segment->begin; begin < segment->end; count++) {
    const int64_t left = segment->end - begin;
    const int64_t rows = left < order->batch_size ? left : order->batch_size;
    if (rows < order->batch_size && order->drop_last) break;
    out_batches[count] = (tdm_batch_range){.begin = begin, .rows = rows};
    begin += rows;
  }
  return count;
}

/* Returns how many items are visited: equally many for each replica. */
static int64_t visited_items(int64_t length, const tdm_order_options *options) {
  if (options->replicas == 0) return length;
  const bool pads = length % options->replicas != 0 && !options->drop_last;
  return (length / options->replicas + pads) * options->replicas;
}

tdm_status tdm_order_init(tdm_order *order, const tdm_allocator *allocator, int64_t length,
                          const tdm_order_options *options) {
  *order = (tdm_order){.allocator = allocator,
                       .length = length,
                       .replicas = options->replicas,
                       .batch_size = options->batch_size,
                       .drop_last = options->drop_last};
  if (length == 0) return TDM_OK;
  if ((uint64_t)length > SIZE_MAX / sizeof(grouped_item))
    return tdm_fail_memory(SIZE_MAX, "the order of a loader");
  order->visited = visited_items(length, options);
  TDM_TRY(options->groups ? sort_by_group(order, options->groups)
                          : add_segment(order, 0, order->visited));
  for (size_t i = 0; i < order->segment_count; i++)
    order->batch_count += count_batches(order, &order->segments[i]);
  const size_t visited_bytes = (size_t)order->visited * sizeof *order->items;
  order->items = tdm_allocate(allocator, visited_bytes, "the order of a loader");
  if (order->replicas > 0) {
    order->dealt =
        tdm_allocate(allocator, (size_t)length * sizeof *order->dealt, "the order of a loader");
    if (!order->dealt) return TDM_OUT_OF_MEMORY;
  }
  order->batches = tdm_allocate(allocator, (size_t)order->batch_count * sizeof *order->batches,
                                "the batches of a loader");
  return order->items && order->batches ? TDM_OK : TDM_OUT_OF_MEMORY;
}

void tdm_order_deinit(tdm_order *order) {
  if (!order->allocator) return;
  const size_t bytes = (size_t)order->length * sizeof(int64_t);
  tdm_release(order->allocator, order->sorted, bytes);
  tdm_release(order->allocator, order->items, (size_t)order->visited * sizeof(int64_t));
  tdm_release(order->allocator, order->dealt, order->dealt ? bytes : 0);
  tdm_release(order->allocator, order->segments, order->segment_capacity * sizeof *order->segments);
  tdm_release(order->allocator, order->batches,
              (size_t)order->batch_count * sizeof *order->batches);
  memset(order, 0, sizeof *order);
}

void tdm_order_counts(const tdm_order *order, int64_t *out_padded, int64_t *out_dropped) {
  int64_t rows = 0;
  for (size_t i = 0; i < order->segment_count; i++) {
    const tdm_order_segment *segment = &order->segments[i];
    const int64_t items = segment->end - segment->begin;
    rows += order->drop_last ? items / order->batch_size * order->batch_size : items;
  }
  *out_padded = rows > order->length ? rows - order->length : 0;
  *out_dropped = rows < order->length ? order->length - rows : 0;
}

/* Distributes the items to replicas, batch by batch. */
static void deal(tdm_order *order, int64_t batch_count) {
  for (int64_t b = 0; b < batch_count; b++) {
    const tdm_batch_range range = order->batches[b];
    const int64_t samples = range.rows / order->replicas; /* per replica */
    for (int64_t row = 0; row < range.rows; row++) {
      const int64_t place = range.begin + row % samples * order->replicas + row / samples;
      order->items[range.begin + row] = order->dealt[place % order->length];
    }
  }
}

static void start_dealt(tdm_order *order, const tdm_random *random, int64_t batch_count) {
  for (int64_t i = 0; i < order->length; i++)
    order->dealt[i] = i;
  if (random) tdm_shuffle(order->dealt, order->length, random, 0);
  deal(order, batch_count);
}

void tdm_order_start(tdm_order *order, bool shuffle, uint64_t seed, uint64_t epoch) {
  int64_t count = 0;
  for (size_t i = 0; i < order->segment_count; i++)
    count += cut_segment(order, &order->segments[i], order->batches + count);
  const uint64_t items_stream = tdm_hash_mix(tdm_random_stream("loader.items"), epoch);
  const tdm_random items_random = {.seed = seed, .stream = items_stream};
  if (order->dealt) {
    start_dealt(order, shuffle ? &items_random : NULL, count);
    return;
  }
  for (int64_t i = 0; i < order->length; i++)
    order->items[i] = order->sorted ? order->sorted[i] : i;
  if (!shuffle) return;
  for (size_t i = 0; i < order->segment_count; i++) {
    const tdm_order_segment segment = order->segments[i];
    tdm_shuffle(order->items + segment.begin, segment.end - segment.begin, &items_random,
                segment.begin);
  }
  if (order->segment_count < 2) return; /* the short batch stays last */
  const uint64_t batches_stream = tdm_hash_mix(tdm_random_stream("loader.batches"), epoch);
  const tdm_random batches_random = {.seed = seed, .stream = batches_stream};
  shuffle_batches(order->batches, count, &batches_random);
}
