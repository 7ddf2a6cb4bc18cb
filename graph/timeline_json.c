/* A timeline as JSON in the Trace Event Format ("Trace Event Format", the Chromium project):
 * complete events (X) on processes and threads that metadata (M) names, and flow events (s, f) from
 * what a command depends on. Invariant: events are written one by one, so a long timeline needs no
 * memory of its size. */
#include <jansson.h>

#include "graph/timeline.h"

typedef struct json_writer {
  const tdm_timeline *timeline;
  FILE *out;
  uint64_t origin_ns; /* what times are counted from */
  uint64_t flows;     /* arrows so far */
  bool begun;
  bool failed;
} json_writer;

enum { RUNS_PROCESS = 1, FIRST_DEVICE = 2, FIRST_THREAD = 1 };

static json_t *microseconds(const json_writer *writer, uint64_t time_ns) {
  return json_real((double)(time_ns - writer->origin_ns) / 1000);
}

static void set_integer(json_t *object, const char *key, uint64_t value) {
  json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void set_string(json_t *object, const char *key, const char *value) {
  if (value) json_object_set_new(object, key, json_string(value));
}

/* Takes the event over. */
static void write_event(json_writer *writer, json_t *event) {
  if (writer->begun) fputc(',', writer->out);
  fputc('\n', writer->out);
  writer->begun = true;
  if (!event || json_dumpf(event, writer->out, JSON_COMPACT | JSON_REAL_PRECISION(15)))
    writer->failed = true;
  json_decref(event);
}

static json_t *event_json(const char *phase, uint32_t process, uint32_t thread, const char *name) {
  json_t *event = json_object();
  set_string(event, "ph", phase);
  set_integer(event, "pid", process);
  set_integer(event, "tid", thread);
  set_string(event, "name", name);
  return event;
}

/* ---- Names of processes and threads ---- */

static void write_metadata(json_writer *writer, const char *what, uint32_t process, uint32_t thread,
                           const char *name) {
  json_t *event = event_json("M", process, thread, what);
  json_t *arguments = json_object();
  set_string(arguments, "name", name);
  json_object_set_new(event, "args", arguments);
  write_event(writer, event);
}

static void write_rows(json_writer *writer) {
  const tdm_timeline *timeline = writer->timeline;
  write_metadata(writer, "process_name", RUNS_PROCESS, FIRST_THREAD, "runs");
  for (uint32_t i = 0; i < timeline->row_count; i++) {
    const tdm_timeline_row *row = &timeline->rows[i];
    bool is_new = true;
    for (uint32_t k = 0; k < i; k++)
      is_new = is_new && timeline->rows[k].process != row->process;
    const uint32_t process = FIRST_DEVICE + row->process;
    const uint32_t thread = FIRST_THREAD + row->thread;
    if (is_new) write_metadata(writer, "process_name", process, thread, row->device);
    write_metadata(writer, "thread_name", process, thread, row->queue);
  }
}

/* ---- Runs ---- */

static void write_run(json_writer *writer, const tdm_timeline_run *run) {
  const uint64_t begin_ns = run->launched_ns ? run->launched_ns : run->ended_ns;
  json_t *event = event_json("X", RUNS_PROCESS, FIRST_THREAD + (uint32_t)run->slot,
                             writer->timeline->plans[run->plan].training ? "training run" : "run");
  set_string(event, "cat", "run");
  json_object_set_new(event, "ts", microseconds(writer, begin_ns));
  json_object_set_new(event, "dur", json_real((double)(run->ended_ns - begin_ns) / 1000));
  json_t *arguments = json_object();
  set_integer(arguments, "run", run->number);
  json_object_set_new(arguments, "queued_us", json_real((double)(begin_ns - run->asked_ns) / 1000));
  if (run->updating_ns)
    json_object_set_new(arguments, "updates_at_us", microseconds(writer, run->updating_ns));
  set_string(arguments, "status", run->status == TDM_OK ? "ok" : run->message);
  json_object_set_new(event, "args", arguments);
  write_event(writer, event);
}

/* ---- Commands ---- */

static json_t *names_of(const tdm_timeline *timeline, const tdm_timeline_event *event,
                        const uint32_t *nodes, uint32_t count) {
  const tdm_timeline_plan *plan = &timeline->plans[timeline->runs[event->run].plan];
  json_t *list = json_array();
  for (uint32_t k = 0; k < count; k++) {
    const tdm_timeline_node *node = &plan->nodes[nodes[k]];
    json_array_append_new(list, json_sprintf("%u %s (%s)", nodes[k], node->name, node->action));
  }
  return list;
}

static json_t *command_arguments(const tdm_timeline *timeline, const tdm_timeline_event *event) {
  const tdm_timeline_node *node = tdm_timeline_node_of(timeline, event);
  json_t *arguments = json_object();
  set_integer(arguments, "run", timeline->runs[event->run].number);
  set_integer(arguments, "command", event->node);
  set_string(arguments, "action", node->action);
  json_object_set_new(arguments, "depends_on",
                      names_of(timeline, event, node->dependencies, node->dependency_count));
  if (event->failed) json_object_set_new(arguments, "failed", json_true());
  if (!node->route) return arguments;
  set_integer(arguments, "bytes", node->bytes);
  set_string(arguments, "from", node->from);
  set_string(arguments, "to", node->to);
  set_string(arguments, "cause", node->cause);
  set_string(arguments, "route", node->route);
  set_string(arguments, "memory", node->memory);
  return arguments;
}

static json_t *row_event(const json_writer *writer, const char *phase, uint32_t row,
                         const char *name) {
  const tdm_timeline_row *lies = &writer->timeline->rows[row];
  return event_json(phase, FIRST_DEVICE + lies->process, FIRST_THREAD + lies->thread, name);
}

static void write_wait(json_writer *writer, const tdm_timeline_event *event) {
  const tdm_timeline_node *node = tdm_timeline_node_of(writer->timeline, event);
  json_t *wait = row_event(writer, "X", event->row, "wait");
  set_string(wait, "cat", "wait");
  json_object_set_new(wait, "ts", microseconds(writer, event->wait_ns));
  json_object_set_new(wait, "dur", json_real((double)(event->begin_ns - event->wait_ns) / 1000));
  json_t *arguments = json_object();
  set_integer(arguments, "run", writer->timeline->runs[event->run].number);
  set_integer(arguments, "before", event->node);
  json_object_set_new(arguments, "for",
                      names_of(writer->timeline, event, node->waits, node->wait_count));
  if (node->previous_wait_count)
    json_object_set_new(
        arguments, "for_of_the_run_before",
        names_of(writer->timeline, event, node->previous_waits, node->previous_wait_count));
  json_object_set_new(wait, "args", arguments);
  write_event(writer, wait);
}

/* An arrow's end binds to the event that encloses it (bp e), its begin to the one that it lies
 * in. */
static void write_arrow(json_writer *writer, const tdm_timeline_event *from,
                        const tdm_timeline_event *to) {
  const uint64_t id = ++writer->flows;
  json_t *begin = row_event(writer, "s", from->row, "dependency");
  set_string(begin, "cat", "dependency");
  set_integer(begin, "id", id);
  const uint64_t last_ns = from->end_ns > from->begin_ns ? from->end_ns - 1 : from->begin_ns;
  json_object_set_new(begin, "ts", microseconds(writer, last_ns));
  write_event(writer, begin);
  json_t *end = row_event(writer, "f", to->row, "dependency");
  set_string(end, "cat", "dependency");
  set_string(end, "bp", "e");
  set_integer(end, "id", id);
  json_object_set_new(end, "ts", microseconds(writer, to->begin_ns));
  write_event(writer, end);
}

static void write_command(json_writer *writer, const tdm_timeline_event *event) {
  const tdm_timeline *timeline = writer->timeline;
  const tdm_timeline_node *node = tdm_timeline_node_of(timeline, event);
  if (event->wait_ns) write_wait(writer, event);
  json_t *command = row_event(writer, "X", event->row, node->name);
  set_string(command, "cat", node->category);
  json_object_set_new(command, "ts", microseconds(writer, event->begin_ns));
  json_object_set_new(command, "dur", json_real((double)(event->end_ns - event->begin_ns) / 1000));
  json_object_set_new(command, "args", command_arguments(timeline, event));
  write_event(writer, command);
  for (uint32_t k = 0; k < node->dependency_count; k++) {
    const uint32_t from = timeline->runs[event->run].event_of[node->dependencies[k]];
    if (from != TDM_TIMELINE_NONE && timeline->events[from].row != event->row)
      write_arrow(writer, &timeline->events[from], event);
  }
}

/* ---- The file ---- */

static uint64_t earliest_ns(const tdm_timeline *timeline) {
  uint64_t earliest = UINT64_MAX;
  for (uint32_t i = 0; i < timeline->run_count; i++) {
    const tdm_timeline_run *run = &timeline->runs[i];
    if (run->asked_ns < earliest) earliest = run->asked_ns;
  }
  return earliest;
}

tdm_status tdm_timeline_json(const tdm_timeline *timeline, FILE *out) {
  json_writer writer = {.timeline = timeline, .out = out, .origin_ns = earliest_ns(timeline)};
  fprintf(out,
          "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"clock\":\"CLOCK_MONOTONIC\","
          "\"origin_ns\":%llu},\"traceEvents\":[",
          (unsigned long long)writer.origin_ns);
  write_rows(&writer);
  for (uint32_t i = 0; i < timeline->run_count; i++)
    write_run(&writer, &timeline->runs[i]);
  for (uint32_t i = 0; i < timeline->event_count; i++)
    write_command(&writer, &timeline->events[i]);
  fputs("\n]}\n", out);
  if (ferror(out)) return tdm_fail(TDM_IO, "the trace was not written");
  return writer.failed ? tdm_fail(TDM_OUT_OF_MEMORY, "the trace as JSON") : TDM_OK;
}
