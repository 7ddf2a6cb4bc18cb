/* Choosing the number of micro-batches by measuring: what runs of one shape took with one, two,
 * four, ... parts. Every candidate is a run like any other, so nothing is computed in vain.
 * A number of parts is given up, and the next one is tried, if a failure depends on the number: the
 * parts cannot be planned, or are too large for memory or for a kernel. Other failures (an id out
 * of range, a loss that is not finite, a lost device) give up nothing. While no number has worked,
 * all are tried again, since memory may be free by then. Invariant: all is guarded by the session's
 * lock; what was decided has worked, and stays. */
#ifndef TANDEM_GRAPH_RUN_MICRO_TUNE_H
#define TANDEM_GRAPH_RUN_MICRO_TUNE_H

#include "core/allocate.h"
#include "core/status.h"

enum { TDM_MICRO_NUMBERS = 5 }; /* of parts, that are tried: 1, 2, 4, 8, 16 */

/* Of all runs that ask for the same (of one plan, but for the number of parts). */
typedef struct tdm_micro_tuning {
  struct tdm_micro_tuning *next;
  uint64_t *words; /* (word_count) what they ask for */
  size_t word_count;
  bool decided;
  unsigned candidate; /* 2 to the power of it is measured now */
  unsigned best;
  unsigned misses;   /* candidates in a row that were no better */
  unsigned runs;     /* of the candidate that were measured */
  uint64_t least_ns; /* of these runs */
  uint64_t best_ns;  /* 0: none has worked yet */
} tdm_micro_tuning;

typedef struct tdm_micro_tuner {
  tdm_micro_tuning *first;
  size_t count;
} tdm_micro_tuner;

/* The tuning of those that ask for words, made in region at the first; *out_tuning is NULL when
 * there are too many: nothing is cut then. */
tdm_status tdm_micro_tuner_find(tdm_micro_tuner *tuner, tdm_region *region, const uint64_t *words,
                                size_t word_count, tdm_micro_tuning **out_tuning) TDM_WARN_UNUSED;
/* Into how many parts the next run is cut; 1 for NULL. */
size_t tdm_micro_tuning_count(const tdm_micro_tuning *tuning);
/* A run that was to be cut into `asked` parts, and was into `made`, took so long. alone: its plan
 * has one queue, on which nothing can overlap. NULL is legal. */
void tdm_micro_tuning_note(tdm_micro_tuning *tuning, size_t asked, size_t made, bool alone,
                           uint64_t took_ns);
/* Returns true if a failure can depend on the number of parts: OUT_OF_MEMORY and UNSUPPORTED (too
 * large for a kernel), and INVALID_ARGUMENT of a plan that was not made (an operation that cannot
 * be computed in parts). planned: the plan was made, and its run failed. */
bool tdm_micro_tuning_is_cause(tdm_status status, bool planned);
/* Gives up `asked` parts, if that number is being tried, because of such a failure. Returns true if
 * another number is to be tried at once; false if this was the last of all. NULL: false. */
bool tdm_micro_tuning_give_up(tdm_micro_tuning *tuning, size_t asked);

#endif
