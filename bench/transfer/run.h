/* Measuring copies case by case: tables and files as the figures come, and what is left. */
#ifndef BENCH_TRANSFER_RUN_H
#define BENCH_TRANSFER_RUN_H

#include "bench/transfer/plain.h"
#include "bench/transfer/report.h"

/* plain, here and below: other implementations of copies that are measured too; NULL ends them. */

/* Prints a line for each case. */
void transfer_list_cases(const plain_copies *const *plain, FILE *out);
/* Checks the cases that the options name. INVALID_ARGUMENT names one that does not exist. */
tdm_status transfer_check_cases(const transfer_options *given,
                                const plain_copies *const *plain) TDM_WARN_UNUSED;
/* Checks the devices that the options name, and the program that draws. */
tdm_status transfer_check(tdm_context *context, const transfer_options *given) TDM_WARN_UNUSED;
/* Where tables go: stdout, unless JSON does; *out_text is closed by transfer_close_text. */
tdm_status transfer_open_text(const transfer_options *given, FILE **out_text) TDM_WARN_UNUSED;
void transfer_close_text(FILE *text);

/* Measures all that the options, which are checked, ask for. Files of the options are written again
 * after each measurement, at most twenty times as seldom as that takes: a run that is killed leaves
 * what it had measured. UNAVAILABLE: there is nothing to measure. */
tdm_status transfer_run(tdm_context *context, const transfer_options *given,
                        const plain_copies *const *plain) TDM_WARN_UNUSED;

#endif
