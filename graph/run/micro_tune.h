/* Chooses the number of micro-batches by measuring: the times of runs of one shape with one, two,
 * four, ... parts. Every candidate is a normal run, so no computation is wasted.
 *
 * A number of parts is abandoned, and the next one is tried, if a failure depends on the number:
 * the parts cannot be planned, or are too large for memory or for a kernel. Other failures (an id
 * out of range, a loss that is not finite, a lost device) do not count. While no number has worked,
 * all are tried again, because memory may be free by then. Invariant: everything is guarded by the
 * session's lock. A final choice has worked, and never changes. */
#ifndef TANDEM_GRAPH_RUN_MICRO_TUNE_H
#define TANDEM_GRAPH_RUN_MICRO_TUNE_H

#include "core/allocate.h"
#include "core/status.h"

enum { TDM_MICRO_NUMBERS = 5 }; /* number of candidates: 1, 2, 4, 8, 16 parts */

/* Shared by all runs with the same request (of one plan, except for the number of parts). */
typedef struct tdm_micro_tuning {
  struct tdm_micro_tuning *next;
  uint64_t *words; /* (word_count) the request */
  size_t word_count;
  bool decided;
  unsigned candidate; /* exponent of 2 that is measured now */
  unsigned best;
  unsigned misses;   /* candidates in a row without improvement */
  unsigned runs;     /* measured runs of the candidate */
  uint64_t least_ns; /* minimum of these runs */
  uint64_t best_ns;  /* least_ns of the best candidate so far; 0: none has worked yet */
} tdm_micro_tuning;

typedef struct tdm_micro_tuner {
  tdm_micro_tuning *first;
  size_t count;
} tdm_micro_tuner;

/* Finds the tuning of requests with these words, and creates it in region if it is new. *out_tuning
 * is NULL if there are too many: nothing is cut then. */
tdm_status tdm_micro_tuner_find(tdm_micro_tuner *tuner, tdm_region *region, const uint64_t *words,
                                size_t word_count, tdm_micro_tuning **out_tuning) TDM_WARN_UNUSED;
/* Returns the number of parts of the next run; 1 for NULL. */
size_t tdm_micro_tuning_count(const tdm_micro_tuning *tuning);
/* Records the time of a run that was to be cut into `asked` parts, and was cut into `made`. `alone`
 * means that its plan has one queue, on which nothing can overlap. NULL is legal. */
void tdm_micro_tuning_note(tdm_micro_tuning *tuning, size_t asked, size_t made, bool alone,
                           uint64_t took_ns);
/* Returns true if a failure can depend on the number of parts. These are OUT_OF_MEMORY and
 * UNSUPPORTED (too large for a kernel), and INVALID_ARGUMENT while planning (an operation that
 * cannot be computed in parts). If `planned`, the plan was created, and its run failed. */
bool tdm_micro_tuning_is_cause(tdm_status status, bool planned);
/* Abandons `asked` parts, if that number is being tried, because of such a failure. Returns true if
 * another number should be tried at once; false if this was the last one. NULL: false. */
bool tdm_micro_tuning_give_up(tdm_micro_tuning *tuning, size_t asked);

#endif
