/* `tandem launch`: starts a program as a job of several ranks, with the MPI that is there. */
#ifndef TOOLS_LAUNCH_LAUNCH_H
#define TOOLS_LAUNCH_LAUNCH_H

/* Arguments after the command's name. Becomes the launcher, whose exit status is then the
 * process's; answers one where there is nothing to become. */
int launch_command(int argc, char **argv);

#endif
