/* Public part of layers/: learning rate schedules, as in torch.optim.lr_scheduler.
 *
 * A schedule is a value, and its rate is a function of the number of steps only, so it has no state
 * to save. Its steps may be epochs or training steps. The following sets the rate of the steps that
 * follow; no plan is made again:
 * @code
 * tdm_rate_schedule schedule;
 * tdm_status status = tdm_rate_schedule_step(0.1, 30, 0.1, &schedule);
 * ...
 * status = tdm_session_set_learning_rate(session, tdm_rate_schedule_at(&schedule, epoch));
 * @endcode
 * All functions may be called from any thread. `rate` is the base rate, 0 or more. Numbers that are
 * not finite are INVALID_ARGUMENT. */
#ifndef TANDEM_LAYERS_SCHEDULES_H
#define TANDEM_LAYERS_SCHEDULES_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Type of a function that returns the factor of the base rate after `step` steps. */
typedef double (*tdm_rate_schedule_factor)(void *user, int64_t step);

/* Maximum number of milestones, and of parts of a schedule. */
#define TDM_RATE_SCHEDULE_MAX_MILESTONES 16

/* A schedule, which one of the functions below creates. Its members are private. */
typedef struct tdm_rate_schedule tdm_rate_schedule;
struct tdm_rate_schedule {
  int kind;
  double base_rate;
  double settings[8];
  int64_t steps[2 + TDM_RATE_SCHEDULE_MAX_MILESTONES];
  tdm_rate_schedule_factor factor;
  void *user;
  const tdm_rate_schedule *parts; /* Parts of a combined schedule; borrowed. */
};

/* Creates a schedule that multiplies the rate by gamma every `size` steps (StepLR).
 * @param size 1 or more. */
