/* Reading the options that callers pass. Invariant: one function recognizes structs that their
 * initializer did not make, and completes those of earlier headers. */
#ifndef TANDEM_CORE_OPTIONS_H
#define TANDEM_CORE_OPTIONS_H

#include "tandem/core/core.h"

/* Copies options (may be NULL) over *defaults, a struct of `bytes` made by the same initializer;
 * fields that an earlier, smaller struct lacks keep their defaults, and defaults->struct_size
 * stays. INVALID_ARGUMENT, beginning with `where`, if the initializer did not make options, or if
 * they are larger than the library's. `where`: the function, or the layer and its name. */
tdm_status tdm_options_read(const char *where, const char *initializer, const void *options,
                            size_t bytes, void *defaults) TDM_WARN_UNUSED;

/* tdm_options_read for a tdm_KIND_options variable *out_options, which it fills with defaults. */
#define TDM_OPTIONS_READ(where, kind, options, out_options)                                        \
  (*(out_options) = tdm_##kind##_options_default(),                                                \
   tdm_options_read(where, "tdm_" #kind "_options_default()", TDM_OPTIONS_OF(kind, options),       \
                    sizeof *(out_options), out_options))
/* options, whose type the compiler checks. */
#define TDM_OPTIONS_OF(kind, options) (1 ? (options) : (const tdm_##kind##_options *)NULL)

#endif
