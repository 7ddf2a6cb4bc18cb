/* Reads Chrome traces written by Tandem. Invariant: the file is not trusted: rows, runs and
 * commands that it names are looked up, and missing ones are CORRUPT_DATA. */
#include "graph/report/timeline_read.h"

#include <stdlib.h>
#include <string.h>

#include "core/utf8.h"

/* MOST_COMMANDS limits all runs together: a short file cannot use the memory of a long one. */
enum { RUNS_PROCESS = 1, MOST_DEVICES = 4096, MOST_ROWS = 4096, MOST_COMMANDS = 1 << 22 };
static const char what[] = "a timeline";

typedef struct reader {
  tdm_timeline *timeline;
  const json_t *events;
  const char *source;
  uint32_t *widths; /* per run: the number of commands of its plan: 1 + the largest one */
} reader;

static tdm_status fail(const reader *self, const char *why) {
  return tdm_fail(TDM_CORRUPT_DATA, "%s: is no timeline of Tandem's: %s", self->source, why);
}

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static bool is(const json_t *event, const char *key, const char *text) {
  return strcmp(text_of(event, key), text) == 0;
}

/* Reads microseconds. Negative times, and those of 1e13 us (115 days) or more, are read as 0. */
static uint64_t time_of(const json_t *object, const char *key) {
  const double us = json_number_value(json_object_get(object, key));
  return us > 0 && us < 1e13 ? (uint64_t)(us * 1000 + 0.5) : 0;
}

