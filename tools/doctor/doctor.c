/* See doctor.h. Each check prints a line: what was found, and, where it is not as it should be,
 * what it costs and what helps. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "tools/doctor/doctor.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/json_writer.h"
#include "tandem/tandem.h"
#include "tools/doctor/environment.h"
#include "tools/launch/find.h"
#include "tools/options/option_table.h"

typedef enum level { FINE, NOTE, WARNING, ERROR, LEVELS } level;
enum { FINDING_TEXT = 1024 };

typedef struct doctor {
  int counts[LEVELS];
  tdm_json_writer *json; /* NULL: text is wanted */
} doctor;

static const char *const level_names[LEVELS] = {"fine", "note", "warning", "error"};

/* "[ANSI colour m" of a level. */
static const char *const level_colours[LEVELS] = {"32", "36", "33", "31"};

static void say(doctor *self, level how, const char *topic, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void say(doctor *self, level how, const char *topic, const char *format, ...) {
  char text[FINDING_TEXT];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  self->counts[how]++;
  if (self->json) {
    tdm_json_open(self->json, NULL, '{');
    tdm_json_put_string(self->json, "level", level_names[how]);
    tdm_json_put_string(self->json, "topic", topic);
    tdm_json_put_string(self->json, "text", text);
    tdm_json_close(self->json, '}');
    return;
  }
  const bool coloured = tool_colours();
  if (coloured) printf("\033[%sm", level_colours[how]);
  printf("%-8s", level_names[how]);
  if (coloured) printf("\033[0m");
  printf(" %-12s %s\n", topic, text);
}

/* The file's first line without its end; false: there is none. */
static bool read_line(const char *path, char *line, int capacity) {
  FILE *file = fopen(path, "re");
  const bool read = file && fgets(line, capacity, file);
  if (file) (void)fclose(file);
  if (read) line[strcspn(line, "\n")] = '\0';
  return read;
}

static double gibibytes(uint64_t bytes) {
  return (double)bytes / (1024.0 * 1024 * 1024);
}

/* ---- The machine ----------------------------------------------------------------------------- */

static void check_processors(doctor *self) {
  cpu_set_t allowed;
  const long there = sysconf(_SC_NPROCESSORS_ONLN);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    say(self, NOTE, "processors", "the system does not report which may be used");
    return;
  }
  const int may = CPU_COUNT(&allowed);
  if (may < there) {
    say(self, NOTE, "processors", "%d of %ld may be used: the others are kept from this process",
        may, there);
  } else {
    say(self, FINE, "processors", "%d, all that there are", may);
  }
  char quota[64];
  double granted, period;
  if (read_line("/sys/fs/cgroup/cpu.max", quota, sizeof quota) &&
      sscanf(quota, "%lf %lf", &granted, &period) == 2 && granted < period * may)
    say(self, WARNING, "processors",
        "a control group grants the time of %.1f: threads beyond that are suspended by turns; "
        "TANDEM_CPU_DEVICES and taskset limit them",
        granted / period);
}

static void check_memory(doctor *self, tdm_context *context) {
  tdm_device_properties host = {.struct_size = sizeof host};
  if (tdm_device_get_properties(context, "cpu:0", &host) != TDM_OK) {
    say(self, WARNING, "memory", "%s", tdm_last_message());
    return;
  }
  say(self, FINE, "memory", "%.1f of %.1f GiB are free to cpu:0", gibibytes(host.free_bytes),
      gibibytes(host.memory_bytes));
  char line[64];
  if (read_line("/sys/fs/cgroup/memory.max", line, sizeof line) && strcmp(line, "max") != 0) {
    const uint64_t most = strtoull(line, NULL, 10);
    if (most > 0 && most < host.memory_bytes)
      say(self, NOTE, "memory", "a control group ends the process beyond %.1f GiB",
          gibibytes(most));
  }
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    say(self, NOTE, "addresses", "at most %.1f GiB of them (ulimit -v)", gibibytes(limit.rlim_cur));
}

