/* Reads the options that callers pass. Invariant: one function recognizes structs that their
 * initializer did not create, and completes those of earlier headers. */
#ifndef TANDEM_CORE_OPTIONS_H
#define TANDEM_CORE_OPTIONS_H

#include "tandem/core/core.h"

/* Copies options (may be NULL) over *defaults, a struct of `bytes` created by the same initializer.
 * Fields that an earlier, smaller struct lacks keep their defaults, and defaults->struct_size is
 * unchanged. Fails with INVALID_ARGUMENT, in a message that begins with `where`, if the initializer
 * did not create the options or if they are larger than the library's. `where` is the function, or
 * the layer and its name. */
tdm_status tdm_options_read(const char *where, const char *initializer, const void *options,
                            size_t bytes, void *defaults) TDM_WARN_UNUSED;

/* Calls tdm_options_read for a tdm_KIND_options variable *out_options, which it first fills with
 * the defaults. */
#define TDM_OPTIONS_READ(where, kind, options, out_options)                                        \
  (*(out_options) = tdm_##kind##_options_default(),                                                \
   tdm_options_read(where, "tdm_" #kind "_options_default()", TDM_OPTIONS_OF(kind, options),       \
                    sizeof *(out_options), out_options))
/* Evaluates to options, with the type checked by the compiler. */
#define TDM_OPTIONS_OF(kind, options) (1 ? (options) : (const tdm_##kind##_options *)NULL)

#endif
