/* The libraries that Tandem is linked with, and those that it opens if they exist. */
#ifndef TOOLS_DEVICES_LIBRARIES_H
#define TOOLS_DEVICES_LIBRARIES_H

#include <stdbool.h>

typedef struct library {
  const char *name;
  const char *use; /* what for */
  bool found;
  const char *detail; /* its version or where it is; else why it is not there */
} library;

/* Calls the function for each. Some libraries are opened to check that they exist. */
void libraries_each(void (*tell)(void *user, const library *one), void *user);

#endif
