/* See environment.h. */
#include "tools/doctor/environment.h"

#include <stdio.h>
#include <string.h>

#include "core/choices.h"

extern char **environ;

static const char prefix[] = "TANDEM_";
enum { NAME_BYTES = 64, MOST_EDITS = 3 };

static const char *const known_names[] = {
    "TANDEM_CACHE",
    "TANDEM_CPU_DEVICES",
    "TANDEM_CPU_ISA",
    "TANDEM_CUDA_LOGICAL",
    "TANDEM_CUDA_PATH",
    "TANDEM_DEVICES",
    "TANDEM_LINKS",
    "TANDEM_NCCL",
    "TANDEM_NET",
    "TANDEM_NET_INTERFACE",
    "TANDEM_NET_PATH",
    "TANDEM_NET_SILENCE_SECONDS",
    "TANDEM_NET_STALL_SECONDS",
    "TANDEM_PLACE",
    "TANDEM_RED_ZONES",
    "TANDEM_SIM",
    "TANDEM_STAGING_BYTES",
    "TANDEM_TF32",
};
enum { KNOWN_NAMES = sizeof known_names / sizeof *known_names };

static const char *nearest(const char *name) {
  const char *best = NULL;
  size_t best_edits = MOST_EDITS + 1;
  for (size_t i = 0; i < KNOWN_NAMES; i++) {
    const size_t edits = tdm_edit_distance(name, known_names[i], MOST_EDITS);
    if (edits >= best_edits) continue;
    best = known_names[i];
    best_edits = edits;
  }
  return best;
}

void environment_each(void (*tell)(void *user, const char *name, const char *value, int known,
                                   const char *meant),
                      void *user) {
  for (char **entry = environ; *entry; entry++) {
    const char *equals = strchr(*entry, '=');
    if (!equals || strncmp(*entry, prefix, sizeof prefix - 1) != 0) continue;
    char name[NAME_BYTES];
    (void)snprintf(name, sizeof name, "%.*s", (int)(equals - *entry), *entry);
    const char *meant = nearest(name);
    const int known = meant && strcmp(meant, name) == 0;
    tell(user, name, equals + 1, known, meant);
  }
}
