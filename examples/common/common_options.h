/* The options that every example which trains has, and what they say of its session. Invariant: an
 * example's own options struct begins with a common_options. */
#ifndef EXAMPLES_COMMON_COMMON_OPTIONS_H
#define EXAMPLES_COMMON_COMMON_OPTIONS_H

#include "tools/options/option_table.h"

typedef struct common_options {
  const char *place;     /* a device map; NULL: as the example describes it */
  const char *parallel;  /* devices that the parallel part is replicated on; NULL: it is not
                          * replicated */
  const char *load_path; /* NULL: not requested; likewise for all paths */
  const char *save_path;
  const char *resume_path;     /* a checkpoint from which training continues */
  const char *checkpoint_path; /* written after every epoch and every checkpoint_steps steps */
  const char *log_path;        /* file of losses and scores, which `tandem curves` reads */
  const char *plan_path;       /* JSON, which `tandem plan` reads */
  const char *dot_path;
  const char *report_path;
  const char *trace_path;
  int64_t epochs;
  int64_t steps;            /* number of steps after which training stops; 0: no limit */
  int64_t checkpoint_steps; /* steps between additional checkpoints; 0: none */
  int64_t batch_size;
  int64_t micro_batches; /* parts that a step cuts its batch into; TDM_MICRO_BATCHES_AUTO */
  int64_t seed;          /* seed, at least 0 */
  double learning_rate;  /* learning rate of the first step; falls to 0 at the last */
  int rank;              /* rank in its job, set by program_open; 0 without a job */
  int rank_count;
  bool epochs_given;
  bool deterministic;
  bool explain;
  bool help;
} common_options;

/* The table of these options, which every such example extends. */
extern const option_table common_table;
/* All of an example's table but its first two fields, from an options struct and two arrays. */
#define EXAMPLE_TABLE_PARTS(defaults_, rows_, helps_)                                              \
  OPTION_DEFAULTS(defaults_), OPTION_ROWS(rows_), OPTION_HELPS(helps_), .below = &common_table

/* Returns the device that an example uses in addition to cpu:0: a GPU, or a simulated device after
 * printing that and how to avoid it. Returns NULL if the options or the environment select the
 * devices. */
const char *second_device(const common_options *given, tdm_context *context);
/* The first of the devices to wrap over ("cpu:0" of "cpu:0,sim:0" or of "cpu:*"): text gets it. */
enum { DEVICE_TEXT = 32 };
const char *first_device(const char *devices, char text[DEVICE_TEXT]);

/* Returns the session that these ask for; loss and optimizer are the example's. */
tdm_session_options session_options_for(const common_options *given, tdm_value loss,
                                        const tdm_optimizer *optimizer);

#endif
