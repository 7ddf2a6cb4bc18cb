/* A device's threads that share a kernel's work: an OpenMP team that is created once. Invariant:
 * one thread at a time (the device's worker) opens the team's regions, of the same size as long as
 * all threads come in time, so that the runtime keeps the same bound threads. They are bound to the
 * device's cores together, not each to one: a thread of the program's that is busy on a core then
 * does not hold one up. Where it does, and the team is slower than with one thread fewer, it
 * shrinks by one for a while; how work is cut never decides a result. */
#ifndef TANDEM_DEVICES_HOST_TEAM_H
#define TANDEM_DEVICES_HOST_TEAM_H

#include "devices/topology/topology.h"
#include "tandem/devices/devices.h"

/* topology and range are borrowed and may both be NULL (then threads are not bound). size is at
 * least 1; the threads start with the first region. */
tdm_status tdm_team_create(const tdm_allocator *allocator, const tdm_topology *topology,
                           const tdm_core_range *range, size_t size,
                           tdm_team **out_team) TDM_WARN_UNUSED;
void tdm_team_destroy(tdm_team *team);
/* Fails with UNAVAILABLE if OpenMP would give the threads of device's team less stack than kernels
 * need: by OMP_STACKSIZE, else GOMP_STACKSIZE, else the process's default for threads. */
tdm_status tdm_team_check_stacks(const char *device) TDM_WARN_UNUSED;
/* How many threads the next region would have; of the opening thread. */
size_t tdm_team_active(const tdm_team *team);

/* For a thread that executes kernels: libraries called there open no region of their own. enter
 * answers what leave restores. */
int tdm_team_serial_enter(void);
void tdm_team_serial_leave(int saved);

#endif
