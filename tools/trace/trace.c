/* See trace.h. The summary is the one that sessions print of their own timelines. */
#include "tools/trace/trace.h"

#include "core/json_load.h"
#include "graph/report/timeline_read.h"

enum { MOST_BYTES = 1 << 30 };

typedef struct options {
  tool_options common;
  const char *path;
  bool json;
} options;

static const option rows[] = {
    {"--json", NULL, "print JSON, in nanoseconds and bytes", OPTION_FLAG, offsetof(options, json),
     0, 0, 0, NULL},
};
static const option file_operand = {"FILE", NULL, NULL, OPTION_TEXT, offsetof(options, path),
                                    0,      0,    0,    NULL};
static const options defaults = {.path = NULL};
static const option_table table = {
    .program = "tandem trace",
    .about =
        "Summarizes a timeline that tdm_session_trace or the option --trace of an example wrote:\n"
        "the busy time of each queue, the time in which two devices were busy, the critical path\n"
        "and what bounds it, the longest operations, and the bytes of each link. See\n"
        "docs/timelines.md.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
    .operand = &file_operand,
    .below = &tool_table,
};

/* ---- As JSON --------------------------------------------------------------------------------- */

static void put_ns(tdm_json_writer *out, const char *key, uint64_t ns) {
  tdm_json_put_integer(out, key, (int64_t)ns);
}

static void put_queues(const tdm_timeline *timeline, const tdm_timeline_summary *summary,
                       tdm_json_writer *out) {
  tdm_json_open(out, "queues", '[');
  for (uint32_t r = 0; r < timeline->row_count; r++) {
    tdm_json_open(out, NULL, '{');
    tdm_json_put_string(out, "device", timeline->rows[r].device);
    tdm_json_put_string(out, "queue", timeline->rows[r].queue);
    if (timeline->rows[r].shares)
      tdm_json_put_string(out, "shares_cores_with", timeline->rows[r].shares);
    put_ns(out, "busy_ns", summary->row_busy[r]);
    put_ns(out, "waiting_ns", summary->row_wait[r]);
    put_ns(out, "critical_ns", summary->row_path[r]);
    tdm_json_put_integer(out, "commands", summary->row_events[r]);
    tdm_json_close(out, '}');
  }
  tdm_json_close(out, ']');
}

static void put_path(const tdm_timeline *timeline, const tdm_timeline_summary *summary,
                     tdm_json_writer *out) {
  tdm_json_open(out, "critical_path", '{');
  tdm_json_put_integer(out, "commands", summary->path.count);
  put_ns(out, "busy_ns", summary->path.busy_ns);
  put_ns(out, "core_wait_ns", summary->path.core_ns);
  put_ns(out, "handing_over_ns", summary->path.handing_ns);
  put_ns(out, "caller_ns", summary->path.caller_ns);
  if (summary->bound_row != TDM_TIMELINE_NONE) {
    const tdm_timeline_row *row = &timeline->rows[summary->bound_row];
    const tdm_timeline_node *node =
        &timeline->plans[summary->bound_plan].nodes[summary->bound_node];
    tdm_json_put_string(out, "most_on_device", row->device);
    tdm_json_put_string(out, "most_on_queue", row->queue);
    tdm_json_put_string(out, "most_of_command", node->name);
    put_ns(out, "most_of_command_ns", summary->bound_node_ns);
  }
  tdm_json_close(out, '}');
}

static tdm_status put_shares(tdm_timeline *timeline, bool links, tdm_json_writer *out) {
  const tdm_timeline_share *const *list;
  uint32_t count;
  TDM_TRY(tdm_timeline_share_out(timeline, links, &list, &count));
  tdm_json_open(out, links ? "moved" : "commands", '[');
  for (uint32_t i = 0; i < count; i++) {
    tdm_json_open(out, NULL, '{');
    if (links) {
      tdm_json_put_string(out, "from", list[i]->node->from);
      tdm_json_put_string(out, "to", list[i]->node->to);
      tdm_json_put_integer(out, "bytes", (int64_t)list[i]->bytes);
    } else {
      tdm_json_put_string(out, "name", list[i]->node->name);
      tdm_json_put_string(out, "action", list[i]->node->action);
      tdm_json_put_string(out, "device", list[i]->row->device);
      tdm_json_put_string(out, "queue", list[i]->row->queue);
    }
    tdm_json_put_integer(out, "times", list[i]->count);
    put_ns(out, "busy_ns", list[i]->busy_ns);
    tdm_json_close(out, '}');
  }
  tdm_json_close(out, ']');
  return TDM_OK;
}

static tdm_status write_json(tdm_timeline *timeline) {
  tdm_timeline_summary summary;
  TDM_TRY(tdm_timeline_summarize(timeline, &summary));
  tdm_json_writer out;
  tool_json_begin(&out);
  tdm_json_put_integer(&out, "runs", timeline->run_count);
  tdm_json_put_integer(&out, "failed_runs", summary.failed_runs);
  put_ns(&out, "span_ns", summary.end_ns - summary.begin_ns);
  put_ns(&out, "some_device_busy_ns", summary.any_busy);
  put_ns(&out, "two_devices_busy_ns", summary.overlap);
  put_queues(timeline, &summary, &out);
  put_path(timeline, &summary, &out);
  TDM_TRY(put_shares(timeline, false, &out));
  TDM_TRY(put_shares(timeline, true, &out));
  return tool_json_end(&out);
}

/* ---- The command ----------------------------------------------------------------------------- */

static tdm_status summarize(const options *given) {
  const tdm_allocator allocator = tdm_allocator_default();
  json_t *root = NULL;
  TDM_TRY(tdm_json_load_file(&allocator, "timeline", given->path, MOST_BYTES, &root));
  tdm_timeline timeline;
  tdm_status status = tdm_timeline_read(root, given->path, &allocator, &timeline);
  if (status == TDM_OK)
    status = given->json ? write_json(&timeline) : tdm_timeline_text(&timeline, stdout);
  tdm_timeline_deinit(&timeline);
  json_decref(root);
  return status;
}

static int run(const void *given) {
  return tool_ended(&trace_tool, summarize(given));
}

const tool trace_tool = {"trace", "Summarize a saved timeline", &table, run};
