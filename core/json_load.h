/* JSON from outside: costs, links, machine descriptions. The one place that calls jansson's
 * parser, whose tables are keyed by the system's random numbers. */
#ifndef TANDEM_CORE_JSON_LOAD_H
#define TANDEM_CORE_JSON_LOAD_H

#include <jansson.h>

#include "core/allocate.h"

/* CORRUPT_DATA, "source:line: is no JSON: ..."; objects with a key twice are none. Numbers are read
 * with a point in any locale. The caller calls json_decref. */
tdm_status tdm_json_load(const char *text, size_t bytes, const char *source,
                         json_t **out_root) TDM_WARN_UNUSED;
/* The same of a regular file of at most limit_bytes; what is how messages begin ("costs").
 * UNAVAILABLE: there is none; IO: it cannot be read, or is no file. */
tdm_status tdm_json_load_file(const tdm_allocator *allocator, const char *what, const char *path,
                              size_t limit_bytes, json_t **out_root) TDM_WARN_UNUSED;

#endif
