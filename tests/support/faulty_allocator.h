/* An allocator that fails on demand and counts outstanding allocations, for sweeps over
 * failures. */
#ifndef TANDEM_TESTS_SUPPORT_FAULTY_ALLOCATOR_H
#define TANDEM_TESTS_SUPPORT_FAULTY_ALLOCATOR_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An allocator on top of another one. It fails the Nth allocation (counted from 1),
 * either once or from there on, and counts outstanding memory. fail_at 0 disables failures. All
 * members are atomic inside. */
typedef struct tdm_faulty_allocator tdm_faulty_allocator;
tdm_faulty_allocator *tdm_faulty_allocator_create(void);
void tdm_faulty_allocator_destroy(tdm_faulty_allocator *faulty);
tdm_allocator tdm_faulty_allocator_view(tdm_faulty_allocator *faulty);
void tdm_faulty_allocator_arm(tdm_faulty_allocator *faulty, uint64_t fail_at, bool from_on);
uint64_t tdm_faulty_allocator_calls(const tdm_faulty_allocator *faulty);    /* since arm */
uint64_t tdm_faulty_allocator_failures(const tdm_faulty_allocator *faulty); /* since arm */
int64_t tdm_faulty_allocator_outstanding_bytes(const tdm_faulty_allocator *faulty);
/* Returns the largest number of outstanding bytes since arm. */
int64_t tdm_faulty_allocator_peak_bytes(const tdm_faulty_allocator *faulty);

#ifdef __cplusplus
}
#endif
#endif
