/* Measures groups of copies: allocates buffers for the largest size, and takes samples of each
 * size. */
#include "bench/transfer/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/transfer/flight.h"

enum { MOST_SAMPLES = 1000, LATENCY_WARM_UPS = 20 };
static const uint64_t SEED = 42;

int samples_of(int asked, size_t bytes) {
  if (asked > 0) return asked;
  if (bytes <= (size_t)1 << 20) return 25;
  return bytes <= (size_t)64 << 20 ? 5 : 3;
}

int timed_copies_of(size_t bytes) {
  return bytes < SMALL_BYTES ? TIMED_SMALL_COPIES : TIMED_COPIES;
}

double copies_weight_ns(size_t pairs, size_t bytes, int samples, int copies) {
  const double call_ns = 2000, copied_ns = 1.0 / 8, looked_at_ns = 3; /* a byte */
  const double one_ns = call_ns + copied_ns * (double)bytes;
  return (double)pairs * (one_ns * samples * copies + looked_at_ns * (double)bytes);
}

/* ---- Results --------------------------------------------------------------------------------- */

static result describe(const measurement *wanted, const hop *copied, const hop_ends *ends,
                       size_t bytes) {
  const transfer_case *subject = wanted->subject;
  result made = {.case_name = subject->name,
                 .unit = subject->is_latency ? "us" : "GB/s",
                 .memory = subject->has_host_side ? host_memory_name(wanted->memory) : "-",
                 .node = -1,
                 .bytes = bytes};
  (void)snprintf(made.from, sizeof made.from, "%s", copied->from->name);
  (void)snprintf(made.to, sizeof made.to, "%s", copied->to->name);
  if (ends) made.node = copied->from->host_addressable ? ends->from.node : ends->to.node;
  return made;
}

/* Adds a result with a problem for each counted hop of a group that cannot be measured. */
static tdm_status add_problem(const measurement *wanted, const group *one, size_t bytes,
                              results *out_results) {
  for (size_t i = 0; i < one->hop_count; i++) {
    if (!one->hops[i].counted) continue;
    result made = describe(wanted, &one->hops[i], NULL, bytes);
    (void)snprintf(made.problem, sizeof made.problem, "%s", tdm_last_message());
    TDM_TRY(results_add(out_results, &made));
  }
  return TDM_OK;
}

/* Returns true if the machine lacks memory or a route; other statuses are failures. */
static bool is_absence(tdm_status status) {
  return status == TDM_OUT_OF_MEMORY || status == TDM_UNAVAILABLE || status == TDM_UNSUPPORTED;
}

/* ---- Samples --------------------------------------------------------------------------------- */

typedef struct sampling {
  const measurement *wanted;
  const group *group;
  hop_ends ends[MOST_HOPS];
  double *samples; /* (hop, MOST_SAMPLES): ns */
} sampling;

static tdm_status prepare_contents(sampling *mine, size_t bytes) {
  tdm_context *context = mine->wanted->context;
  for (size_t i = 0; i < mine->group->hop_count; i++) {
    TDM_TRY(buffer_fill(context, &mine->ends[i].from, bytes, SEED + i));
    TDM_TRY(buffer_wipe(context, &mine->ends[i].to, bytes));
  }
  return TDM_OK;
}

static tdm_status check_contents(sampling *mine, size_t bytes) {
  for (size_t i = 0; i < mine->group->hop_count; i++)
    TDM_TRY(buffer_check(mine->wanted->context, &mine->ends[i].to, bytes, SEED + i));
  return TDM_OK;
}

static tdm_status take_samples(sampling *mine, const copy_counts *counts, int count) {
  copy_flight *flight = NULL;
  TDM_TRY(copy_flight_create(mine->wanted->context, mine->group, mine->ends, counts, &flight));
  const bool whole = mine->wanted->subject->is_latency;
  const int warm_ups = whole ? LATENCY_WARM_UPS : 1;
  tdm_status status = TDM_OK;
  for (int i = -warm_ups; i < count && status == TDM_OK; i++) {
    double ns[MOST_HOPS] = {0};
    status = whole ? copy_flight_run_whole(flight, &ns[0]) : copy_flight_run(flight, ns);
    for (size_t k = 0; k < mine->group->hop_count && i >= 0; k++)
      mine->samples[k * MOST_SAMPLES + (size_t)i] = ns[k];
  }
  copy_flight_destroy(flight);
  return status;
}

/* Converts the ns of samples to the unit of the case, and adds the results. */
static tdm_status add_results(sampling *mine, const copy_counts *counts, int count,
                              results *out_results) {
  const bool whole = mine->wanted->subject->is_latency;
  for (size_t k = 0; k < mine->group->hop_count; k++) {
    if (!mine->group->hops[k].counted) continue;
    result made = describe(mine->wanted, &mine->group->hops[k], &mine->ends[k], counts->bytes);
    double *values = mine->samples + k * MOST_SAMPLES;
    const double moved = (double)counts->bytes * counts->timed;
    for (int i = 0; i < count; i++)
      values[i] = whole ? values[i] / 1e3 : moved / (values[i] > 0 ? values[i] : 1);
    result_summarize(&made, values, count, !whole);
    made.copy_ns = whole ? made.median * 1e3 : (double)counts->bytes / made.median;
    TDM_TRY(results_add(out_results, &made));
  }
  return TDM_OK;
}

