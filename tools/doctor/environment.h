/* The environment variables that the library reads (docs/environment.md has the same). */
#ifndef TOOLS_DOCTOR_ENVIRONMENT_H
#define TOOLS_DOCTOR_ENVIRONMENT_H

#include <stddef.h>

/* Calls the function for every variable that is set and begins with TANDEM_. known: the library
 * reads it; otherwise meant is the variable that was probably meant, or NULL. */
void environment_each(void (*tell)(void *user, const char *name, const char *value, int known,
                                   const char *meant),
                      void *user);

#endif
