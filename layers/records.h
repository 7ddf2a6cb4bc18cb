/* All operations of the library: those of layers, optimizers and passes. Invariant: each kernel
 * that a kind of device registers belongs to one of them (tests/layers/records_test.c). */
#ifndef TANDEM_LAYERS_RECORDS_H
#define TANDEM_LAYERS_RECORDS_H

#include "graph/ir/records.h"

/* The lists of all source files, terminated by NULL. Each list ends with a record without an
 * operation. */
extern const tdm_record *const tdm_all_records[];

#endif
