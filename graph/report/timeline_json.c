/* Prints a timeline as JSON in the Trace Event Format ("Trace Event Format", the Chromium project):
 * complete events (X) on processes and threads named by metadata (M), and flow events (s, f) from a
 * command's dependencies. Invariant: events are written one by one, so a long timeline needs no
 * memory of its size. */
#include <stdio.h>

#include "core/json_writer.h"
#include "graph/report/timeline.h"

typedef struct json_writer {
  const tdm_timeline *timeline;
  uint64_t origin_ns; /* the time that is printed as 0 */
  uint64_t flows;     /* number of arrows so far */
  tdm_json_writer json;
} json_writer;

enum { RUNS_PROCESS = 1, FIRST_DEVICE = 2, FIRST_THREAD = 1 };
enum { NODE_TEXT = 640 }; /* a longer name is cut */

static void put_time(json_writer *writer, const char *key, uint64_t time_ns) {
  tdm_json_put_real(&writer->json, key, (double)(time_ns - writer->origin_ns) / 1000);
}

static void put_duration(json_writer *writer, const char *key, uint64_t begin_ns, uint64_t end_ns) {
  tdm_json_put_real(&writer->json, key, (double)(end_ns - begin_ns) / 1000);
}

static void put_integer(json_writer *writer, const char *key, uint64_t value) {
  tdm_json_put_integer(&writer->json, key, (int64_t)value);
}

static void put_string(json_writer *writer, const char *key, const char *value) {
  if (value) tdm_json_put_string(&writer->json, key, value);
}

static void begin_event(json_writer *writer, const char *phase, uint32_t process, uint32_t thread,
                        const char *name) {
  tdm_json_open(&writer->json, NULL, '{');
  put_string(writer, "ph", phase);
  put_integer(writer, "pid", process);
  put_integer(writer, "tid", thread);
  put_string(writer, "name", name);
}

static void begin_arguments(json_writer *writer) {
  tdm_json_open(&writer->json, "args", '{');
}

static void end_object(json_writer *writer) {
  tdm_json_close(&writer->json, '}');
}

/* ---- Names of processes and threads ---------------------------------------------------------- */

static void write_metadata(json_writer *writer, const char *what, uint32_t process, uint32_t thread,
                           const char *key, const char *text) {
  begin_event(writer, "M", process, thread, what);
  begin_arguments(writer);
  put_string(writer, key, text);
  end_object(writer);
  end_object(writer);
}

/* The viewer shows a process's labels after its name. */
static void write_device(json_writer *writer, uint32_t process, uint32_t thread,
                         const tdm_timeline_row *row) {
  write_metadata(writer, "process_name", process, thread, "name", row->device);
  if (!row->shares || !row->shares[0]) return;
  char text[NODE_TEXT];
  (void)snprintf(text, sizeof text, "%s%s", TDM_TIMELINE_SHARES, row->shares);
  write_metadata(writer, "process_labels", process, thread, "labels", text);
}

