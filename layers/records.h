/* All operations of the library: layers', optimizers' and passes'. Invariant: every kernel that a
 * kind registers is of one of them (tests/layers/records_test.c). */
#ifndef TANDEM_LAYERS_RECORDS_H
#define TANDEM_LAYERS_RECORDS_H

#include "graph/ir/records.h"

/* The lists of all sources, each ended by a record without an operation; NULL behind the last. */
extern const tdm_record *const tdm_all_records[];

#endif