TDM_API tdm_status tdm_rate_schedule_step(double rate, int64_t size, double gamma,
                                          tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* Creates a schedule that multiplies the rate by gamma at each milestone (MultiStepLR).
 * @param milestones (count): numbers of steps, in ascending order; equal ones are allowed.
 * @param count at most TDM_RATE_SCHEDULE_MAX_MILESTONES. */
TDM_API tdm_status tdm_rate_schedule_multi_step(double rate, const int64_t *milestones,
                                                size_t count, double gamma,
                                                tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* Creates a schedule that multiplies the rate by gamma every step (ExponentialLR). */
TDM_API tdm_status tdm_rate_schedule_exponential(double rate, double gamma,
                                                 tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* Creates a schedule that follows half a cosine from rate down to least in half_period steps, and
 * back up in the same number, and so on (CosineAnnealingLR). Source: I. Loshchilov, F. Hutter,
 * "SGDR", 2017, without restarts.
 * @param half_period 1 or more.
 * @param least lowest rate. */
TDM_API tdm_status tdm_rate_schedule_cosine(double rate, int64_t half_period, double least,
                                            tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* Creates a schedule that changes the rate linearly from rate first to rate last over `steps`
 * steps, and keeps it then (LinearLR).
 * @param first factor at step 0, above 0 and at most 1.
 * @param last factor from step `steps` on, 0 to 1.
 * @param steps 1 or more. */
TDM_API tdm_status tdm_rate_schedule_linear(double rate, double first, double last, int64_t steps,
                                            tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* Creates a schedule with rate factor for `steps` steps, and rate from then on (ConstantLR). Use it
 * as a warm-up in a sequence.
 * @param factor 0 to 1.
 * @param steps 1 or more. */
TDM_API tdm_status tdm_rate_schedule_constant(double rate, double factor, int64_t steps,
                                              tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* Creates a schedule with rate (1 - step / steps)^power, and 0 from step `steps` on (PolynomialLR).
 * @param steps 1 or more. */
TDM_API tdm_status tdm_rate_schedule_polynomial(double rate, int64_t steps, double power,
                                                tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* Creates a schedule that applies all parts at once: the base rate of the first part times the
 * factor of each part (ChainedScheduler). PyTorch gives other rates for a cosine with least above
 * 0, or beyond its half period, because it computes differences there.
 * @param parts (count): borrowed; they must outlive the schedule. Their base rates are positive.
 * @param count at most TDM_RATE_SCHEDULE_MAX_MILESTONES. */
TDM_API tdm_status tdm_rate_schedule_chained(const tdm_rate_schedule *parts, size_t count,
                                             tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* Creates a schedule that applies one part after the other (SequentialLR).
 * @param parts (count): as in tdm_rate_schedule_chained.
 * @param count at most TDM_RATE_SCHEDULE_MAX_MILESTONES.
 * @param milestones (count - 1), above 0 and in strictly ascending order: part i + 1 begins at step
 *     milestones[i], which is its own step 0. */
TDM_API tdm_status tdm_rate_schedule_sequential(const tdm_rate_schedule *parts, size_t count,
                                                const int64_t *milestones,
                                                tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* Options of tdm_rate_schedule_one_cycle. */
typedef struct tdm_one_cycle_options {
  size_t struct_size;
  /* Share of the steps in which the rate rises, 0 to 1, or to 0.5 with three_phases. Default 0.3.
   */
  double rising;
  /* The first rate is the highest rate divided by this; positive. Default 25. */
  double first_divisor;
  /* The last rate is the first rate divided by this; positive. Default 1e4. */
  double last_divisor;
  /* true: the rate changes linearly. false: along half cosines. Default false. */
  bool linear;
  /* true: the rate falls to the first rate in as many steps as it rose, and then to the last rate.
   * Default false. */
  bool three_phases;
  /* Lowest momentum, at the highest rate, for tdm_rate_schedule_momentum_at; 0 or more. Default
   * 0.85. */
  double base_momentum;
  /* Highest momentum, at the lowest rate; base_momentum or more, and less than 1. Default 0.95. */
  double max_momentum;
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

/* Creates a schedule that rises to `highest` and falls again, once in `steps` steps (OneCycleLR).
 * Source: L. N. Smith, N. Topin, "Super-convergence", 2018. For PyTorch's cycle_momentum, also pass
 * tdm_rate_schedule_momentum_at to tdm_session_set_momentum; otherwise the momentum does not
 * change.
 * @param highest highest rate, 0 or more.
 * @param steps 1 or more.
 * @param options NULL: all defaults. */
TDM_API tdm_status tdm_rate_schedule_one_cycle(double highest, int64_t steps,
                                               const tdm_one_cycle_options *options,
                                               tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* Creates a schedule with rate factor(user, step) (LambdaLR). */
TDM_API tdm_status tdm_rate_schedule_lambda(double rate, tdm_rate_schedule_factor factor,
                                            void *user,
                                            tdm_rate_schedule *out_schedule) TDM_WARN_UNUSED;

/* Returns the learning rate after `step` steps. A negative step counts as 0; a step beyond the end
 * of a cycle counts as its end. */
TDM_API double tdm_rate_schedule_at(const tdm_rate_schedule *schedule, int64_t step);

/* Returns the momentum after `step` steps of a schedule that tdm_rate_schedule_one_cycle created:
 * it falls while the rate rises, and rises while the rate falls. Returns -1, which no session
 * accepts, for other schedules, also for those that are combined of cycles. */
TDM_API double tdm_rate_schedule_momentum_at(const tdm_rate_schedule *schedule, int64_t step);

/* Options of tdm_rate_plateau_begin. */
typedef struct tdm_plateau_options {
  size_t struct_size;
  bool rising;   /* true: larger metrics are better. false: smaller ones. Default false. */
  double factor; /* Factor of a reduction, 0 or more and less than 1. Default 0.1. */
  /* Number of metrics without improvement that cause no reduction, 0 or more. Default 10. */
  int64_t patience;
  double threshold; /* Minimum improvement, 0 or more. Default 1e-4. */
  /* true: threshold is a difference. false: it is a share of the best metric. Default false. */
  bool absolute;
  /* Number of metrics after a reduction that are not counted, 0 or more. Default 0. */
  int64_t cooldown;
  double least; /* Lowest rate. Default 0. */
} tdm_plateau_options;
static inline tdm_plateau_options tdm_plateau_options_default(void) {
  tdm_plateau_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_plateau_options);
  options.factor = 0.1;
  options.patience = 10;
  options.threshold = 1e-4;
  return options;
}

/* State of a schedule that reduces the rate when a metric stops improving (ReduceLROnPlateau). It
 * is plain memory that may be copied and saved. */
typedef struct tdm_plateau {
  tdm_plateau_options options; /* The options, with defaults filled in. */
  double rate;                 /* Current learning rate. */
  double best;                 /* Best metric so far. */
  int64_t bad_count;           /* Number of consecutive metrics that were not better. */
  int64_t cooldown_left;       /* Number of metrics that are still to be ignored. */
} tdm_plateau;

/* Initializes the state.
 * @param rate initial learning rate.
 * @param options NULL: all defaults. */
TDM_API tdm_status tdm_rate_plateau_begin(double rate, const tdm_plateau_options *options,
                                          tdm_plateau *out_plateau) TDM_WARN_UNUSED;

/* Records the metric of an epoch, and returns the learning rate from then on. The rate is
 * multiplied by factor once more than `patience` metrics in a row were no better. NaN is no
 * improvement. 0 is returned if plateau is NULL. */
TDM_API double tdm_rate_plateau_next(tdm_plateau *plateau, double metric);

#ifdef __cplusplus
}
#endif
#endif
