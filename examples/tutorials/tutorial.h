/* The tutorials' programs end at the first failure, as Python does by raising exceptions. */
#ifndef EXAMPLES_TUTORIALS_TUTORIAL_H
#define EXAMPLES_TUTORIALS_TUTORIAL_H

#include <stdio.h>
#include <stdlib.h>

#include <tandem/tandem.h>

/* Ends the program with the library's message unless done. */
static inline void check(bool done) {
  if (done) return;
  fprintf(stderr, "%s\n", tdm_last_message());
  exit(1);
}

#endif
