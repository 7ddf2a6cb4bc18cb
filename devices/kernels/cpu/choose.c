/* Selects the tables of kernels for this processor, or for the name in the environment. Invariant:
 * a table is only returned if this machine can execute all of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "devices/kernels/cpu/kernels.h"
#include "devices/kernels/cpu/tables.h"

#define COUNTED(instruction_set, precision) +1
#define TABLES (0 TDM_CPU_TABLES(COUNTED, any))

typedef struct instruction_set {
  const char *name;
  bool (*supported)(void);
  const tdm_kernel_list *const *tables[TABLES];
} instruction_set;

static bool always(void) {
  return true;
}

#if defined(TDM_WITH_AVX2) || defined(TDM_WITH_AVX512)
static bool has_avx2(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

#if defined(TDM_WITH_AVX512)
static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

#define LISTED(instruction_set, precision) tdm_cpu_##instruction_set##_##precision,
#define INSTRUCTION_SET(name, supported) {#name, supported, {TDM_CPU_TABLES(LISTED, name)}},

/* The instruction sets of the build, best first. */
static const instruction_set instruction_sets[] = {
#if defined(TDM_WITH_AVX512)
    INSTRUCTION_SET(avx512, has_avx512)
#endif
#if defined(TDM_WITH_AVX2)
        INSTRUCTION_SET(avx2, has_avx2)
#endif
            INSTRUCTION_SET(baseline, always)};

static const instruction_set *find(const char *isa) {
  for (size_t i = 0; i < TDM_COUNT_OF(instruction_sets); i++) {
    const instruction_set *set = &instruction_sets[i];
    if (isa && strcmp(isa, set->name) != 0) continue;
    if (set->supported()) return set;
    if (isa) {
      (void)tdm_fail(TDM_UNAVAILABLE, "TANDEM_CPU_ISA=%s: this processor does not have it", isa);
      return NULL;
    }
  }
  char names[64];
  size_t length = 0;
  for (size_t i = TDM_COUNT_OF(instruction_sets); i-- > 0;)
    length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                               length > 0 ? ", " : "", instruction_sets[i].name);
  (void)tdm_fail(TDM_UNAVAILABLE, "TANDEM_CPU_ISA=%s: not an instruction set of this build (%s)",
                 isa ? isa : "", names);
  return NULL;
}

tdm_status tdm_cpu_each_kernel_of(const char *isa, tdm_kernel_visitor visit, void *user) {
  const instruction_set *set = find(isa);
  if (!set) return TDM_UNAVAILABLE;
  for (size_t i = 0; i < TABLES; i++)
    TDM_TRY(tdm_kernel_lists_each(set->tables[i], visit, user));
  return TDM_OK;
}

/* Returns the instruction set that the environment requests, or NULL for the best one. */
static const char *asked_for(void) {
  const char *isa = getenv("TANDEM_CPU_ISA");
  return isa && isa[0] != '\0' ? isa : NULL;
}

tdm_status tdm_cpu_each_kernel(tdm_kernel_visitor visit, void *user) {
  return tdm_cpu_each_kernel_of(asked_for(), visit, user);
}

const char *tdm_cpu_instructions(void) {
  const instruction_set *set = find(asked_for());
  return set ? set->name : "none";
}
