/* The context's links: an estimate for every pair of devices with a direct route. If one of the two
 * is the host, there is one for pinned and one for pageable memory. Invariant: links that were not
 * calibrated are modelled by the devices. Calibrating or loading replaces all estimates that it
 * contains at once, or none. */
#ifndef TANDEM_DEVICES_LINKS_TABLE_H
#define TANDEM_DEVICES_LINKS_TABLE_H

#include "devices/links/links.h"

typedef struct tdm_links tdm_links;

/* Creates modelled links and reads the machine's file, if there is a valid one. A rank of a job
 * reads no file. out_links is where tdm_context_links finds them. */
tdm_status tdm_links_open(tdm_context *context, tdm_links **out_links) TDM_WARN_UNUSED;
/* Reads the file again for open links after the cores were divided anew, which counts as a
 * different machine. Does nothing in a job. If memory is short, the links are modelled and the log
 * reports it. */
void tdm_links_read_again(tdm_links *links);
/* Creates links that are all modelled. */
tdm_status tdm_links_create(tdm_context *context, tdm_links **out_links) TDM_WARN_UNUSED;
void tdm_links_destroy(tdm_links *links); /* NULL is legal */
tdm_context *tdm_links_context(const tdm_links *links);
void tdm_links_forget(tdm_links *links); /* makes all modelled again */

/* Returns a link's place, for links that no other thread uses. Returns NULL if there is no such
 * link: no direct route, or pinned memory if both devices or neither are the host. Between two
 * ranks there is one link, between their hosts. */
tdm_link_estimate *tdm_links_at(tdm_links *links, const tdm_device *from, const tdm_device *to,
                                bool pinned);
/* Returns the place of an all-reduce over the ranks of a job; modelled: not measured. */
tdm_link_estimate *tdm_links_all_reduce(tdm_links *links);
/* Copies all calibrated links of `measured` in one step. Any thread. */
void tdm_links_adopt(tdm_links *links, const tdm_links *measured);

/* Copies along every link, through the devices' queues, and fits the times. Starts the devices.
 * Other work in flight disturbs it. If the driver refuses to pin, pinned links stay modelled. On
 * failure nothing changes.
 * most_bytes: largest size, at least 2 KiB, and the most memory that is touched between copies. 0:
 * 64 MiB. */
tdm_status tdm_links_calibrate(tdm_context *context, size_t most_bytes) TDM_WARN_UNUSED;

/* ---- Between the ranks of a job -------------------------------------------------------------- */

/* All ranks call each of these, and have the same links afterwards. Links within a rank, which
 * other ranks do not have, stay modelled. */

/* Calibrates links between ranks: sends messages as round trips and in trains, one pair of machines
 * after the other, through the queues of plans, and sums over all ranks by the engine. Ranks whose
 * machines have the same names share results. Messages have 1 KiB to most_bytes (at least 4 KiB; 0:
 * 16 MiB), or less if such a message would take long. Starts the devices. On failure nothing
 * changes on any rank. */
tdm_status tdm_links_calibrate_ranks(tdm_context *context, size_t most_bytes) TDM_WARN_UNUSED;
/* Called once, when the context is created: rank 0 reads the job's file, if there is one, and sends
 * it. */
tdm_status tdm_links_join(tdm_context *context) TDM_WARN_UNUSED;
/* Sends rank 0's links to all ranks if they are calibrated. read: the status of how rank 0 got
 * them; a failure is returned on all ranks. */
tdm_status tdm_links_send(tdm_context *context, tdm_status read) TDM_WARN_UNUSED;

/* ---- The cache file -------------------------------------------------------------------------- */

/* Returns a hash of this machine with these devices: its cores, caches, nodes, the devices' names,
 * identities and places. In a job it includes the ranks' machines and the transport. Times measured
 * under another key are not used here. */
uint64_t tdm_links_key(tdm_context *context);
/* Gets the path of the file: TANDEM_LINKS, or else a name composed from the key in $TANDEM_CACHE,
 * $XDG_CACHE_HOME/tandem or ~/.cache/tandem. Fails with UNAVAILABLE if none of them is set, or
 * TANDEM_LINKS is "off". */
tdm_status tdm_links_path(tdm_context *context, char *path, size_t capacity) TDM_WARN_UNUSED;
/* Writes calibrated links to another name in the same folder, then renames it. With make_folder it
 * creates a missing folder. */
tdm_status tdm_links_save(tdm_context *context, const char *path, bool make_folder) TDM_WARN_UNUSED;
/* Loads the links of a file. Fails with UNAVAILABLE if there is no file or it is of another
 * machine, CORRUPT_DATA if it is not a valid file of links, and IO if it cannot be read or is not a
 * regular file. On failure nothing changes. */
tdm_status tdm_links_load(tdm_context *context, const char *path) TDM_WARN_UNUSED;

#endif
