/* For each struct of options of the public headers, a function that uses it once and reports the
 * result. */
#ifndef TANDEM_TESTS_PUBLIC_OPTION_PROBES_H
#define TANDEM_TESTS_PUBLIC_OPTION_PROBES_H

#include "tandem/tandem.h"

enum { PROBE_NUMBERS = 24 };

/* The result of using options. */
typedef struct probe_result {
  bool refused;
  char message[512]; /* message of the refused call */
  double numbers[PROBE_NUMBERS];
  size_t count;
} probe_result;

/* options: of the probe's struct. field: the one that the test is about, which a probe may prepare
 * for; "" where it is about none. */
typedef struct option_probe {
  const char *name; /* tdm_NAME_options */
  void (*run)(const void *options, const char *field, probe_result *result);
} option_probe;

extern const option_probe option_probes[];
extern const size_t option_probe_count;

#endif
