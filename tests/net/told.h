/* Ranks of a job write messages for a test into one file, since a launcher that ends them may drop
 * their output. */
#ifndef TANDEM_TESTS_NET_TOLD_H
#define TANDEM_TESTS_NET_TOLD_H

/* Appends a line, in one write. False where the file cannot be written. */
_Bool told_add(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Waits until the file has this many lines, at most fifty seconds: a launcher that sees one rank
 * end may end those that have not written yet. */
void told_await(const char *path, int lines);

#endif
