/* The libraries that Tandem is linked with, and those that it opens if they exist. */
#ifndef TOOLS_DEVICES_LIBRARIES_H
#define TOOLS_DEVICES_LIBRARIES_H

#include <stdbool.h>

typedef struct library {
  const char *name;
  const char *use; /* purpose of the library */
  bool found;
  const char *detail; /* version or location of the library; if it was not found, the reason */
} library;

/* Calls the function for each. Some libraries are opened to check that they exist. */
void libraries_each(void (*tell)(void *user, const library *one), void *user);

#endif
