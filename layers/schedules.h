/* Public part of layers/: learning rates that change with the epoch or the step, as
 * torch.optim.lr_scheduler has them. A schedule is a value; its rate is a function of a number of
 * steps alone, so a run that goes on from a checkpoint needs no state of it:
 *
 *   status = tdm_session_set_learning_rate(session, tdm_rate_schedule_at(&schedule, epoch));
 *
 * sets the rate of the steps that follow; no plan is made anew. Numbers that are not finite are
 * INVALID_ARGUMENT. Any thread. */
#ifndef TANDEM_LAYERS_SCHEDULES_H
#define TANDEM_LAYERS_SCHEDULES_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The factor that a schedule of a user's own multiplies the base rate with after step steps. */
typedef double (*tdm_rate_schedule_factor)(void *user, int64_t step);

/* The most steps at which a schedule changes its factor. */
#define TDM_RATE_SCHEDULE_MAX_MILESTONES 16

/* Made by the functions below; not to be filled by hand. */
typedef struct tdm_rate_schedule tdm_rate_schedule;
struct tdm_rate_schedule {
  int kind;
  double base_rate;
  double settings[8];
  int64_t steps[2 + TDM_RATE_SCHEDULE_MAX_MILESTONES];
  tdm_rate_schedule_factor factor;
  void *user;
  const tdm_rate_schedule *parts; /* of what is put together: the caller's */
};

/* Times gamma every size steps. */
TDM_API tdm_status tdm_rate_schedule_step(double rate, int64_t size, double gamma,
                                          tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;
/* Times gamma at each milestone; they ascend, and are TDM_RATE_SCHEDULE_MAX_MILESTONES at most. */
TDM_API tdm_status tdm_rate_schedule_multi_step(double rate, const int64_t *milestones,
                                                size_t count, double gamma,
                                                tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;
/* Times gamma every step. */
TDM_API tdm_status tdm_rate_schedule_exponential(double rate, double gamma,
                                                 tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;
/* Half a cosine from rate down to least in half_period steps, and back up in as many, and so on (I.
 * Loshchilov, F. Hutter, "SGDR", 2017, without restarts). */
TDM_API tdm_status tdm_rate_schedule_cosine(double rate, int64_t half_period, double least,
                                            tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;
/* From rate times first to rate times last, in equal parts over so many steps; then that. */
TDM_API tdm_status tdm_rate_schedule_linear(double rate, double first, double last, int64_t steps,
                                            tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* rate times factor for so many steps, then rate: a warm-up, before others in a sequence. */
TDM_API tdm_status tdm_rate_schedule_constant(double rate, double factor, int64_t steps,
                                              tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;
/* rate times (1 - step / steps)^power, and 0 from then on. */
TDM_API tdm_status tdm_rate_schedule_polynomial(double rate, int64_t steps, double power,
                                                tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;
/* All parts at once: the first one's base rate times what each makes of its own. So is PyTorch's
 * ChainedScheduler, but for a cosine that ends above 0 or has turned, which goes by differences
 * there. parts (count, at most TDM_RATE_SCHEDULE_MAX_MILESTONES) stay the caller's, and must
 * outlive the schedule; the base rates are positive. */
TDM_API tdm_status tdm_rate_schedule_chained(const tdm_rate_schedule *parts, size_t count,
                                             tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;
/* One part after the other: part i + 1 begins at milestones[i] (count - 1), which ascend, with its
 * own step 0. parts as above. */
TDM_API tdm_status tdm_rate_schedule_sequential(const tdm_rate_schedule *parts, size_t count,
                                                const int64_t *milestones,
                                                tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

typedef struct tdm_one_cycle_options {
  size_t struct_size;
  double rising;        /* the share of steps in which the rate rises, 0 to 1; default 0.3 */
  double first_divisor; /* the first rate is the highest divided by this, positive; default 25 */
  double last_divisor;  /* the last is the first divided by this, positive; default 1e4 */
  bool linear;          /* else along half cosines */
  bool three_phases;    /* down to the first rate as it rose, then to the last */
  /* What tdm_rate_schedule_momentum_at goes between, the largest where the rate is least. */
  double base_momentum; /* default 0.85 */
  double max_momentum;  /* default 0.95 */
} tdm_one_cycle_options;
static inline tdm_one_cycle_options tdm_one_cycle_options_default(void) {
  tdm_one_cycle_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_one_cycle_options);
  options.rising = 0.3;
  options.first_divisor = 25.0;
  options.last_divisor = 1e4;
  options.base_momentum = 0.85;
  options.max_momentum = 0.95;
  return options;
}

/* Up to highest and down again, once in steps steps (L. N. Smith, N. Topin, "Super-convergence",
 * 2018). PyTorch's cycle_momentum is to set tdm_rate_schedule_momentum_at as well, by
 * tdm_session_set_momentum; else momentum stays what it is. options may be NULL. */
TDM_API tdm_status tdm_rate_schedule_one_cycle(double highest, int64_t steps,
                                               const tdm_one_cycle_options *options,
                                               tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;
/* rate times factor(user, step). */
TDM_API tdm_status tdm_rate_schedule_lambda(double rate, tdm_rate_schedule_factor factor,
                                            void *user,
                                            tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* The rate after step steps, from 0 on; negative steps count as 0, and those beyond the end of a
 * cycle as its end. */
TDM_API double tdm_rate_schedule_at(const tdm_rate_schedule *schedule, int64_t step);

/* The momentum after step steps, of a cycle (tdm_rate_schedule_one_cycle): down from the largest
 * while the rate rises, and up again as it falls. -1, which no session takes, of other schedules,
 * also of those put together of cycles. */
TDM_API double tdm_rate_schedule_momentum_at(const tdm_rate_schedule *schedule, int64_t step);

typedef struct tdm_plateau_options {
  size_t struct_size;
  bool rising;      /* the largest metric is the best, not the least */
  double factor;    /* 0 to less than 1; default 0.1 */
  int64_t patience; /* metrics without a better one that are let pass, 0 or more; default 10 */
  double threshold; /* by how much better it must be, 0 or more; default 1e-4 */
  bool absolute;    /* the threshold is a distance, and not a share of the best */
  int64_t cooldown; /* metrics after a reduction in which none are counted */
  double least;     /* no rate is below */
} tdm_plateau_options;
static inline tdm_plateau_options tdm_plateau_options_default(void) {
  tdm_plateau_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_plateau_options);
  options.factor = 0.1;
  options.patience = 10;
  options.threshold = 1e-4;
  return options;
}

/* PyTorch's ReduceLROnPlateau: what it knows after the metrics so far. Plain memory: it may be
 * copied, and kept in a file. */
typedef struct tdm_plateau {
  tdm_plateau_options options; /* filled in */
  double rate;                 /* of now */
  double best;                 /* metric so far */
  int64_t bad_count;           /* metrics in a row that were no better */
  int64_t cooldown_left;       /* metrics that are not counted yet */
} tdm_plateau;

/* options may be NULL. */
TDM_API tdm_status tdm_rate_plateau_begin(double rate, const tdm_plateau_options *options,
                                          tdm_plateau *out_plateau) TDM_WARN_UNUSED;
/* Takes the metric of an epoch, and answers the rate from then on: times factor once `patience`
 * metrics in a row were no better. A NaN is no better. 0 where plateau is NULL. */
TDM_API double tdm_rate_plateau_next(tdm_plateau *plateau, double metric);

#ifdef __cplusplus
}
#endif
#endif
