/* Records runs, and builds a timeline of them. Invariant: see trace.h. A timeline owns everything
 * that it points to, so the plans may be freed. */
#include "graph/run/trace.h"

#include <pthread.h>
#include <string.h>

#include "core/park.h"
#include "graph/report/explain.h"
#include "graph/report/report.h"

typedef struct tdm_kept_run {
  struct tdm_kept_run *next; /* next in the list of spare records */
  tdm_plan *plan;
  tdm_run_moments moments;
  int slot;
  tdm_status status;
  char message[TDM_MESSAGE_BYTES];
  tdm_command_times *times; /* (capacity) */
  uint8_t *failed;          /* (capacity) */
  size_t capacity;
} tdm_kept_run;

struct tdm_trace {
  const tdm_allocator *allocator;
  _Atomic uint64_t admitted;
  pthread_mutex_t mutex;
  tdm_kept_run **kept; /* (run_count): ring of records; NULL: not allocated yet */
  size_t run_count;
  size_t next;
  tdm_kept_run *spare; /* unused records, at most as many as there were runs in flight */
};

/* ---- Life ------------------------------------------------------------------------------------ */

tdm_status tdm_trace_create(const tdm_allocator *allocator, size_t runs, tdm_trace **out_trace) {
  *out_trace = NULL;
  tdm_trace *trace = tdm_allocate(allocator, sizeof *trace, "a trace");
  if (!trace) return TDM_OUT_OF_MEMORY;
  trace->allocator = allocator;
  trace->run_count = runs;
  trace->kept = tdm_allocate(allocator, runs * sizeof *trace->kept, "a trace");
  if (!trace->kept) {
    tdm_release(allocator, trace, sizeof *trace);
    return TDM_OUT_OF_MEMORY;
  }
  (void)pthread_mutex_init(&trace->mutex, NULL);
  *out_trace = trace;
  return TDM_OK;
}

static void release_lists(tdm_trace *trace, tdm_kept_run *kept) {
  tdm_release(trace->allocator, kept->times, kept->capacity * sizeof *kept->times);
  tdm_release(trace->allocator, kept->failed, kept->capacity);
  kept->times = NULL;
  kept->failed = NULL;
  kept->capacity = 0;
}

static void release_record(tdm_trace *trace, tdm_kept_run *kept) {
  if (!kept) return;
  release_lists(trace, kept);
  tdm_release(trace->allocator, kept, sizeof *kept);
}

void tdm_trace_destroy(tdm_trace *trace) {
  if (!trace) return;
  for (size_t i = 0; i < trace->run_count; i++)
    release_record(trace, trace->kept[i]);
  for (tdm_kept_run *spare = trace->spare, *next; spare; spare = next) {
    next = spare->next;
    release_record(trace, spare);
  }
  (void)pthread_mutex_destroy(&trace->mutex);
  tdm_release(trace->allocator, (void *)trace->kept, trace->run_count * sizeof *trace->kept);
  tdm_release(trace->allocator, trace, sizeof *trace);
}

/* ---- Recording ------------------------------------------------------------------------------- */

static tdm_status make_room(tdm_trace *trace, tdm_kept_run *kept, size_t count) {
  if (kept->capacity >= count) return TDM_OK;
  release_lists(trace, kept);
  kept->times = tdm_allocate(trace->allocator, count * sizeof *kept->times, "a trace");
  kept->failed = tdm_allocate(trace->allocator, count, "a trace");
  kept->capacity = count;
  if (kept->times && kept->failed) return TDM_OK;
  release_lists(trace, kept);
  return TDM_OUT_OF_MEMORY;
}

tdm_status tdm_trace_reserve(tdm_trace *trace, size_t command_count, tdm_kept_run **out_record) {
  *out_record = NULL;
  if (!trace) return TDM_OK;
  (void)pthread_mutex_lock(&trace->mutex);
  tdm_kept_run *record = trace->spare;
  if (record) trace->spare = record->next;
  (void)pthread_mutex_unlock(&trace->mutex);
  if (!record) record = tdm_allocate(trace->allocator, sizeof *record, "a trace");
  if (!record) return TDM_OUT_OF_MEMORY;
  const tdm_status status = make_room(trace, record, command_count + 1);
  if (status != TDM_OK) {
    release_record(trace, record);
    return status;
  }
  *out_record = record;
  return TDM_OK;
}

