/* Learning rates as functions of the number of steps: closed forms of what torch.optim.lr_scheduler
 * computes step by step. Invariant: a rate depends only on the schedule and the step. */
#include "tandem/layers/schedules.h"

#include <math.h>
#include <string.h>

#include "core/options.h"
#include "core/status.h"

enum {
  STEP,
  MULTI_STEP,
  EXPONENTIAL,
  COSINE,
  LINEAR,
  CONSTANT,
  POLYNOMIAL,
  CHAINED,
  SEQUENTIAL,
  ONE_CYCLE,
  LAMBDA
};

/* Indices into settings: for step, multi-step and exponential; for cosine; for linear; for
 * constant; for polynomial. */
enum { GAMMA = 0, LEAST = 0, FIRST = 0, LAST = 1, FACTOR = 0, POWER = 0 };
/* Indices for one-cycle: the steps at which phases end, and the rates there. */
enum { PHASES = 0, END_1 = 0, END_2 = 1, END_3 = 2, RATE_FIRST = 3, RATE_LAST = 4, IS_LINEAR = 5 };
enum { LEAST_MOMENTUM = 6, MOST_MOMENTUM = 7 };

static tdm_status make(int kind, const char *name, double rate, tdm_rate_schedule *out_schedule) {
  if (!out_schedule) return tdm_fail(TDM_INVALID_ARGUMENT, "schedule %s: no place for it", name);
  memset(out_schedule, 0, sizeof *out_schedule);
  if (!(rate >= 0.0 && isfinite(rate)))
    return tdm_fail(TDM_INVALID_ARGUMENT, "schedule %s: rate %g must be finite and not negative",
                    name, rate);
  out_schedule->kind = kind;
  out_schedule->base_rate = rate;
  return TDM_OK;
}

static tdm_status check_steps(const char *name, const char *what, int64_t steps) {
  if (steps > 0) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "schedule %s: %s is %lld, and must be positive", name, what,
                  (long long)steps);
}

static tdm_status check_finite(const char *name, const char *what, double number) {
  if (isfinite(number)) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "schedule %s: %s is %g, and must be finite", name, what,
                  number);
}

tdm_status tdm_rate_schedule_step(double rate, int64_t size, double gamma,
                                  tdm_rate_schedule *out_schedule) {
  TDM_TRY(make(STEP, "step", rate, out_schedule));
  TDM_TRY(check_finite("step", "gamma", gamma));
  out_schedule->settings[GAMMA] = gamma;
  out_schedule->steps[0] = size;
  return check_steps("step", "size", size);
}

tdm_status tdm_rate_schedule_multi_step(double rate, const int64_t *milestones, size_t count,
                                        double gamma, tdm_rate_schedule *out_schedule) {
  TDM_TRY(make(MULTI_STEP, "multi_step", rate, out_schedule));
  TDM_TRY(check_finite("multi_step", "gamma", gamma));
  if (count > TDM_RATE_SCHEDULE_MAX_MILESTONES || (count > 0 && !milestones))
    return tdm_fail(TDM_INVALID_ARGUMENT, "schedule multi_step: %zu milestones, of at most %d",
                    count, TDM_RATE_SCHEDULE_MAX_MILESTONES);
  out_schedule->settings[GAMMA] = gamma;
  out_schedule->steps[0] = (int64_t)count;
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && milestones[i] < milestones[i - 1])
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "schedule multi_step: milestone %lld follows %lld, and must not be before it",
                      (long long)milestones[i], (long long)milestones[i - 1]);
    out_schedule->steps[1 + i] = milestones[i];
  }
  return TDM_OK;
}

tdm_status tdm_rate_schedule_exponential(double rate, double gamma,
                                         tdm_rate_schedule *out_schedule) {
  TDM_TRY(make(EXPONENTIAL, "exponential", rate, out_schedule));
  TDM_TRY(check_finite("exponential", "gamma", gamma));
  out_schedule->settings[GAMMA] = gamma;
  return TDM_OK;
}