static void check_huge_pages(doctor *self) {
  char line[128];
  if (!read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line)) {
    say(self, NOTE, "huge pages", "the system does not report them");
  } else if (strstr(line, "[never]")) {
    say(self, WARNING, "huge pages",
        "off: large tensors lie on pages of 4 KiB, which are slower to fill and to walk; "
        "'madvise' in /sys/kernel/mm/transparent_hugepage/enabled lets the library ask for them");
  } else {
    say(self, FINE, "huge pages", "large tensors get them (%s)", line);
  }
}

/* "Mems_allowed_list:\t0-1" of /proc/self/status; "" if it has none. */
static void read_allowed_nodes(char *nodes, size_t capacity) {
  static const char key[] = "Mems_allowed_list:";
  nodes[0] = '\0';
  FILE *file = fopen("/proc/self/status", "re");
  char line[256];
  while (file && fgets(line, sizeof line, file)) {
    if (strncmp(line, key, sizeof key - 1) != 0) continue;
    const char *value = line + sizeof key - 1 + strspn(line + sizeof key - 1, " \t");
    (void)snprintf(nodes, capacity, "%.*s", (int)strcspn(value, "\n"), value);
  }
  if (file) (void)fclose(file);
}

static void check_nodes(doctor *self) {
  char online[128], allowed[256], balancing[16];
  if (!read_line("/sys/devices/system/node/online", online, sizeof online)) {
    say(self, NOTE, "NUMA", "the system does not report its nodes: memory may be on any node");
    return;
  }
  read_allowed_nodes(allowed, sizeof allowed);
  if (*allowed && strcmp(allowed, online) != 0)
    say(self, NOTE, "NUMA", "memory of nodes %s alone may be used, of %s", allowed, online);
  const bool several = strpbrk(online, "-,") != NULL;
  const bool moves = several &&
                     read_line("/proc/sys/kernel/numa_balancing", balancing, sizeof balancing) &&
                     strcmp(balancing, "0") != 0;
  if (moves) {
    say(self, NOTE, "NUMA",
        "nodes %s, between which the kernel moves pages while they are used; 0 in "
        "/proc/sys/kernel/numa_balancing leaves them where the library has put them",
        online);
  } else if (several) {
    say(self, FINE, "NUMA", "nodes %s, a cpu device each", online);
  } else {
    say(self, FINE, "NUMA", "one node");
  }
}

static void check_clock(doctor *self) {
  char line[64];
  if (!read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", line, sizeof line))
    return;
  if (strcmp(line, "powersave") == 0) {
    say(self, NOTE, "clock", "the governor is powersave: short steps may run at a low clock");
  } else {
    say(self, FINE, "clock", "the governor is %s", line);
  }
}

static void check_files(doctor *self) {
  enum { ENOUGH = 256 }; /* a context has some ten; checkpoints and loaders a few more */
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < ENOUGH) {
    say(self, WARNING, "open files", "at most %llu (ulimit -n): a context alone has some ten",
        (unsigned long long)limit.rlim_cur);
  } else {
    say(self, FINE, "open files", "as many as are wanted");
  }
}

/* ---- The library ----------------------------------------------------------------------------- */

static void check_environment_entry(void *user, const char *name, const char *value, int known,
                                    const char *meant) {
  doctor *self = user;
  if (known) {
    say(self, NOTE, "environment", "%s is '%s'", name, value);
  } else if (meant) {
    say(self, WARNING, "environment", "%s is nothing that the library reads; was %s meant?", name,
        meant);
  } else {
    say(self, WARNING, "environment", "%s is nothing that the library reads", name);
  }
}

static void check_links(doctor *self, tdm_context *context) {
  const size_t count = tdm_device_count(context);
  size_t modelled = 0, measured = 0;
  for (size_t pair = 0; pair < count * count; pair++) {
    tdm_link_properties link = {.struct_size = sizeof link};
    if (pair / count == pair % count ||
        tdm_link_get_properties(context, tdm_device_name_at(context, pair / count),
                                tdm_device_name_at(context, pair % count), true, &link) != TDM_OK)
      continue;
    *(link.measured ? &measured : &modelled) += 1;
  }
  if (modelled > 0) {
    say(self, NOTE, "links",
        "%zu of %zu are modelled: 'tandem devices --calibrate' measures what copies cost here",
        modelled, modelled + measured);
  } else if (measured > 0) {
    say(self, FINE, "links", "all %zu were measured", measured);
  }
}

