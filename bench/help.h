/* What a benchmark says of itself when it is asked to. */
#ifndef BENCH_HELP_H
#define BENCH_HELP_H

/* Where --help is among the arguments: prints text and ends the program. */
void bench_help(int argc, char **argv, const char *text);

#endif