tdm_status tdm_rate_schedule_cosine(double rate, int64_t half_period, double least,
                                    tdm_rate_schedule *out_schedule) {
  TDM_TRY(make(COSINE, "cosine", rate, out_schedule));
  TDM_TRY(check_finite("cosine", "least", least));
  out_schedule->settings[LEAST] = least;
  out_schedule->steps[0] = half_period;
  return check_steps("cosine", "half_period", half_period);
}

tdm_status tdm_rate_schedule_linear(double rate, double first, double last, int64_t steps,
                                    tdm_rate_schedule *out_schedule) {
  TDM_TRY(make(LINEAR, "linear", rate, out_schedule));
  if (!(first > 0.0 && first <= 1.0 && last >= 0.0 && last <= 1.0))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "schedule linear: factors %g and %g must lie in (0, 1] and [0, 1]", first,
                    last);
  out_schedule->settings[FIRST] = first;
  out_schedule->settings[LAST] = last;
  out_schedule->steps[0] = steps;
  return check_steps("linear", "steps", steps);
}

tdm_status tdm_rate_schedule_constant(double rate, double factor, int64_t steps,
                                      tdm_rate_schedule *out_schedule) {
  TDM_TRY(make(CONSTANT, "constant", rate, out_schedule));
  if (!(factor >= 0.0 && factor <= 1.0))
    return tdm_fail(TDM_INVALID_ARGUMENT, "schedule constant: factor %g must lie in [0, 1]",
                    factor);
  out_schedule->settings[FACTOR] = factor;
  out_schedule->steps[0] = steps;
  return check_steps("constant", "steps", steps);
}

tdm_status tdm_rate_schedule_polynomial(double rate, int64_t steps, double power,
                                        tdm_rate_schedule *out_schedule) {
  TDM_TRY(make(POLYNOMIAL, "polynomial", rate, out_schedule));
  TDM_TRY(check_finite("polynomial", "power", power));
  out_schedule->settings[POWER] = power;
  out_schedule->steps[0] = steps;
  return check_steps("polynomial", "steps", steps);
}

/* Creates a schedule that consists of others. */
static tdm_status make_of_parts(int kind, const char *name, const tdm_rate_schedule *parts,
                                size_t count, tdm_rate_schedule *out_schedule) {
  if (!parts || count < 1 || count > TDM_RATE_SCHEDULE_MAX_MILESTONES)
    return tdm_fail(TDM_INVALID_ARGUMENT, "schedule %s: %zu parts, 1 to %d can be", name,
                    parts ? count : 0, TDM_RATE_SCHEDULE_MAX_MILESTONES);
  for (size_t i = 0; i < count; i++)
    if (!(parts[i].base_rate > 0.0))
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "schedule %s: the rate of part %zu is %g, and must be "
                      "positive",
                      name, i, parts[i].base_rate);
  TDM_TRY(make(kind, name, parts[0].base_rate, out_schedule));
  out_schedule->parts = parts;
  out_schedule->steps[0] = (int64_t)count;
  return TDM_OK;
}

tdm_status tdm_rate_schedule_chained(const tdm_rate_schedule *parts, size_t count,
                                     tdm_rate_schedule *out_schedule) {
  return make_of_parts(CHAINED, "chained", parts, count, out_schedule);
}

tdm_status tdm_rate_schedule_sequential(const tdm_rate_schedule *parts, size_t count,
                                        const int64_t *milestones,
                                        tdm_rate_schedule *out_schedule) {
  TDM_TRY(make_of_parts(SEQUENTIAL, "sequential", parts, count, out_schedule));
  if (count > 1 && !milestones)
    return tdm_fail(TDM_INVALID_ARGUMENT, "schedule sequential: the milestones are missing");
  for (size_t i = 0; i + 1 < count; i++) {
    if (milestones[i] <= (i > 0 ? milestones[i - 1] : 0))
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "schedule sequential: milestone %zu is %lld, expected more than step %lld", i,
                      (long long)milestones[i], (long long)(i > 0 ? milestones[i - 1] : 0));
    out_schedule->steps[1 + i] = milestones[i];
  }
  return TDM_OK;
}

