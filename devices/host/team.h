/* A device's threads that share a kernel's work: an OpenMP team that is created once. Invariant:
 * one thread at a time (the device's worker) opens the team's regions. Their size is constant as
 * long as all threads arrive in time, so that the runtime keeps the same bound threads. How work is
 * divided never affects a result.
 *
 * The threads are bound to the device's cores together, not each to one. So a busy thread of the
 * program does not block a thread of the team. If it does, and the team is slower than with one
 * thread fewer, the team drops one thread for a while. */
#ifndef TANDEM_DEVICES_HOST_TEAM_H
#define TANDEM_DEVICES_HOST_TEAM_H

#include "devices/topology/topology.h"
#include "tandem/devices/devices.h"

/* Creates a team. topology and range are borrowed; both may be NULL, and threads are then not
 * bound. size is at least 1. The threads start with the first region. */
tdm_status tdm_team_create(const tdm_allocator *allocator, const tdm_topology *topology,
                           const tdm_core_range *range, size_t size,
                           tdm_team **out_team) TDM_WARN_UNUSED;
void tdm_team_destroy(tdm_team *team);
/* Fails with UNAVAILABLE if OpenMP would give the threads of device's team less stack than kernels
 * need, because of OMP_STACKSIZE, else GOMP_STACKSIZE, else the process's default for threads. */
tdm_status tdm_team_check_stacks(const char *device) TDM_WARN_UNUSED;
/* Returns how many threads the next region would have. Call it on the opening thread. */
size_t tdm_team_active(const tdm_team *team);

/* For a thread that executes kernels: keeps libraries that it calls from opening parallel regions.
 * leave restores what enter returns. */
int tdm_team_serial_enter(void);
void tdm_team_serial_leave(int saved);

#endif
