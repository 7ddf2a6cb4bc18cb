/* `tandem doctor`: what would go wrong, or slowly, on this machine. */
#ifndef TOOLS_DOCTOR_DOCTOR_H
#define TOOLS_DOCTOR_DOCTOR_H

/* Arguments behind the command's name; answers the exit status: 1 where a program could not work.
 */
int doctor_command(int argc, char **argv);

#endif
