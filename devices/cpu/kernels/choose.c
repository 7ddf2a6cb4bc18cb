/* Chooses the table of kernels for the processor at hand, or for the name the environment gives.
 * Invariant: a table is only handed out if this machine can execute all of it. */
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "devices/cpu/kernels.h"
#include "devices/cpu/kernels/tables.h"

typedef struct instruction_set {
  const char *name;
  const tdm_cpu_table *table;
  bool (*supported)(void);
} instruction_set;

static bool always(void) {
  return true;
}

#if defined(__x86_64__)
static bool has_avx2(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

/* Best first. */
static const instruction_set instruction_sets[] = {
#if defined(__x86_64__)
    {"avx512", &tdm_cpu_table_of_avx512, has_avx512},
    {"avx2", &tdm_cpu_table_of_avx2, has_avx2},
#endif
    {"baseline", &tdm_cpu_table_of_baseline, always},
};

const tdm_kernel *tdm_cpu_kernels_for(const char *isa, size_t *out_count) {
  *out_count = 0;
  for (size_t i = 0; i < TDM_COUNT_OF(instruction_sets); i++) {
    const instruction_set *set = &instruction_sets[i];
    if (isa != NULL && strcmp(isa, set->name) != 0) continue;
    if (set->supported()) {
      *out_count = set->table->count;
      return set->table->kernels;
    }
    if (isa != NULL) {
      (void)tdm_fail(TDM_UNAVAILABLE, "TANDEM_CPU_ISA=%s: this processor does not have it", isa);
      return NULL;
    }
  }
  (void)tdm_fail(TDM_INVALID_ARGUMENT,
                 "TANDEM_CPU_ISA=%s: not an instruction set of this build (baseline, avx2, avx512)",
                 isa != NULL ? isa : "");
  return NULL;
}

const tdm_kernel *tdm_cpu_kernels(size_t *out_count) {
  const char *isa = getenv("TANDEM_CPU_ISA");
  return tdm_cpu_kernels_for(isa != NULL && isa[0] != '\0' ? isa : NULL, out_count);
}
