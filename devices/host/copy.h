/* Copies inside host memory. */
#ifndef TANDEM_DEVICES_HOST_COPY_H
#define TANDEM_DEVICES_HOST_COPY_H

#include <stddef.h>

/* Returns the size from which a copy's source and destination do not both fit in a last-level cache
 * of cache_bytes (0: unknown), so that bypassing the caches pays off. */
size_t tdm_copy_large_bytes(size_t cache_bytes);

/* Like memmove. From large_bytes on, copies without overlap use stores that bypass the caches,
 * which avoids reading the written lines first. */
void tdm_copy_host(void *to, const void *from, size_t bytes, size_t large_bytes);

#endif
