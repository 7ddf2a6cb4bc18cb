/* `tandem doctor`: what would go wrong, or slowly, on this machine. Exit status 1: a program could
 * not work. */
#ifndef TOOLS_DOCTOR_DOCTOR_H
#define TOOLS_DOCTOR_DOCTOR_H

#include "tools/tool.h"

extern const tool doctor_tool;

#endif
