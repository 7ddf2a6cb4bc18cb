/* Loads JSON from outside the process: costs, links, machine descriptions. Only this file calls
 * jansson's parser, whose hash tables are keyed by the system's random numbers. */
#ifndef TANDEM_CORE_JSON_LOAD_H
#define TANDEM_CORE_JSON_LOAD_H

#include <jansson.h>

#include "core/allocate.h"

/* Parses JSON text; the caller calls json_decref. Fails with CORRUPT_DATA, "source:line: is no
 * JSON: ...", also for an object with a duplicate key. Numbers are read with a decimal point in any
 * locale. */
tdm_status tdm_json_load(const char *text, size_t bytes, const char *source,
                         json_t **out_root) TDM_WARN_UNUSED;
/* Like tdm_json_load, for a regular file of at most limit_bytes. Messages begin with `what`
 * ("costs"). Fails with UNAVAILABLE if there is no such file, and with IO if it cannot be read or
 * is not a regular file. */
tdm_status tdm_json_load_file(const tdm_allocator *allocator, const char *what, const char *path,
                              size_t limit_bytes, json_t **out_root) TDM_WARN_UNUSED;

#endif
