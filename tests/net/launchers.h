/* The launchers of the MPIs that are here, for tests whose ranks are processes. Arguments of such a
 * test are the programs of ranks and the plug-ins that were built. One thread. */
#ifndef TANDEM_TESTS_NET_LAUNCHERS_H
#define TANDEM_TESTS_NET_LAUNCHERS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct launcher {
  const char *plugin;
  const char *own_program; /* program that initialises this MPI itself */
  const char *launcher;
  const char *command; /* what begins a command line, without the number of ranks */
  const char *version;
  const char *recovery; /* lets ranks continue when one dies */
} launcher;

/* Ranks of one machine with fewer cores than ranks; as root, as in containers. Memory that
 * processes share is all they need. */
extern const launcher openmpi;
extern const launcher mpich;

/* The test's arguments; paths that are relative become absolute. Jobs have a folder of their own
 * for temporary files, which goes with the process. */
void launchers_use(int count, char **arguments);
/* Returns the argument that ends in /name, or NULL if it was not built. */
const char *find_file(const char *name);
/* Skips the test with a message if the MPI is not installed. */
void require(const launcher *of);

/* Standard output of the last command, with standard error if the command requests it. */
extern char output[200000];
/* Its status, as system's. */
int run_command(const char *command);
/* Runs the program on this many ranks. Stores its standard output and error in output. */
int launch(const launcher *of, const char *options, int ranks, const char *program,
           const char *argument);

/* Expects that output contains part this many times. */
void expect(const char *part, size_t times);
/* The status is that of success, or is not. */
void expect_end(int status, bool good);

#endif
