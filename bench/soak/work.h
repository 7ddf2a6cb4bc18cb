/* The jobs that the soak test repeats and counts. A job ends with nothing in flight, so between
 * jobs the process has only its permanent resources. */
#ifndef BENCH_SOAK_WORK_H
#define BENCH_SOAK_WORK_H

#include <stdint.h>

#include "tandem/tandem.h"

typedef struct soak_counts {
  _Atomic uint64_t trained;  /* steps */
  _Atomic uint64_t inferred; /* runs */
  _Atomic uint64_t stopped;  /* runs that were cancelled, or past their deadlines */
  _Atomic uint64_t saved;    /* lists and files */
  _Atomic uint64_t contexts; /* created and released */
} soak_counts;

typedef struct soak {
  tdm_context *context;
  tdm_session *trainer;
  tdm_session *reader; /* session with another placement on the trainer's store */
  char path[256];      /* path of a checkpoint that is rewritten */
  soak_counts counts;
} soak;

void soak_open(soak *it);
void soak_close(soak *it);

/* Each ends the program with the library's message if something fails. round: how many jobs of the
 * kind have been before; what shapes a job has depends on it. */
void soak_train(soak *it, uint64_t round);
void soak_infer(soak *it, uint64_t round);
void soak_stop(soak *it, uint64_t round);
void soak_save(soak *it, uint64_t round);
void soak_make_context(soak *it, uint64_t round);

#endif