/* The caller holds the mutex. */
static void spare_record(tdm_trace *trace, tdm_kept_run *record) {
  record->next = trace->spare;
  trace->spare = record;
}

void tdm_trace_drop(tdm_trace *trace, tdm_kept_run *record) {
  if (!record) return;
  (void)pthread_mutex_lock(&trace->mutex);
  spare_record(trace, record);
  (void)pthread_mutex_unlock(&trace->mutex);
}

void tdm_trace_admit(tdm_trace *trace, tdm_run_moments *moments) {
  if (trace) moments->number = atomic_fetch_add(&trace->admitted, 1) + 1;
}

void tdm_trace_keep(tdm_trace *trace, tdm_run_state *run) {
  tdm_kept_run *record = run->record;
  if (!record) return;
  const size_t count = run->plan->lowered.schedule.step_count;
  run->record = NULL;
  run->moments.ended_ns = tdm_time_ns();
  record->plan = run->plan;
  record->moments = run->moments;
  record->slot = run->slot;
  record->status = run->status;
  memcpy(record->message, run->message, sizeof record->message);
  memcpy(record->times, run->flight.times, count * sizeof *record->times);
  memcpy(record->failed, run->flight.failed_ids, count);
  atomic_fetch_add(&run->plan->kept_runs, 1);
  (void)pthread_mutex_lock(&trace->mutex);
  tdm_kept_run *oldest = trace->kept[trace->next];
  trace->kept[trace->next] = record;
  trace->next = (trace->next + 1) % trace->run_count;
  if (oldest) {
    atomic_fetch_sub(&oldest->plan->kept_runs, 1);
    spare_record(trace, oldest);
  }
  (void)pthread_mutex_unlock(&trace->mutex);
}

/* ---- The plan of a timeline ------------------------------------------------------------------ */

/* Returns the names of the devices on the same cores; NULL: none, or memory is short. */
static const char *list_sharing(tdm_timeline *timeline, const tdm_device *device) {
  const char *list = NULL;
  const size_t count = tdm_device_count(device->context);
  for (size_t i = 0; i < count; i++) {
    const tdm_device *other = tdm_context_device(device->context, i);
    if (!tdm_context_share_cores(device->context, device, other)) continue;
    list = tdm_region_format(&timeline->region, "%s%s%s", list ? list : "", list ? ", " : "",
                             other->name);
  }
  return list;
}

static uint32_t row_of(tdm_timeline *timeline, const tdm_queue *queue) {
  for (uint32_t i = 0; i < timeline->row_count; i++)
    if (timeline->rows[i].thread == queue->index) return i;
  tdm_timeline_row *row = &timeline->rows[timeline->row_count];
  row->shares = list_sharing(timeline, queue->device);
  row->device = tdm_region_string(&timeline->region, queue->device->name);
  row->queue = tdm_explain_role(queue->role);
  row->process = (uint32_t)queue->device->context_index;
  row->thread = queue->index;
  return timeline->row_count++;
}

static const uint32_t *copy_numbers(tdm_timeline *timeline, const uint32_t *numbers,
                                    uint32_t count) {
  uint32_t *copy = tdm_region_take(&timeline->region, (count + 1) * sizeof *copy, "a timeline");
  if (copy && count) memcpy(copy, numbers, count * sizeof *copy);
  return copy;
}

static tdm_status describe_transfer(tdm_timeline *timeline, const tdm_plan *plan,
                                    const tdm_ir_node *node, tdm_timeline_node *out) {
  const uint32_t from = node->inputs[0];
  out->category = "transfer";
  out->bytes = tdm_ir_value_at(&plan->graph, node->first_output)->bytes;
  out->route = tdm_explain_route(plan, node);
  out->memory = tdm_explain_memory(plan, node);
  out->cause = tdm_explain_cause_in(&timeline->region, plan, node);
  const int16_t source = tdm_ir_value_at(&plan->graph, from)->device;
  out->from = tdm_region_string(&timeline->region, tdm_explain_device(plan, source));
  out->to = tdm_region_string(&timeline->region, tdm_explain_device(plan, node->device));
  return out->cause && out->from && out->to ? TDM_OK : TDM_OUT_OF_MEMORY;
}

