/* Starting a job: reads the options, looks which MPI is there, puts its launcher's command line
 * together, becomes it. Invariant: nothing is started where the launcher or Tandem's plug-in for it
 * is missing, so that ranks never take themselves for whole jobs. */
#define _GNU_SOURCE /* environ */
#include "tools/launch/launch.h"

#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/launch/find.h"
#include "tools/launch/words.h"
#include "tools/options/command_line.h"
#include "tools/options/option_table.h"

enum { FAILED = 1, BAD_USAGE = 2, NOT_EXECUTED = 126, MOST_RANKS = 65536, MOST_MORE = 256 };

typedef struct launch_options {
  tool_options common;
  int64_t ranks; /* 0: not given */
  const char *mpi;
  const char *hostfile;
  bool prints;
  const char *more[MOST_MORE]; /* (more_count) words for the launcher */
  int more_count;
  char **program;
} launch_options;

/* ---- Options --------------------------------------------------------------------------------- */

static bool bad_usage(const char *what, const char *word) {
  fprintf(stderr, "tandem launch: %s%s%s; see --help\n", what, *word ? " " : "", word);
  return false;
}

static tdm_status check_mpi(const char *name, const char *text) {
  const char *known[MPI_COUNT];
  int which;
  for (int i = 0; i < MPI_COUNT; i++)
    known[i] = mpi_text((mpi_name)i);
  return read_choice(name, text, known, MPI_COUNT, &which);
}

static tdm_status take_mpi(void *given, const char *name, char **behind, int *out_taken) {
  launch_options *out = given;
  (void)out_taken;
  if (!behind[0]) return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs NAME", name);
  out->mpi = behind[0];
  return check_mpi(name, behind[0]);
}

static tdm_status take_hostfile(void *given, const char *name, char **behind, int *out_taken) {
  launch_options *out = given;
  (void)out_taken;
  if (!behind[0]) return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs FILE", name);
  out->hostfile = behind[0];
  if (access(behind[0], R_OK) == 0) return TDM_OK;
  return tdm_fail(TDM_IO, "%s %s: %s", name, behind[0], strerror(errno));
}

static tdm_status take_more(void *given, const char *name, char **behind, int *out_taken) {
  launch_options *out = given;
  (void)out_taken;
  if (!behind[0]) return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs WORD", name);
  if (out->more_count == MOST_MORE)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: at most %d words", name, (int)MOST_MORE);
  out->more[out->more_count++] = behind[0];
  return TDM_OK;
}

#define FIELD(name) offsetof(launch_options, name)
static const option rows[] = {
    {"-n", "N", "how many ranks; in a job of Slurm, which srun then starts, its tasks",
     OPTION_INTEGER, FIELD(ranks), 1, MOST_RANKS, 0, NULL},
    {"-np", "N", NULL, OPTION_INTEGER, FIELD(ranks), 1, MOST_RANKS, 0, NULL},
    {"--mpi", "NAME", "openmpi or mpich (TANDEM_NET, else the first that is installed)",
     OPTION_TAKEN, 0, 0, 0, 0, take_mpi},
    {"--hostfile", "FILE", "list of hosts, one per line, in the format of the MPI", OPTION_TAKEN, 0,
     0, 0, 0, take_hostfile},
    {"--option", "WORD", "pass WORD to the launcher; may be repeated; also -o", OPTION_TAKEN, 0, 0,
     0, 0, take_more},
    {"-o", "WORD", NULL, OPTION_TAKEN, 0, 0, 0, 0, take_more},
    {"--print", NULL, "print the command line without starting it", OPTION_FLAG, FIELD(prints), 0,
     0, 0, NULL},
};
static const option program_operand = {
    "PROGRAM [ARGUMENT...]", NULL, NULL, OPTION_REST, FIELD(program), 0, 0, 0, NULL};
static const launch_options defaults = {.ranks = 0};
static const option_table table = {
    .program = "tandem launch",
    .about =
        "Starts N ranks of PROGRAM as one job with the installed MPI. The exit status is that of\n"
        "the launcher. On one machine, each rank gets an equal share of the cores. See\n"
        "docs/several_machines.md.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
    .operand = &program_operand,
    .below = &tool_table,
};

