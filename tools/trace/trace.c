/* See trace.h. The summary is the one that sessions print of their own timelines. */
#include "tools/trace/trace.h"

#include "core/json_load.h"
#include "graph/report/timeline_read.h"

enum { MOST_BYTES = 1 << 30 };

typedef struct options {
  tool_options common;
  const char *path;
} options;

static const option file_operand = {"FILE", NULL, NULL, OPTION_TEXT, offsetof(options, path),
                                    0,      0,    0,    NULL};
static const options defaults = {.path = NULL};
static const option_table table = {
    .program = "tandem trace",
    .about =
        "What the timeline in FILE amounts to, which tdm_session_trace wrote for Perfetto, or\n"
        "an example with --trace: how long each queue was busy, how long two devices were at\n"
        "once, the critical path and what bounds it, what most time went to, and the bytes\n"
        "of every link. docs/timelines.md tells what to do about it.",
    OPTION_DEFAULTS(defaults),
    .operand = &file_operand,
    .below = &tool_table,
};

static tdm_status summarize(const char *path) {
  const tdm_allocator allocator = tdm_allocator_default();
  json_t *root = NULL;
  TDM_TRY(tdm_json_load_file(&allocator, "timeline", path, MOST_BYTES, &root));
  tdm_timeline timeline;
  tdm_status status = tdm_timeline_read(root, path, &allocator, &timeline);
  if (status == TDM_OK) status = tdm_timeline_text(&timeline, stdout);
  tdm_timeline_deinit(&timeline);
  json_decref(root);
  return status;
}

static int run(const void *given) {
  return tool_ended(&trace_tool, summarize(((const options *)given)->path));
}

const tool trace_tool = {"trace", "what a saved timeline amounts to", &table, run};
