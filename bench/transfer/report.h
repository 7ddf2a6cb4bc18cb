/* Writing results: tables, JSON, CSV and a plot. Invariant: no format omits a result with a
 * problem, except the plot; the others show the problem. */
#ifndef BENCH_TRANSFER_REPORT_H
#define BENCH_TRANSFER_REPORT_H

#include <stdio.h>

#include "bench/transfer/options.h"
#include "bench/transfer/results.h"
#include "devices/context/context.h"

/* The machine of a measurement. */
typedef struct machine {
  char processor[128];
  char devices[256]; /* "cpu:0 cpu:1 cuda:0" */
  char gpu[128];     /* name of the first; "": none, or no CUDA in this build */
  int processing_units;
  char utc[32]; /* time of the measurement */
} machine;

void machine_describe(tdm_context *context, machine *out_machine);
void text_machine(FILE *out, const machine *told);

/* The results from `first` on, which are of one case and memory: a matrix from row to column at the
 * largest size measured, then all sizes. title names the case, place its progress. */
void text_case(FILE *out, const results *list, size_t first, const char *title, const char *place);
/* Prints a line for each link: the fitted latency and bandwidth. */
void text_fits(FILE *out, const results *list);
/* For each size that both have: ours against the plain loop of the driver's copies. */
void text_against_plain(FILE *out, const results *list);

/* JSON to a stream; is_complete: nothing is left to measure. */
tdm_status json_print(FILE *out, const machine *told, const results *list,
                      bool is_complete) TDM_WARN_UNUSED;
/* Writes the options' files, each whole or not at all. */
tdm_status files_write(const transfer_options *given, const machine *told, const results *list,
                       bool is_complete) TDM_WARN_UNUSED;
/* path ends in .svg or .png. */
tdm_status plot_write(const char *path, const machine *told, const results *list) TDM_WARN_UNUSED;

#endif