static void write_rows(json_writer *writer) {
  const tdm_timeline *timeline = writer->timeline;
  write_metadata(writer, "process_name", RUNS_PROCESS, FIRST_THREAD, "name", "runs");
  for (uint32_t i = 0; i < timeline->row_count; i++) {
    const tdm_timeline_row *row = &timeline->rows[i];
    bool is_new = true;
    for (uint32_t k = 0; k < i; k++)
      is_new = is_new && timeline->rows[k].process != row->process;
    const uint32_t process = FIRST_DEVICE + row->process;
    const uint32_t thread = FIRST_THREAD + row->thread;
    if (is_new) write_device(writer, process, thread, row);
    write_metadata(writer, "thread_name", process, thread, "name", row->queue);
  }
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void write_run(json_writer *writer, const tdm_timeline_run *run) {
  const uint64_t begin_ns = run->launched_ns ? run->launched_ns : run->ended_ns;
  begin_event(writer, "X", RUNS_PROCESS, FIRST_THREAD + (uint32_t)run->slot,
              writer->timeline->plans[run->plan].training ? "training run" : "run");
  put_string(writer, "cat", "run");
  put_time(writer, "ts", begin_ns);
  put_duration(writer, "dur", begin_ns, run->ended_ns);
  begin_arguments(writer);
  put_integer(writer, "run", run->number);
  put_duration(writer, "queued_us", run->asked_ns, begin_ns);
  if (run->updating_ns) put_time(writer, "updates_at_us", run->updating_ns);
  put_string(writer, "status", run->status == TDM_OK ? "ok" : run->message);
  end_object(writer);
  end_object(writer);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static void put_names(json_writer *writer, const char *key, const tdm_timeline_event *event,
                      const uint32_t *nodes, uint32_t count) {
  const tdm_timeline *timeline = writer->timeline;
  const tdm_timeline_plan *plan = &timeline->plans[timeline->runs[event->run].plan];
  tdm_json_open(&writer->json, key, '[');
  for (uint32_t k = 0; k < count; k++) {
    const tdm_timeline_node *node = &plan->nodes[nodes[k]];
    char text[NODE_TEXT];
    (void)snprintf(text, sizeof text, "%u %s (%s)", nodes[k], node->name, node->action);
    put_string(writer, NULL, text);
  }
  tdm_json_close(&writer->json, ']');
}

/* Writes what the command's queue waits for before it. */
static void put_waits(json_writer *writer, const tdm_timeline_event *event) {
  const tdm_timeline_node *node = tdm_timeline_node_of(writer->timeline, event);
  if (node->wait_count) put_names(writer, "for", event, node->waits, node->wait_count);
  if (node->previous_wait_count)
    put_names(writer, "for_of_the_run_before", event, node->previous_waits,
              node->previous_wait_count);
}

static void put_command_arguments(json_writer *writer, const tdm_timeline_event *event) {
  const tdm_timeline_node *node = tdm_timeline_node_of(writer->timeline, event);
  begin_arguments(writer);
  put_integer(writer, "run", writer->timeline->runs[event->run].number);
  put_integer(writer, "command", event->node);
  put_string(writer, "action", node->action);
  put_names(writer, "depends_on", event, node->dependencies, node->dependency_count);
  if (!event->wait_ns) put_waits(writer, event); /* otherwise its wait contains them */
  if (event->core_wait_ns) put_duration(writer, "core_wait_us", 0, event->core_wait_ns);
  if (event->failed) tdm_json_put_bool(&writer->json, "failed", true);
  if (node->route) {
    put_integer(writer, "bytes", node->bytes);
    put_string(writer, "from", node->from);
    put_string(writer, "to", node->to);
    put_string(writer, "cause", node->cause);
    put_string(writer, "route", node->route);
    put_string(writer, "memory", node->memory);
  }
  end_object(writer);
}

static void begin_row_event(json_writer *writer, const char *phase, uint32_t row,
                            const char *name) {
  const tdm_timeline_row *lies = &writer->timeline->rows[row];
  begin_event(writer, phase, FIRST_DEVICE + lies->process, FIRST_THREAD + lies->thread, name);
}

static void write_wait(json_writer *writer, const tdm_timeline_event *event) {
  begin_row_event(writer, "X", event->row, "wait");
  put_string(writer, "cat", "wait");
  put_time(writer, "ts", event->wait_ns);
  put_duration(writer, "dur", event->wait_ns, event->begin_ns);
  begin_arguments(writer);
  put_integer(writer, "run", writer->timeline->runs[event->run].number);
  put_integer(writer, "before", event->node);
  put_waits(writer, event);
  end_object(writer);
  end_object(writer);
}

/* An arrow's end binds to the enclosing event (bp e), and its begin to the event that contains
 * it. */
static void write_arrow(json_writer *writer, const tdm_timeline_event *from,
                        const tdm_timeline_event *to) {
  const uint64_t id = ++writer->flows;
  begin_row_event(writer, "s", from->row, "dependency");
  put_string(writer, "cat", "dependency");
  put_integer(writer, "id", id);
  put_time(writer, "ts", from->end_ns > from->begin_ns ? from->end_ns - 1 : from->begin_ns);
  end_object(writer);
  begin_row_event(writer, "f", to->row, "dependency");
  put_string(writer, "cat", "dependency");
  put_string(writer, "bp", "e");
  put_integer(writer, "id", id);
  put_time(writer, "ts", to->begin_ns);
  end_object(writer);
}

static void write_command(json_writer *writer, const tdm_timeline_event *event) {
  const tdm_timeline *timeline = writer->timeline;
  const tdm_timeline_node *node = tdm_timeline_node_of(timeline, event);
  if (event->wait_ns) write_wait(writer, event);
  begin_row_event(writer, "X", event->row, node->name);
  put_string(writer, "cat", node->category);
  put_time(writer, "ts", event->begin_ns);
  put_duration(writer, "dur", event->begin_ns, event->end_ns);
  put_command_arguments(writer, event);
  end_object(writer);
  for (uint32_t k = 0; k < node->dependency_count; k++) {
    const uint32_t from = timeline->runs[event->run].event_of[node->dependencies[k]];
    if (from != TDM_TIMELINE_NONE && timeline->events[from].row != event->row)
      write_arrow(writer, &timeline->events[from], event);
  }
}

/* ---- The file -------------------------------------------------------------------------------- */

static uint64_t earliest_ns(const tdm_timeline *timeline) {
  uint64_t earliest = UINT64_MAX;
  for (uint32_t i = 0; i < timeline->run_count; i++) {
    const tdm_timeline_run *run = &timeline->runs[i];
    if (run->asked_ns < earliest) earliest = run->asked_ns;
  }
  return earliest;
}

static void write_head(json_writer *writer) {
  put_string(writer, "displayTimeUnit", "ns");
  tdm_json_open(&writer->json, "otherData", '{');
  put_string(writer, "clock", "CLOCK_MONOTONIC");
  put_integer(writer, "origin_ns", writer->origin_ns);
  end_object(writer);
}

tdm_status tdm_timeline_json(const tdm_timeline *timeline, FILE *out) {
  json_writer writer = {.timeline = timeline, .origin_ns = earliest_ns(timeline)};
  tdm_json_writer *json = &writer.json;
  tdm_json_writer_init(json, tdm_json_write_stream, out);
  json->digits = 15;
  json->indent = 0;
  json->lines_depth = 2;
  tdm_json_open(json, NULL, '{');
  write_head(&writer);
  tdm_json_open(json, "traceEvents", '[');
  write_rows(&writer);
  for (uint32_t i = 0; i < timeline->run_count; i++)
    write_run(&writer, &timeline->runs[i]);
  for (uint32_t i = 0; i < timeline->event_count; i++)
    write_command(&writer, &timeline->events[i]);
  tdm_json_close(json, ']');
  tdm_json_close(json, '}');
  TDM_TRY(tdm_json_writer_finish(json));
  return tdm_json_write_stream(out, "\n", 1);
}