static void check_gpus(doctor *self, tdm_context *context) {
  const size_t count = tdm_device_count_of(context, "cuda");
  if (count > 0) {
    say(self, FINE, "cuda", "%zu GPUs", count);
    return;
  }
  if (!tdm_is_available(context, "cuda")) say(self, NOTE, "cuda", "%s", tdm_last_message());
}

static void check_mpi(doctor *self) {
  for (mpi_name name = 0; name < MPI_COUNT; name++) {
    mpi_found found;
    mpi_find(name, &found);
    if (found.has_launcher && found.has_plugin) {
      say(self, FINE, mpi_text(name), "%s starts jobs of several ranks", found.launcher);
    } else if (found.has_launcher) {
      say(self, WARNING, mpi_text(name),
          "%s is here, but Tandem's plug-in for it is not: its ranks would be alone "
          "(TANDEM_NET_PATH says where to look)",
          found.launcher);
    } else {
      say(self, NOTE, mpi_text(name), "is not here: it starts no jobs of several ranks");
    }
  }
}

/* Runs a linear layer in a session, like a program. */
static void check_run(doctor *self, tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 4, 8));
  tdm_output(graph, "y", tdm_linear(graph, "layer", x, 3));
  tdm_session *session = tdm_session_create(graph, NULL);
  tdm_tensor *ones = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 4, 8));
  const tdm_feed feed = {"x", ones, false};
  tdm_fetch fetch = {"y", NULL};
  if (session && ones && tdm_run(session, &feed, 1, &fetch, 1) == TDM_OK) {
    say(self, FINE, "a run", "of a linear layer on cpu:0 works");
  } else {
    say(self, ERROR, "a run", "%s", tdm_last_message());
  }
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(ones);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static void tell_log(void *user, tdm_log_level how, const char *message) {
  if (how != TDM_LOG_INFO) say(user, WARNING, "a context", "%s", message);
}

/* ---- The command ----------------------------------------------------------------------------- */

typedef struct options {
  tool_options common;
  bool json;
} options;

static const option rows[] = {
    {"--json", NULL, "print JSON", OPTION_FLAG, offsetof(options, json), 0, 0, 0, NULL},
};
static const options defaults = {.json = false};
static const option_table table = {
    .program = "tandem doctor",
    .about =
        "Checks this machine for problems that would break or slow down programs: processors,\n"
        "memory, NUMA nodes, limits, GPUs, MPI, links and environment variables. The exit\n"
        "status is 1 if a program could not work.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
    .below = &tool_table,
};

static void check_all(doctor *self) {
  environment_each(check_environment_entry, self);
  check_processors(self);
  check_huge_pages(self);
  check_nodes(self);
  check_clock(self);
  check_files(self);
  tdm_context_options plain = tdm_context_options_default();
  plain.log = tell_log;
  plain.log_user = self;
  tdm_context *context = tdm_context_create(&plain);
  if (context) {
    check_memory(self, context);
    check_gpus(self, context);
    check_links(self, context);
    check_run(self, context);
  } else {
    say(self, ERROR, "a context", "%s", tdm_last_message());
  }
  tdm_context_release(context);
  check_mpi(self);
}

static tdm_status write_json(doctor *self) {
  tdm_json_writer out;
  self->json = &out;
  tool_json_begin(&out);
  tdm_json_open(&out, "findings", '[');
  check_all(self);
  tdm_json_close(&out, ']');
  for (int how = 0; how < LEVELS; how++)
    tdm_json_put_integer(&out, level_names[how], self->counts[how]);
  return tool_json_end(&out);
}

static int run(const void *given) {
  const options *wanted = given;
  doctor self = {.json = NULL};
  tdm_status status = TDM_OK;
  if (wanted->json) {
    status = write_json(&self);
  } else {
    check_all(&self);
    printf("%d fine, %d notes, %d warnings, %d errors\n", self.counts[FINE], self.counts[NOTE],
           self.counts[WARNING], self.counts[ERROR]);
  }
  const int code = tool_ended(&doctor_tool, status);
  return code == 0 && self.counts[ERROR] > 0 ? 1 : code;
}

const tool doctor_tool = {"doctor", "Check this machine for problems", &table, run};