/* Copies text and makes it printable, because terminals show it. */
static const char *copy(reader *self, const char *text) {
  char *copied = tdm_region_string(&self->timeline->region, text);
  if (copied) tdm_utf8_make_printable(copied);
  return copied;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Returns a process's text in the metadata, or NULL if it has none. */
static const char *process_text(const reader *self, json_int_t process, const char *metadata,
                                const char *key) {
  for (size_t i = 0; i < json_array_size(self->events); i++) {
    const json_t *event = json_array_get(self->events, i);
    if (is(event, "ph", "M") && is(event, "name", metadata) &&
        json_integer_value(json_object_get(event, "pid")) == process)
      return text_of(json_object_get(event, "args"), key);
  }
  return NULL;
}

static const char *process_name(const reader *self, json_int_t process) {
  const char *name = process_text(self, process, "process_name", "name");
  return name ? name : "?";
}

/* Returns the devices on the same cores, or NULL if there are none. */
static const char *sharing_devices(const reader *self, json_int_t process) {
  const char *labels = process_text(self, process, "process_labels", "labels");
  const size_t length = strlen(TDM_TIMELINE_SHARES);
  return labels && strncmp(labels, TDM_TIMELINE_SHARES, length) == 0 ? labels + length : NULL;
}

static tdm_status read_rows(reader *self) {
  tdm_timeline *timeline = self->timeline;
  for (size_t i = 0; i < json_array_size(self->events); i++) {
    const json_t *event = json_array_get(self->events, i);
    if (!is(event, "ph", "M") || !is(event, "name", "thread_name")) continue;
    const json_int_t process = json_integer_value(json_object_get(event, "pid"));
    const json_int_t thread = json_integer_value(json_object_get(event, "tid"));
    if (process <= RUNS_PROCESS || process > MOST_DEVICES || thread < 0 || thread > UINT32_MAX ||
        timeline->row_count == MOST_ROWS)
      return fail(self, "a queue of no device");
    tdm_timeline_row *row = &timeline->rows[timeline->row_count++];
    row->device = copy(self, process_name(self, process));
    const char *shares = sharing_devices(self, process);
    row->shares = shares ? copy(self, shares) : NULL;
    row->queue = copy(self, text_of(json_object_get(event, "args"), "name"));
    row->process = (uint32_t)process - RUNS_PROCESS - 1;
    row->thread = (uint32_t)thread;
    if (row->process >= timeline->device_count) timeline->device_count = row->process + 1;
  }
  return TDM_OK;
}

/* Returns TDM_TIMELINE_NONE if there is none. */
static uint32_t row_of(const reader *self, const json_t *event) {
  const json_int_t process = json_integer_value(json_object_get(event, "pid"));
  const json_int_t thread = json_integer_value(json_object_get(event, "tid"));
  for (uint32_t r = 0; r < self->timeline->row_count; r++)
    if ((json_int_t)self->timeline->rows[r].process + RUNS_PROCESS + 1 == process &&
        (json_int_t)self->timeline->rows[r].thread == thread)
      return r;
  return TDM_TIMELINE_NONE;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static bool is_run(const json_t *event) {
  return is(event, "ph", "X") && is(event, "cat", "run");
}

static bool is_command(const json_t *event) {
  return is(event, "ph", "X") &&
         (is(event, "cat", "kernel") || is(event, "cat", "transfer") || is(event, "cat", "update"));
}

static void read_run(reader *self, const json_t *event) {
  const json_t *arguments = json_object_get(event, "args");
  const uint64_t begin_ns = time_of(event, "ts");
  const uint64_t queued_ns = time_of(arguments, "queued_us");
  tdm_timeline *timeline = self->timeline;
  const uint32_t index = timeline->run_count++;
  tdm_timeline_run *run = &timeline->runs[index];
  *run = (tdm_timeline_run){
      .number = (uint64_t)json_integer_value(json_object_get(arguments, "run")),
      .plan = index,
      .asked_ns = begin_ns > queued_ns ? begin_ns - queued_ns : 0,
      .launched_ns = begin_ns,
      .updating_ns = time_of(arguments, "updates_at_us"),
      .ended_ns = begin_ns + time_of(event, "dur"),
      .status = is(arguments, "status", "ok") ? TDM_OK : TDM_INTERNAL,
      .message = is(arguments, "status", "ok") ? "" : copy(self, text_of(arguments, "status"))};
  timeline->plans[index].training = is(event, "name", "training run");
}

/* Returns TDM_TIMELINE_NONE if there is none. */
static uint32_t run_of(const reader *self, const json_t *event) {
  const json_int_t number =
      json_integer_value(json_object_get(json_object_get(event, "args"), "run"));
  for (uint32_t r = 0; r < self->timeline->run_count; r++)
    if (self->timeline->runs[r].number == (uint64_t)number) return r;
  return TDM_TIMELINE_NONE;
}

static tdm_status read_runs(reader *self) {
  for (size_t i = 0; i < json_array_size(self->events); i++)
    if (is_run(json_array_get(self->events, i))) read_run(self, json_array_get(self->events, i));
  for (size_t i = 0; i < json_array_size(self->events); i++) {
    const json_t *event = json_array_get(self->events, i);
    if (!is_command(event)) continue;
    const uint32_t run = run_of(self, event);
    const json_int_t command =
        json_integer_value(json_object_get(json_object_get(event, "args"), "command"));
    if (run == TDM_TIMELINE_NONE || command < 0 || command >= MOST_COMMANDS)
      return fail(self, "a command of no run");
    if (command >= self->widths[run]) self->widths[run] = (uint32_t)command + 1;
  }
  tdm_timeline *timeline = self->timeline;
  uint64_t commands = 0;
  for (uint32_t r = 0; r < timeline->run_count; r++) {
    tdm_timeline_plan *plan = &timeline->plans[r];
    commands += self->widths[r];
    if (commands > MOST_COMMANDS) return fail(self, "it has too many commands");
    plan->key = plan;
    plan->node_count = self->widths[r];
    plan->nodes =
        tdm_region_take(&timeline->region, (plan->node_count + 1) * sizeof *plan->nodes, what);
    if (!plan->nodes) return TDM_OUT_OF_MEMORY;
  }
  timeline->plan_count = timeline->run_count;
  return TDM_OK;
}

/* ---- Commands -------------------------------------------------------------------------------- */

/* Reads the numbers in texts such as "12 linear (gradient)", without those of commands that were
 * not executed. */
static const uint32_t *read_numbers(reader *self, const json_t *list, uint32_t width,
                                    uint32_t *out_count) {
  const size_t count = json_array_size(list);
  uint32_t *numbers = tdm_region_take(&self->timeline->region, (count + 1) * sizeof *numbers, what);
  *out_count = 0;
  for (size_t i = 0; numbers && i < count; i++) {
    const char *text = json_string_value(json_array_get(list, i));
    char *end = NULL;
    const unsigned long number = text ? strtoul(text, &end, 10) : 0;
    if (text && end != text && number < width) numbers[(*out_count)++] = (uint32_t)number;
  }
  return numbers;
}

/* Reads what the event's queue waits for before it. It is written with the wait or, if the queue
 * did not have to wait, with the command itself. */
static void read_waits(reader *self, const tdm_timeline_event *event, const json_t *arguments) {
  tdm_timeline_plan *plan = &self->timeline->plans[event->run];
  tdm_timeline_node *node = &plan->nodes[event->node];
  node->waits =
      read_numbers(self, json_object_get(arguments, "for"), plan->node_count, &node->wait_count);
  node->previous_waits = read_numbers(self, json_object_get(arguments, "for_of_the_run_before"),
                                      plan->node_count, &node->previous_wait_count);
}

static tdm_status read_command(reader *self, const json_t *event) {
  tdm_timeline *timeline = self->timeline;
  const json_t *arguments = json_object_get(event, "args");
  const uint32_t run = run_of(self, event), row = row_of(self, event);
  if (row == TDM_TIMELINE_NONE) return fail(self, "a command of no queue");
  const uint32_t width = timeline->plans[run].node_count;
  const uint32_t number = (uint32_t)json_integer_value(json_object_get(arguments, "command"));
  tdm_timeline_node *node = &timeline->plans[run].nodes[number];
  node->name = copy(self, text_of(event, "name"));
  node->action = copy(self, text_of(arguments, "action"));
  node->category = copy(self, text_of(event, "cat"));
  node->row = row;
  node->last_phase = is(event, "cat", "update");
  node->dependencies =
      read_numbers(self, json_object_get(arguments, "depends_on"), width, &node->dependency_count);
  if (json_object_get(arguments, "route")) {
    const json_int_t bytes = json_integer_value(json_object_get(arguments, "bytes"));
    node->bytes = bytes > 0 ? (uint64_t)bytes : 0;
    node->from = copy(self, text_of(arguments, "from"));
    node->to = copy(self, text_of(arguments, "to"));
    node->cause = copy(self, text_of(arguments, "cause"));
    node->route = copy(self, text_of(arguments, "route"));
    node->memory = copy(self, text_of(arguments, "memory"));
  }
  const uint64_t begin_ns = time_of(event, "ts"), took_ns = time_of(event, "dur");
  const uint64_t waited_ns = time_of(arguments, "core_wait_us");
  tdm_timeline_event *made = &timeline->events[timeline->event_count++];
  *made = (tdm_timeline_event){.run = run,
                               .node = number,
                               .row = row,
                               .failed = json_is_true(json_object_get(arguments, "failed")),
                               .begin_ns = begin_ns,
                               .end_ns = begin_ns + took_ns,
                               .core_wait_ns = waited_ns < took_ns ? waited_ns : took_ns};
  read_waits(self, made, arguments);
  return timeline->region.failed ? TDM_OUT_OF_MEMORY : TDM_OK;
}

/* The wait is written right before its command, which is the latest event. */
static tdm_status read_wait(reader *self, const json_t *wait) {
  tdm_timeline *timeline = self->timeline;
  tdm_timeline_event *event = &timeline->events[timeline->event_count - 1];
  const json_t *arguments = json_object_get(wait, "args");
  if (json_integer_value(json_object_get(arguments, "before")) != (json_int_t)event->node ||
      run_of(self, wait) != event->run || row_of(self, wait) != event->row)
    return fail(self, "a wait that is not before its command");
  event->wait_ns = time_of(wait, "ts");
  read_waits(self, event, arguments);
  return timeline->region.failed ? TDM_OUT_OF_MEMORY : TDM_OK;
}

static tdm_status read_commands(reader *self) {
  const json_t *wait = NULL;
  for (size_t i = 0; i < json_array_size(self->events); i++) {
    const json_t *event = json_array_get(self->events, i);
    if (is(event, "ph", "X") && is(event, "cat", "wait")) wait = event;
    if (!is_command(event)) continue;
    TDM_TRY(read_command(self, event));
    if (wait) TDM_TRY(read_wait(self, wait));
    wait = NULL;
  }
  return TDM_OK;
}

/* Returns true if runs are of one plan: their commands have the same names and bytes. Commands that
 * one of them did not execute are ignored, because copies are refreshed only when they are old. */
static bool are_alike(const tdm_timeline_plan *a, const tdm_timeline_plan *b) {
  if (a->node_count != b->node_count || a->training != b->training) return false;
  for (uint32_t n = 0; n < a->node_count; n++) {
    const char *x = a->nodes[n].name, *y = b->nodes[n].name;
    if (x && y && (strcmp(x, y) != 0 || a->nodes[n].bytes != b->nodes[n].bytes)) return false;
  }
  return true;
}

/* Assigns the run to that plan, and adds the commands that only this run has executed. */
static void join_plan(tdm_timeline *timeline, uint32_t run, uint32_t plan) {
  const tdm_timeline_plan *own = &timeline->plans[run];
  for (uint32_t n = 0; n < own->node_count; n++)
    if (!timeline->plans[plan].nodes[n].name) timeline->plans[plan].nodes[n] = own->nodes[n];
  timeline->runs[run].plan = plan;
}

static void join_plans(tdm_timeline *timeline) {
  for (uint32_t r = 0; r < timeline->run_count; r++)
    for (uint32_t p = 0; p < r; p++)
      if (timeline->runs[p].plan == p && are_alike(&timeline->plans[p], &timeline->plans[r])) {
        join_plan(timeline, r, p);
        break;
      }
}

/* ---- The file -------------------------------------------------------------------------------- */

static tdm_status make_lists(reader *self) {
  tdm_timeline *timeline = self->timeline;
  tdm_region *region = &timeline->region;
  const size_t room = json_array_size(self->events) + 1;
  timeline->rows = tdm_region_take(region, room * sizeof *timeline->rows, what);
  timeline->plans = tdm_region_take(region, room * sizeof *timeline->plans, what);
  timeline->runs = tdm_region_take(region, room * sizeof *timeline->runs, what);
  timeline->events = tdm_region_take(region, room * sizeof *timeline->events, what);
  self->widths = tdm_region_take(region, room * sizeof *self->widths, what);
  return region->failed ? TDM_OUT_OF_MEMORY : TDM_OK;
}

tdm_status tdm_timeline_read(const json_t *root, const char *source, const tdm_allocator *allocator,
                             tdm_timeline *out_timeline) {
  tdm_timeline_init(out_timeline, allocator);
  reader self = {out_timeline, json_object_get(root, "traceEvents"), source, NULL};
  if (!json_is_array(self.events)) return fail(&self, "\"traceEvents\" is wanted");
  TDM_TRY(make_lists(&self));
  TDM_TRY(read_rows(&self));
  TDM_TRY(read_runs(&self));
  if (out_timeline->run_count == 0) return fail(&self, "it has no run");
  TDM_TRY(read_commands(&self));
  join_plans(out_timeline);
  return tdm_timeline_sort(out_timeline);
}
