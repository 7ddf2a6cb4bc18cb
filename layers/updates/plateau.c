/* A learning rate that is reduced when a metric stops improving. Invariant: a rate depends only on
 * the metrics and their order. */
#include <math.h>
#include <string.h>

#include "core/options.h"
#include "core/status.h"
#include "tandem/layers/schedules.h"

#define LEAST_CHANGE 1e-8 /* smallest change of a rate that is applied, as in PyTorch */

tdm_status tdm_rate_plateau_begin(double rate, const tdm_plateau_options *options,
                                  tdm_plateau *out_plateau) {
  if (!out_plateau) return tdm_fail(TDM_INVALID_ARGUMENT, "plateau: no place for it");
  memset(out_plateau, 0, sizeof *out_plateau);
  tdm_plateau_options *chosen = &out_plateau->options;
  TDM_TRY(TDM_OPTIONS_READ("plateau", plateau, options, chosen));
  if (!(rate >= 0.0 && isfinite(rate)) || !(chosen->factor >= 0.0 && chosen->factor < 1.0) ||
      !(chosen->threshold >= 0.0) || chosen->patience < 0 || chosen->cooldown < 0 ||
      !(chosen->least >= 0.0))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "plateau: rate is %g, expected finite and not negative; factor is %g, expected "
                    "0 to less than 1; threshold is %g, patience %lld, cooldown %lld and least %g, "
                    "expected not negative",
                    rate, chosen->factor, chosen->threshold, (long long)chosen->patience,
                    (long long)chosen->cooldown, chosen->least);
  out_plateau->rate = rate;
  out_plateau->best = chosen->rising ? -INFINITY : INFINITY;
  return TDM_OK;
}

static bool is_better(const tdm_plateau *plateau, double metric) {
  const tdm_plateau_options *options = &plateau->options;
  const double sign = options->rising ? 1.0 : -1.0;
  const double bound = options->absolute ? plateau->best + sign * options->threshold
                                         : plateau->best * (1.0 + sign * options->threshold);
  return options->rising ? metric > bound : metric < bound;
}

double tdm_rate_plateau_next(tdm_plateau *plateau, double metric) {
  if (!plateau) return 0.0;
  const tdm_plateau_options *options = &plateau->options;
  plateau->bad_count++;
  if (is_better(plateau, metric)) {
    plateau->best = metric;
    plateau->bad_count = 0;
  }
  if (plateau->cooldown_left > 0) {
    plateau->cooldown_left--;
    plateau->bad_count = 0;
  }
  if (plateau->bad_count <= options->patience) return plateau->rate;
  const double reduced = fmax(plateau->rate * options->factor, options->least);
  if (plateau->rate - reduced > LEAST_CHANGE) plateau->rate = reduced;
  plateau->cooldown_left = options->cooldown;
  plateau->bad_count = 0;
  return plateau->rate;
}