/* How many samples a size gets. */
static int count_samples(const measurement *wanted, size_t bytes) {
  if (!wanted->subject->is_latency) return samples_of(wanted->samples, bytes);
  return wanted->samples ? wanted->samples : LATENCY_SAMPLES;
}

static tdm_status measure_size(sampling *mine, size_t bytes, results *out_results) {
  const bool whole = mine->wanted->subject->is_latency;
  const int count = count_samples(mine->wanted, bytes);
  const copy_counts counts = {.bytes = bytes,
                              .warm_ups = whole ? 0 : WARM_UP_COPIES,
                              .timed = whole ? 1 : timed_copies_of(bytes),
                              .held = !whole};
  TDM_TRY(prepare_contents(mine, bytes));
  TDM_TRY(take_samples(mine, &counts, count));
  TDM_TRY(check_contents(mine, bytes));
  return add_results(mine, &counts, count, out_results);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static void release_ends(sampling *mine) {
  for (size_t i = 0; i < mine->group->hop_count; i++) {
    buffer_release(mine->wanted->context, &mine->ends[i].from);
    buffer_release(mine->wanted->context, &mine->ends[i].to);
  }
}

static tdm_status create_ends(sampling *mine, size_t bytes) {
  const measurement *wanted = mine->wanted;
  for (size_t i = 0; i < mine->group->hop_count; i++) {
    const hop *copied = &mine->group->hops[i];
    TDM_TRY(buffer_create(wanted->context, copied->from, copied->to, wanted->memory, bytes,
                          &mine->ends[i].from));
    TDM_TRY(buffer_create(wanted->context, copied->to, copied->from, wanted->memory, bytes,
                          &mine->ends[i].to));
  }
  return TDM_OK;
}

/* Returns true if the size has to be measured. */
static bool begin_size(const measurement *wanted, const group *one, size_t bytes,
                       const results *list) {
  const hop *first = &one->hops[0];
  for (size_t i = one->hop_count; i-- > 0;)
    if (one->hops[i].counted) first = &one->hops[i];
  const result next = describe(wanted, first, NULL, bytes);
  const int copies = wanted->subject->is_latency ? 1 : WARM_UP_COPIES + timed_copies_of(bytes);
  return results_begin(
      list, &next, copies_weight_ns(one->hop_count, bytes, count_samples(wanted, bytes), copies));
}

/* Sizes at least as large as this one had no room. */
static tdm_status measure_or_tell(sampling *mine, size_t bytes, results *out_results,
                                  size_t *in_out_limit) {
  if (bytes >= *in_out_limit) {
    (void)tdm_fail(TDM_OUT_OF_MEMORY, "there was no room for %zu bytes", *in_out_limit);
    return add_problem(mine->wanted, mine->group, bytes, out_results);
  }
  tdm_status status = create_ends(mine, bytes);
  if (status == TDM_OK) status = measure_size(mine, bytes, out_results);
  if (is_absence(status)) {
    if (status == TDM_OUT_OF_MEMORY) *in_out_limit = bytes;
    status = add_problem(mine->wanted, mine->group, bytes, out_results);
  }
  release_ends(mine);
  return status;
}

/* A staging buffer lies near the device that it is for: other nodes' cpu devices have none. */
static bool has_memory(const measurement *wanted, const group *one) {
  if (!wanted->subject->has_host_side || wanted->memory != MEMORY_PINNED) return true;
  const hop *first = &one->hops[0];
  const tdm_device *host = first->from->host_addressable ? first->from : first->to;
  const tdm_device *other = first->from->host_addressable ? first->to : first->from;
  return host->node == other->node || host->node < 0 || other->node < 0;
}

tdm_status measure_group(const measurement *wanted, const group *one, results *out_results) {
  if (!has_memory(wanted, one)) return TDM_OK;
  sampling *mine = calloc(1, sizeof *mine);
  double *samples = calloc(one->hop_count * MOST_SAMPLES, sizeof *samples);
  tdm_status status = TDM_OK;
  if (!mine || !samples) {
    status = tdm_fail(TDM_OUT_OF_MEMORY, "samples");
  } else {
    *mine = (sampling){.wanted = wanted, .group = one, .samples = samples};
    const size_t latency_bytes = LATENCY_BYTES;
    const bool whole = wanted->subject->is_latency;
    const size_t *sizes = whole ? &latency_bytes : wanted->sizes;
    size_t limit = SIZE_MAX;
    for (size_t i = 0; status == TDM_OK && i < (whole ? 1 : wanted->size_count); i++)
      if (begin_size(wanted, one, sizes[i], out_results))
        status = measure_or_tell(mine, sizes[i], out_results, &limit);
  }
  free(samples);
  free(mine);
  return status;
}
