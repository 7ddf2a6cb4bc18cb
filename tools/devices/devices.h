/* `tandem devices`: what is here to compute with, and what copies between it cost. */
#ifndef TOOLS_DEVICES_DEVICES_H
#define TOOLS_DEVICES_DEVICES_H

/* Arguments behind the command's name; answers the exit status. */
int devices_command(int argc, char **argv);

#endif