static tdm_status describe_step(tdm_timeline *timeline, const tdm_plan *plan, size_t index,
                                tdm_timeline_node *out) {
  const tdm_schedule *schedule = &plan->lowered.schedule;
  const tdm_step *step = &schedule->steps[index];
  const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[index].node);
  uint32_t *waits =
      tdm_region_take(&timeline->region, (step->wait_count + 1) * sizeof *waits, "a timeline");
  uint32_t *previous =
      tdm_region_take(&timeline->region, (step->wait_count + 1) * sizeof *previous, "a timeline");
  char text[TDM_EXPLAIN_TEXT];
  const char *members = tdm_explain_members(node, text);
  out->row = row_of(timeline, plan->lowered.queues[step->queue]);
  out->name = tdm_region_string(&timeline->region, node->name);
  out->action = tdm_region_format(&timeline->region, "%s%s%s", tdm_explain_action(node),
                                  *members ? ": " : "", members);
  out->category = node->role == TDM_ROLE_UPDATE ? "update" : "kernel";
  out->last_phase = step->phase == TDM_PHASE_UPDATE;
  if (!waits || !previous || !out->name || !out->action) return TDM_OUT_OF_MEMORY;
  for (uint32_t k = 0; k < step->wait_count; k++) {
    const tdm_step_wait *wait = &schedule->waits[step->first_wait + k];
    if (wait->previous)
      previous[out->previous_wait_count++] = wait->step;
    else
      waits[out->wait_count++] = wait->step;
  }
  out->waits = waits;
  out->previous_waits = previous;
  return node->operation ? TDM_OK : describe_transfer(timeline, plan, node, out);
}

/* The programs of the commands contain their dependencies. */
static tdm_status find_dependencies(tdm_timeline *timeline, const tdm_plan *plan,
                                    tdm_timeline_node *nodes) {
  for (uint32_t p = 0; p < plan->program_count; p++)
    for (uint32_t i = 0; i < plan->programs[p].count; i++) {
      const tdm_command *command = &plan->programs[p].commands[i];
      if (command->kind != TDM_COMMAND_EXECUTE && command->kind != TDM_COMMAND_COPY) continue;
      tdm_timeline_node *node = &nodes[command->id];
      node->dependency_count = command->dependency_count;
      node->dependencies = copy_numbers(timeline, command->dependencies, command->dependency_count);
      if (!node->dependencies) return TDM_OUT_OF_MEMORY;
    }
  return TDM_OK;
}

static tdm_status describe_plan(tdm_timeline *timeline, const tdm_plan *plan, uint32_t *out_index) {
  for (*out_index = 0; *out_index < timeline->plan_count; (*out_index)++)
    if (timeline->plans[*out_index].key == plan) return TDM_OK;
  tdm_timeline_plan *made = &timeline->plans[timeline->plan_count++];
  made->key = plan;
  made->training = plan->training;
  made->node_count = (uint32_t)plan->lowered.schedule.step_count;
  made->nodes = tdm_region_take(&timeline->region, (made->node_count + 1) * sizeof *made->nodes,
                                "a timeline");
  if (!made->nodes) return TDM_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < made->node_count; i++)
    TDM_TRY(describe_step(timeline, plan, i, &made->nodes[i]));
  return find_dependencies(timeline, plan, made->nodes);
}

/* ---- The runs -------------------------------------------------------------------------------- */

static tdm_status add_run(tdm_timeline *timeline, const tdm_kept_run *kept) {
  const uint32_t index = timeline->run_count++;
  tdm_timeline_run *run = &timeline->runs[index];
  const tdm_run_moments *moments = &kept->moments;
  *run = (tdm_timeline_run){.number = moments->number,
                            .slot = kept->slot,
                            .asked_ns = moments->asked_ns,
                            .launched_ns = moments->launched_ns,
                            .updating_ns = moments->updating_ns,
                            .ended_ns = moments->ended_ns,
                            .status = kept->status,
                            .message = tdm_region_string(&timeline->region, kept->message)};
  if (!run->message) return TDM_OUT_OF_MEMORY;
  TDM_TRY(describe_plan(timeline, kept->plan, &run->plan));
  const tdm_timeline_plan *plan = &timeline->plans[run->plan];
  for (uint32_t i = 0; i < plan->node_count; i++) {
    const tdm_command_times *times = &kept->times[i];
    if (times->begin_ns == 0) continue;
    timeline->events[timeline->event_count++] =
        (tdm_timeline_event){.run = index,
                             .node = i,
                             .row = plan->nodes[i].row,
                             .failed = kept->status != TDM_OK && kept->failed[i],
                             .wait_ns = times->wait_ns,
                             .begin_ns = times->begin_ns,
                             .end_ns = times->end_ns,
                             .core_wait_ns = times->core_wait_ns};
  }
  return TDM_OK;
}

