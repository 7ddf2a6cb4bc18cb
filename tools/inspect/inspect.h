/* `tandem inspect FILE`: the tensors of a safetensors file. */
#ifndef TOOLS_INSPECT_INSPECT_H
#define TOOLS_INSPECT_INSPECT_H

/* Arguments behind the command's name; answers the exit status. */
int inspect_command(int argc, char **argv);

#endif
