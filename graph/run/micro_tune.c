/* Implements micro_tune.h: climbs over powers of two, and stops after two in a row without
 * improvement. */
#include "graph/run/micro_tune.h"

#include <string.h>

enum {
  RUNS_EACH = 3, /* the minimum counts, because other load only adds time */
  LAST = TDM_MICRO_NUMBERS - 1,
  MOST_TUNINGS = 256,
  MOST_MISSES = 2,
};

static const double WORTH = 0.97; /* factor to the best so far: more parts have to pay off */

tdm_status tdm_micro_tuner_find(tdm_micro_tuner *tuner, tdm_region *region, const uint64_t *words,
                                size_t word_count, tdm_micro_tuning **out_tuning) {
  const size_t bytes = word_count * sizeof *words;
  *out_tuning = NULL;
  for (tdm_micro_tuning *tuning = tuner->first; tuning; tuning = tuning->next) {
    if (tuning->word_count != word_count || memcmp(tuning->words, words, bytes) != 0) continue;
    *out_tuning = tuning;
    return TDM_OK;
  }
  if (tuner->count == MOST_TUNINGS) return TDM_OK;
  tdm_micro_tuning *made = tdm_region_take(region, sizeof *made, "micro-batches");
  uint64_t *copy = tdm_region_take(region, bytes, "micro-batches");
  if (!made || !copy) return TDM_OUT_OF_MEMORY;
  memcpy(copy, words, bytes);
  *made = (tdm_micro_tuning){.next = tuner->first, .words = copy, .word_count = word_count};
  tuner->first = made;
  tuner->count++;
  *out_tuning = made;
  return TDM_OK;
}

size_t tdm_micro_tuning_count(const tdm_micro_tuning *tuning) {
  if (!tuning) return 1;
  return (size_t)1 << (tuning->decided ? tuning->best : tuning->candidate);
}

static bool has_worked(const tdm_micro_tuning *tuning) {
  return tuning->best_ns > 0;
}

/* Selects the next candidate. While none has worked, all are tried, and the first one again after
 * the last. */
static void go_on(tdm_micro_tuning *tuning, bool better) {
  const bool was_last = tuning->candidate == LAST;
  tuning->misses = better ? 0 : tuning->misses + 1;
  tuning->runs = 0;
  tuning->decided = has_worked(tuning) && (tuning->misses >= MOST_MISSES || was_last);
  tuning->candidate = was_last ? 0 : tuning->candidate + 1;
}

static void take(tdm_micro_tuning *tuning, uint64_t took_ns) {
  tuning->best = tuning->candidate;
  tuning->best_ns = took_ns > 0 ? took_ns : 1;
}

static void judge(tdm_micro_tuning *tuning) {
  const bool better =
      !has_worked(tuning) || (double)tuning->least_ns < WORTH * (double)tuning->best_ns;
  if (better) take(tuning, tuning->least_ns);
  go_on(tuning, better);
}

void tdm_micro_tuning_note(tdm_micro_tuning *tuning, size_t asked, size_t made, bool alone,
                           uint64_t took_ns) {
  if (!tuning || tuning->decided || asked != (size_t)1 << tuning->candidate) return;
  if (alone || made != asked) { /* there are fewer rows */
    if (!has_worked(tuning)) take(tuning, took_ns);
    tuning->decided = true;
    return;
  }
  if (tuning->runs == 0 || took_ns < tuning->least_ns) tuning->least_ns = took_ns;
  if (++tuning->runs == RUNS_EACH) judge(tuning);
}

bool tdm_micro_tuning_is_cause(tdm_status status, bool planned) {
  return status == TDM_OUT_OF_MEMORY || status == TDM_UNSUPPORTED ||
         (status == TDM_INVALID_ARGUMENT && !planned);
}

/* If several runs fail at the same time, only the first one finds the number being tried. */
bool tdm_micro_tuning_give_up(tdm_micro_tuning *tuning, size_t asked) {
  if (!tuning) return false;
  if (!tuning->decided && asked == (size_t)1 << tuning->candidate) {
    go_on(tuning, false);
    if (!tuning->decided && tuning->candidate == 0) return false;
  }
  return asked != tdm_micro_tuning_count(tuning);
}
