/* Options in one expression: what tests change of the defaults of tdm_*_options. */
#ifndef TANDEM_TESTS_OPTIONS_H
#define TANDEM_TESTS_OPTIONS_H

/* The defaults of a type of options, changed by a comma expression about `o`:
 * OPTIONS(tdm_session_options, o.loss = loss, o.depth = 2). */
#define OPTIONS(type, ...)                                                                         \
  __extension__({                                                                                  \
    type o = type##_default();                                                                     \
    (void)(__VA_ARGS__);                                                                           \
    o;                                                                                             \
  })
/* A pointer to the same, valid until the end of the block. */
#define WITH(type, ...) ((type[]){OPTIONS(type, __VA_ARGS__)})
/* Options that no initializer made, of the right size. */
#define UNMADE(type) ((type[]){{.struct_size = sizeof(type)}})
/* number, or 1 where a row of a test's table leaves it out. */
#define OR_ONE(number) ((number) ? (number) : 1)

#endif
