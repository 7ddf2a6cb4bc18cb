/* The kernels of one instruction set and one precision (TDM_REAL_BITS; none: those that serve
 * several dtypes), under the name TDM_TABLE; this file is compiled once for each. TDM_SOURCES(X)
 * does X(name) of every source that has kernels. */
#include "devices/kernels/cpu/sources.h" /* made by variants.bzl */
#include "devices/kernels/cpu/tables.h"

#define DECLARED(name) extern const tdm_kernel_list tdm_cpu_##name;
#define LISTED(name) &tdm_cpu_##name,

TDM_SOURCES(DECLARED)

extern const tdm_kernel_list *const TDM_TABLE[];
const tdm_kernel_list *const TDM_TABLE[] = {TDM_SOURCES(LISTED) NULL};
