/* Copies inside host memory. */
#ifndef TANDEM_DEVICES_HOST_COPY_H
#define TANDEM_DEVICES_HOST_COPY_H

#include <stddef.h>

/* From how many bytes on a copy's two sides do not both stay in a last cache of cache_bytes (0:
 * unknown), and are worth being stored past the caches. */
size_t tdm_copy_large_bytes(size_t cache_bytes);

/* As memmove. From large_bytes on, sides that do not overlap are copied by stores that go past the
 * caches, which spares the lines written from being read first. */
void tdm_copy_host(void *to, const void *from, size_t bytes, size_t large_bytes);

#endif
