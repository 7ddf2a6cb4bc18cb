/* The libraries that Tandem stands on, and those that it opens where they are there. */
#ifndef TOOLS_DEVICES_LIBRARIES_H
#define TOOLS_DEVICES_LIBRARIES_H

#include <stdbool.h>

typedef struct library {
  const char *name;
  const char *use; /* what for */
  bool found;
  const char *detail; /* its version or where it is; else why it is not there */
} library;

/* Calls tell for each. Some are opened, to see whether they are there, and not called. */
void libraries_each(void (*tell)(void *user, const library *one), void *user);

#endif