/* Allocates for the maximum. */
static tdm_status make_lists(const tdm_trace *trace, tdm_timeline *timeline) {
  size_t runs = 0;
  size_t events = 0;
  size_t rows = 0;
  const tdm_context *context = NULL;
  for (size_t i = 0; i < trace->run_count; i++) {
    if (!trace->kept[i]) continue;
    const tdm_plan *plan = trace->kept[i]->plan;
    runs++;
    events += plan->lowered.schedule.step_count;
    context = plan->graph.context;
  }
  if (runs == 0) return tdm_fail(TDM_INVALID_ARGUMENT, "no run has ended whose timeline is kept");
  timeline->device_count = (uint32_t)tdm_device_count(context);
  rows = tdm_context_queue_count(context);
  tdm_region *region = &timeline->region;
  timeline->rows = tdm_region_take(region, (rows + 1) * sizeof *timeline->rows, "a timeline");
  timeline->plans = tdm_region_take(region, runs * sizeof *timeline->plans, "a timeline");
  timeline->runs = tdm_region_take(region, runs * sizeof *timeline->runs, "a timeline");
  timeline->events = tdm_region_take(region, (events + 1) * sizeof *timeline->events, "a timeline");
  return timeline->rows && timeline->plans && timeline->runs && timeline->events
             ? TDM_OK
             : TDM_OUT_OF_MEMORY;
}

static tdm_status fill(const tdm_trace *trace, tdm_timeline *timeline) {
  TDM_TRY(make_lists(trace, timeline));
  for (size_t i = 0; i < trace->run_count; i++)
    if (trace->kept[i]) TDM_TRY(add_run(timeline, trace->kept[i]));
  return TDM_OK;
}

bool tdm_trace_has_runs(tdm_trace *trace) {
  bool has = false;
  (void)pthread_mutex_lock(&trace->mutex);
  for (size_t i = 0; i < trace->run_count; i++)
    has = has || trace->kept[i];
  (void)pthread_mutex_unlock(&trace->mutex);
  return has;
}

tdm_status tdm_trace_collect(tdm_trace *trace, tdm_timeline *out_timeline) {
  tdm_timeline_init(out_timeline, trace->allocator);
  (void)pthread_mutex_lock(&trace->mutex);
  tdm_status status = fill(trace, out_timeline);
  (void)pthread_mutex_unlock(&trace->mutex);
  if (status == TDM_OK && out_timeline->region.failed) status = TDM_OUT_OF_MEMORY;
  return status == TDM_OK ? tdm_timeline_sort(out_timeline) : status;
}

/* ---- Queries --------------------------------------------------------------------------------- */

tdm_status tdm_session_trace(tdm_session *session, tdm_trace_format format, FILE *out) {
  if (!session || !out) return tdm_fail(TDM_INVALID_ARGUMENT, "trace: no session or no file");
  TDM_TRY(tdm_context_check(session->context));
  if (!session->trace)
    return tdm_fail(TDM_INVALID_ARGUMENT, "trace: the session's trace_runs is 0: it keeps none");
  if (format != TDM_TRACE_CHROME && format != TDM_TRACE_SUMMARY)
    return tdm_fail(TDM_INVALID_ARGUMENT, "trace: no format has the number %d", (int)format);
  tdm_timeline timeline;
  tdm_report report;
  tdm_report_begin(&report, out, "the trace");
  tdm_status status = tdm_trace_collect(session->trace, &timeline);
  if (status == TDM_OK)
    status = format == TDM_TRACE_CHROME ? tdm_timeline_json(&timeline, out)
                                        : tdm_timeline_text(&timeline, out);
  tdm_timeline_deinit(&timeline);
  return tdm_report_end(&report, status);
}