/* ---- Which MPI ------------------------------------------------------------------------------- */

static bool find_slurm(char path[PATH_MAX]) {
  return getenv("SLURM_JOB_ID") && find_in_path("srun", path);
}

static const char *asked_mpi(const launch_options *options) {
  const char *set = getenv("TANDEM_NET");
  if (options->mpi) return options->mpi;
  return set && *set ? set : NULL;
}

/* The first that is complete, or else why none is. srun (may be NULL) starts any of them. */
static bool choose_mpi(const launch_options *options, const char *srun, mpi_name *out_name,
                       mpi_found *out_found) {
  const char *asked = asked_mpi(options);
  if (asked && !options->mpi && strcmp(asked, "none") == 0)
    return bad_usage("TANDEM_NET=none lets every rank be alone:", "unset it");
  if (asked && check_mpi("TANDEM_NET", asked) != TDM_OK) return bad_usage(tdm_last_message(), "");
  char reasons[1024] = "";
  for (int i = 0; i < MPI_COUNT; i++) {
    *out_name = (mpi_name)i;
    const char *text = mpi_text(*out_name);
    if (asked && strcmp(asked, text) != 0) continue;
    mpi_find(*out_name, out_found);
    const bool starts = srun || out_found->has_launcher;
    if (starts && out_found->has_plugin) return true;
    const size_t length = strlen(reasons);
    (void)snprintf(reasons + length, sizeof reasons - length, "\n  %s: %s%s%s", text,
                   starts ? "" : "no launcher of it in PATH",
                   !starts && !out_found->has_plugin ? ", and " : "",
                   out_found->has_plugin ? ""
                                         : "no plug-in of Tandem for it (TANDEM_NET_PATH, or "
                                           "lib/tandem where Tandem is installed)");
  }
  fprintf(stderr, "tandem launch: there is no MPI to start ranks with:%s\n", reasons);
  return false;
}

/* ---- The command line ------------------------------------------------------------------------ */

/* Those that this process may use. */
static int count_cores(void) {
  hwloc_topology_t topology;
  int cores = 0;
  if (hwloc_topology_init(&topology) != 0) return 1;
  if (hwloc_topology_load(topology) == 0) {
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    if (allowed && hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) == 0)
      (void)hwloc_topology_restrict(topology, allowed, 0);
    hwloc_bitmap_free(allowed);
    cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  }
  hwloc_topology_destroy(topology);
  return cores > 0 ? cores : 1;
}

static void add_openmpi(const launch_options *options, words *line) {
  const long share = options->hostfile ? 0 : count_cores() / (long)options->ranks;
  words_add(line, "-n");
  words_addf(line, "%ld", (long)options->ranks);
  if (options->hostfile) {
    words_add(line, "--hostfile");
    words_add(line, options->hostfile);
  } else if (share == 0) {
    words_add(line, "--oversubscribe");
  }
  if (share > 0) {
    words_add(line, "--map-by");
    words_addf(line, "slot:PE=%ld", share);
  }
  words_add(line, "--bind-to"); /* Open MPI's default would give each rank one core */
  words_add(line, share > 0 ? "core" : "none");
  for (char **variable = environ; *variable; variable++) {
    if (strncmp(*variable, "TANDEM_", strlen("TANDEM_")) != 0) continue;
    words_add(line, "-x"); /* passes the variable to other machines */
    words_addf(line, "%.*s", (int)strcspn(*variable, "="), *variable);
  }
}

static void add_mpich(const launch_options *options, words *line) {
  const long share = options->hostfile ? 0 : count_cores() / (long)options->ranks;
  words_add(line, "-n");
  words_addf(line, "%ld", (long)options->ranks);
  if (options->hostfile) {
    words_add(line, "-f");
    words_add(line, options->hostfile);
  }
  if (share > 0) {
    words_add(line, "-bind-to");
    words_addf(line, "core:%ld", share);
  }
}