tdm_status tdm_rate_schedule_one_cycle(double highest, int64_t steps,
                                       const tdm_one_cycle_options *options,
                                       tdm_rate_schedule *out_schedule) {
  tdm_one_cycle_options chosen;
  TDM_TRY(make(ONE_CYCLE, "one_cycle", highest, out_schedule));
  TDM_TRY(check_steps("one_cycle", "steps", steps));
  TDM_TRY(TDM_OPTIONS_READ("schedule one_cycle", one_cycle, options, &chosen));
  const double rising = chosen.rising, first = chosen.first_divisor, last = chosen.last_divisor;
  TDM_TRY(check_finite("one_cycle", "first_divisor", first));
  TDM_TRY(check_finite("one_cycle", "last_divisor", last));
  const double most = chosen.three_phases ? 0.5 : 1.0;
  if (!(rising >= 0.0 && rising <= most) || !(first > 0.0) || !(last > 0.0))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "schedule one_cycle: rising is %g, expected 0 to %g; first_divisor is %g and "
                    "last_divisor %g, expected positive numbers",
                    rising, most, first, last);
  double *settings = out_schedule->settings;
  settings[END_1] = rising * (double)steps - 1;
  settings[END_2] = chosen.three_phases ? 2 * rising * (double)steps - 2 : (double)steps - 1;
  settings[END_3] = (double)steps - 1;
  settings[RATE_FIRST] = highest / first;
  settings[RATE_LAST] = highest / first / last;
  TDM_TRY(check_finite("one_cycle", "the first rate", settings[RATE_FIRST]));
  TDM_TRY(check_finite("one_cycle", "the last rate", settings[RATE_LAST]));
  settings[IS_LINEAR] = chosen.linear;
  settings[LEAST_MOMENTUM] = chosen.base_momentum;
  settings[MOST_MOMENTUM] = chosen.max_momentum;
  if (!(settings[LEAST_MOMENTUM] >= 0.0 && settings[LEAST_MOMENTUM] <= settings[MOST_MOMENTUM] &&
        settings[MOST_MOMENTUM] < 1.0))
    return tdm_fail(
        TDM_INVALID_ARGUMENT,
        "schedule one_cycle: base_momentum is %g and max_momentum %g, expected 0 <= base_momentum "
        "<= max_momentum < 1",
        settings[LEAST_MOMENTUM], settings[MOST_MOMENTUM]);
  out_schedule->steps[PHASES] = chosen.three_phases ? 3 : 2;
  return TDM_OK;
}

tdm_status tdm_rate_schedule_lambda(double rate, tdm_rate_schedule_factor factor, void *user,
                                    tdm_rate_schedule *out_schedule) {
  TDM_TRY(make(LAMBDA, "lambda", rate, out_schedule));
  if (!factor) return tdm_fail(TDM_INVALID_ARGUMENT, "schedule lambda: the function is missing");
  out_schedule->factor = factor;
  out_schedule->user = user;
  return TDM_OK;
}

/* ---- Rates ----------------------------------------------------------------------------------- */

static int64_t milestones_passed(const tdm_rate_schedule *schedule, int64_t step) {
  int64_t passed = 0;
  while (passed < schedule->steps[0] && schedule->steps[1 + passed] <= step)
    passed++;
  return passed;
}

/* Interpolates from a to b while share goes from 0 to 1. */
static double anneal(double a, double b, double share, bool linear) {
  return linear ? a + (b - a) * share : b + (a - b) / 2 * (1 + cos(M_PI * share));
}

