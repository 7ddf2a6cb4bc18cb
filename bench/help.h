/* The option --help of benchmarks. */
#ifndef BENCH_HELP_H
#define BENCH_HELP_H

/* Prints text and ends the program if --help is among the arguments. */
void bench_help(int argc, char **argv, const char *text);

#endif
