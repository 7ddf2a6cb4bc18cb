/* The context's links: an estimate for every pair of devices with a direct route and, where one of
 * the two is the host, for pinned and pageable memory. Invariant: what was not calibrated is what
 * the devices' models say; calibrating or loading replaces all that it knows at once, or nothing.
 */
#ifndef TANDEM_DEVICES_LINKS_TABLE_H
#define TANDEM_DEVICES_LINKS_TABLE_H

#include "devices/links/links.h"

typedef struct tdm_links tdm_links;

/* All modelled; then the machine's file, if there is one and nothing in it is wrong, but for a rank
 * of a job. out_links is where tdm_context_links finds them. */
tdm_status tdm_links_open(tdm_context *context, tdm_links **out_links) TDM_WARN_UNUSED;
/* The same of links that are open, when the cores have been divided anew, which makes it another
 * machine; nothing in a job. Where memory is short the links are modelled, and the log tells. */
void tdm_links_read_again(tdm_links *links);
/* All modelled. */
tdm_status tdm_links_create(tdm_context *context, tdm_links **out_links) TDM_WARN_UNUSED;
void tdm_links_destroy(tdm_links *links); /* NULL is legal */
tdm_context *tdm_links_context(const tdm_links *links);
void tdm_links_forget(tdm_links *links); /* all modelled again */

/* Any thread. pinned counts where just one of the two is the host. */
void tdm_links_get(tdm_links *links, const tdm_device *from, const tdm_device *to, bool pinned,
                   tdm_link_estimate *out_estimate);
/* What an all-reduce over the ranks of a job takes; its origin tells whether it was measured. */
void tdm_links_get_all_reduce(tdm_links *links, tdm_link_estimate *out_estimate);

/* ---- A set of them, being made ------------------------------------------------------------- */

/* What one calibration or one file knows. */
typedef struct tdm_link_set {
  tdm_links *links;
  tdm_link_estimate *estimates; /* (from, to, pinned); those not known are modelled */
  tdm_link_estimate all_reduce; /* modelled: not known */
  size_t known_count;
} tdm_link_set;

tdm_status tdm_link_set_init(tdm_link_set *set, tdm_links *links) TDM_WARN_UNUSED;
void tdm_link_set_deinit(tdm_link_set *set);
/* The place of a link, to be read or written; NULL where there is no such link: no direct route, or
 * pinned memory between two devices that are both the host, or both not. */
tdm_link_estimate *tdm_link_set_at(tdm_link_set *set, const tdm_device *from, const tdm_device *to,
                                   bool pinned);
/* Makes the set's known links the context's. */
void tdm_link_set_publish(tdm_link_set *set);

/* ---- Calibrating --------------------------------------------------------------------------- */

typedef struct tdm_links_calibration {
  size_t least_bytes, most_bytes; /* doublings from the one to the other; 0: 1 KiB, 64 MiB */
  uint32_t copies;                /* of one size, 5 to 64; 0: 15 */
  uint64_t budget_ns;             /* a link; beyond it a size gets 5 copies. 0: 100 ms */
  /* Between two devices of the host: what is touched at most to drive a copy's sides out of the
   * caches; the last cache's size if that is less. 0: 64 MiB. */
  size_t most_touched_bytes;
} tdm_links_calibration;

/* Copies along every link, through the devices' queues, and fits what their times say. Starts the
 * devices; other work in flight disturbs it. Where the driver refuses to pin, pinned links stay
 * modelled. options NULL: all defaults. On failure nothing changes. */
tdm_status tdm_links_calibrate(tdm_context *context, const tdm_links_calibration *options,
                               size_t *out_known_count) TDM_WARN_UNUSED;

/* ---- Between the ranks of a job -------------------------------------------------------------- */

/* All ranks call each of these, and have the same links afterwards. Links within a rank, of which
 * others know nothing, stay modelled. */

/* Sends messages between ranks, to and fro and in trains, one pair of machines after the other,
 * through the queues that plans use, and has the engine sum over all of them; ranks whose machines
 * have the same names share what was measured. Messages have 1 KiB to most_bytes (0: 16 MiB, or
 * less where such a message would take long). Starts the devices. On failure nothing changes on any
 * rank. */
tdm_status tdm_links_calibrate_ranks(tdm_context *context, size_t most_bytes) TDM_WARN_UNUSED;
/* Once, when the context is made: rank 0 reads the job's file, if there is one, and tells. */
tdm_status tdm_links_join(tdm_context *context) TDM_WARN_UNUSED;
/* Makes what rank 0 has, if it has calibrated links, that of all. read: how rank 0 came by it; a
 * failure is that of all. */
tdm_status tdm_links_tell(tdm_context *context, tdm_status read) TDM_WARN_UNUSED;

/* ---- The cache file ------------------------------------------------------------------------ */

/* Names this machine with these devices: its cores, caches, nodes, the devices' names, what they
 * are and where; in a job also the ranks' machines, and what connects them. Times measured under
 * another key are not told here. */
uint64_t tdm_links_key(tdm_context *context);
/* Where the file is looked for: TANDEM_LINKS, else a name made of the key in $TANDEM_CACHE,
 * $XDG_CACHE_HOME/tandem or ~/.cache/tandem. UNAVAILABLE where none of them is set, or TANDEM_LINKS
 * is "off". */
tdm_status tdm_links_path(tdm_context *context, char *path, size_t capacity) TDM_WARN_UNUSED;
/* Writes what is calibrated to another name in the same folder, then renames it. Makes the folder
 * (make_folder) where it is missing. */
tdm_status tdm_links_save(tdm_context *context, const char *path, bool make_folder) TDM_WARN_UNUSED;
/* UNAVAILABLE: there is no file, or it is of another machine. CORRUPT_DATA: it is not one of ours,
 * or says what cannot be. IO: it cannot be read, or is no regular file. On failure nothing changes.
 */
tdm_status tdm_links_load(tdm_context *context, const char *path) TDM_WARN_UNUSED;
/* Whether that is a file of links under that key, of any machine's. */
bool tdm_links_file_has_key(tdm_context *context, const char *path, uint64_t key);

#endif
