/* Writing results: tables for a reader, JSON, CSV and a plot. Invariant: none of them judges; a
 * result with a problem appears in each, the plot apart, with its problem. */
#ifndef BENCH_TRANSFER_REPORT_H
#define BENCH_TRANSFER_REPORT_H

#include <stdio.h>

#include "bench/transfer/results.h"
#include "devices/context/context.h"

/* What was measured on. */
typedef struct machine {
  char processor[128];
  char devices[256]; /* "cpu:0 cpu:1 cuda:0" */
  char gpu[128];     /* name of the first; "": none, or no CUDA in this build */
  int processing_units;
  char utc[32]; /* when */
} machine;

void machine_describe(const tdm_context *context, machine *out_machine);
void text_machine(FILE *out, const machine *told);

/* The results from `first` on, which are of one case and memory: a matrix from row to column at the
 * largest size measured, then all sizes. title says what the case is. */
void text_case(FILE *out, const results *list, size_t first, const char *title);
/* A line for each link: latency and bandwidth as fitted. */
void text_fits(FILE *out, const results *list);
/* For each size that both have: ours against the plain loop of the driver's copies. */
void text_against_plain(FILE *out, const results *list);

/* path "-": standard output. Files are written whole or not at all. */
tdm_status json_write(const char *path, const machine *told, const results *list) TDM_WARN_UNUSED;
tdm_status csv_write(const char *path, const results *list) TDM_WARN_UNUSED;
/* Is there a gnuplot to draw with? UNAVAILABLE, saying how to get it. */
tdm_status plot_check(void) TDM_WARN_UNUSED;
/* path ends in .svg or .png. */
tdm_status plot_write(const char *path, const machine *told, const results *list) TDM_WARN_UNUSED;

/* A file that gets its name only when it is complete. */
typedef struct output_file {
  FILE *stream;
  const char *path; /* "-": standard output */
  char unfinished[4096];
} output_file;
tdm_status output_open(const char *path, output_file *out_file) TDM_WARN_UNUSED;
/* Closes it; written says whether what was to be written is there. */
tdm_status output_close(output_file *file, bool written) TDM_WARN_UNUSED;
/* Can path be written (later, in one go)? Found out early, without touching what is there. */
tdm_status output_check(const char *option, const char *path) TDM_WARN_UNUSED;

#endif