/* Returns the completed fraction of the phase from begin to end. A phase without steps is
 * complete. */
static double share_of(double step, double begin, double end) {
  return end > begin ? (step - begin) / (end - begin) : 1.0;
}

/* Returns the value of a cycle: from first to peak, to fallen, and in a third phase to last. */
static double cycle_at(const tdm_rate_schedule *schedule, double step, double first, double peak,
                       double fallen, double last) {
  const double *settings = schedule->settings;
  const double end_1 = settings[END_1], end_2 = settings[END_2], end_3 = settings[END_3];
  const bool linear = settings[IS_LINEAR] != 0.0;
  if (step > end_3) step = end_3;
  if (step <= end_1) return anneal(first, peak, share_of(step, 0, end_1), linear);
  if (step <= end_2) return anneal(peak, fallen, share_of(step, end_1, end_2), linear);
  return anneal(fallen, last, share_of(step, end_2, end_3), linear);
}

static double one_cycle_rate(const tdm_rate_schedule *schedule, double step) {
  const double first = schedule->settings[RATE_FIRST], last = schedule->settings[RATE_LAST];
  const double fallen = schedule->steps[PHASES] == 3 ? first : last;
  return cycle_at(schedule, step, first, schedule->base_rate, fallen, last);
}

double tdm_rate_schedule_momentum_at(const tdm_rate_schedule *schedule, int64_t step) {
  if (!schedule || schedule->kind != ONE_CYCLE) return -1.0;
  const double least = schedule->settings[LEAST_MOMENTUM];
  const double most = schedule->settings[MOST_MOMENTUM];
  return cycle_at(schedule, step < 0 ? 0.0 : (double)step, most, least, most, most);
}

static double chained_rate(const tdm_rate_schedule *schedule, int64_t step) {
  double rate = schedule->base_rate;
  for (int64_t i = 0; i < schedule->steps[0]; i++)
    rate *= tdm_rate_schedule_at(&schedule->parts[i], step) / schedule->parts[i].base_rate;
  return rate;
}

static double sequential_rate(const tdm_rate_schedule *schedule, int64_t step) {
  int64_t part = 0;
  while (part + 1 < schedule->steps[0] && schedule->steps[1 + part] <= step)
    part++;
  const int64_t begin = part > 0 ? schedule->steps[part] : 0;
  return tdm_rate_schedule_at(&schedule->parts[part], step - begin);
}

double tdm_rate_schedule_at(const tdm_rate_schedule *schedule, int64_t step) {
  if (!schedule) return 0.0;
  if (step < 0) step = 0;
  const double *settings = schedule->settings;
  const double rate = schedule->base_rate;
  int64_t decays;
  switch (schedule->kind) {
  case STEP:
    decays = step / schedule->steps[0];
    return rate * pow(settings[GAMMA], (double)decays);
  case MULTI_STEP:
    return rate * pow(settings[GAMMA], (double)milestones_passed(schedule, step));
  case EXPONENTIAL:
    return rate * pow(settings[GAMMA], (double)step);
  case COSINE:
    return anneal(rate, settings[LEAST], (double)step / (double)schedule->steps[0], false);
  case LINEAR: {
    const double share = (double)step / (double)schedule->steps[0];
    return rate * anneal(settings[FIRST], settings[LAST], share < 1.0 ? share : 1.0, true);
  }
  case CONSTANT:
    return step < schedule->steps[0] ? rate * settings[FACTOR] : rate;
  case POLYNOMIAL:
    if (step >= schedule->steps[0]) return 0.0;
    return rate * pow(1.0 - (double)step / (double)schedule->steps[0], settings[POWER]);
  case CHAINED:
    return chained_rate(schedule, step);
  case SEQUENTIAL:
    return sequential_rate(schedule, step);
  case ONE_CYCLE:
    return one_cycle_rate(schedule, (double)step);
  default:
    return rate * schedule->factor(schedule->user, step);
  }
}