/* Its cores are what Slurm gave the task. */
static void add_slurm(const launch_options *options, mpi_name name, words *line) {
  if (options->ranks > 0) {
    words_add(line, "-n");
    words_addf(line, "%ld", (long)options->ranks);
  }
  words_add(line, name == OPENMPI ? "--mpi=pmix" : "--mpi=pmi2");
}

/* Adds a variable to the environment of ranks; a printed command begins with it. */
static void add_variable(const launch_options *options, const char *name, const char *value) {
  if (setenv(name, value, 1) != 0) perror("tandem launch");
  if (!options->prints) return;
  printf("%s=", name);
  words_print_one(value);
  putchar(' ');
}

/* Raises the limit of messages that are sent without a handshake, unless the user has set it. Over
 * TCP, Open MPI makes a handshake above 64 KiB and MPICH, through UCX, above about 19 KiB. The
 * reply waits for the data that the receiver sends itself. */
static void raise_eager_limit(const launch_options *options, mpi_name name) {
  static const char *const names[][2] = {
      [OPENMPI] = {"OMPI_MCA_btl_tcp_eager_limit", "OMPI_MCA_btl_tcp_rndv_eager_limit"},
      [MPICH] = {"UCX_RNDV_THRESH"}};
  for (size_t i = 0; i < 2 && names[name][i]; i++)
    if (!getenv(names[name][i])) add_variable(options, names[name][i], "262144");
}

static void set_environment(const launch_options *options, mpi_name name, const mpi_found *found,
                            bool by_slurm) {
  add_variable(options, "TANDEM_NET", mpi_text(name));
  add_variable(options, "TANDEM_NET_PATH", found->plugin_folder);
  raise_eager_limit(options, name);
  if (name != OPENMPI) return;
  if (by_slurm || geteuid() != 0) return;
  add_variable(options, "OMPI_ALLOW_RUN_AS_ROOT", "1");
  add_variable(options, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
}

/* Returns false if the command contains the word ":", which MPI launchers take for the beginning of
 * another program. */
static bool check_words(const launch_options *options) {
  for (char **word = options->program; *word; word++)
    if (strcmp(*word, ":") == 0)
      return bad_usage("the launcher would begin another program after the argument",
                       "':'; write it within a word, or start PROGRAM by a script");
  return true;
}

static int execute(const launch_options *options, const char *launcher, words *line) {
  for (int i = 0; i < options->more_count; i++)
    words_add(line, options->more[i]);
  for (char **word = options->program; *word; word++)
    words_add(line, *word);
  if (line->overflows) {
    fprintf(stderr, "tandem launch: the command line is too long\n");
    return FAILED;
  }
  if (options->prints) {
    words_print(line);
    return tool_ended(&launch_tool, TDM_OK);
  }
  (void)execv(launcher, line->items);
  fprintf(stderr, "tandem launch: %s: %s\n", launcher, strerror(errno));
  return NOT_EXECUTED;
}

static int launch(const launch_options *options) {
  char srun[PATH_MAX];
  mpi_found found;
  mpi_name name;
  words line = {.count = 0};
  const bool by_slurm = find_slurm(srun);
  if (options->ranks == 0 && !by_slurm) {
    (void)bad_usage("how many ranks:", "-n N");
    return BAD_USAGE;
  }
  if (options->hostfile && by_slurm) {
    (void)bad_usage("Slurm has given the job its machines, not", options->hostfile);
    return BAD_USAGE;
  }
  if (!by_slurm && !check_words(options)) return BAD_USAGE;
  if (!choose_mpi(options, by_slurm ? srun : NULL, &name, &found)) return FAILED;
  set_environment(options, name, &found, by_slurm);
  const char *launcher = by_slurm ? srun : found.launcher;
  words_add(&line, strrchr(launcher, '/') + 1); /* Open MPI would take a path for its installation
                                                 * prefix */
  if (by_slurm)
    add_slurm(options, name, &line);
  else if (name == OPENMPI)
    add_openmpi(options, &line);
  else
    add_mpich(options, &line);
  const int code = execute(options, launcher, &line);
  words_free(&line);
  return code;
}

static int run(const void *options) {
  return launch(options);
}

const tool launch_tool = {"launch", "Start a program on several ranks with MPI", &table, run};
