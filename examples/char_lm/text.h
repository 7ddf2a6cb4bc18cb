/* A text as characters with ids, and windows of it in an order that lets a model carry its state
 * from one batch to the next. One thread, except loaders. */
#ifndef EXAMPLES_CHAR_LM_TEXT_H
#define EXAMPLES_CHAR_LM_TEXT_H

#include <tandem/tandem.h>

typedef struct text {
  unsigned char *bytes;
  int64_t byte_count;
  int64_t character_count;       /* number of different bytes */
  unsigned char characters[256]; /* [id] in the order of bytes */
  int16_t ids[256];              /* [byte]; -1: not in the text */
} text;

/* Reads a file, or, where path is NULL, the verses that the program `bible` of Debian's package
 * bible-kjv prints, without their references. Fails naming what is missing, and with
 * INVALID_ARGUMENT and the first wrong byte if a file is not UTF-8. */
tdm_status text_read(const char *path, text *out_text);
void text_release(text *released);
/* Returns the characters as a tensor int64 (character_count) of their bytes. */
tdm_tensor *text_characters(const text *asked, tdm_context *context);

/* Checks that the prompt is not empty, and that the text has all its characters. */
tdm_status text_check_prompt(const text *of, const char *prompt);
/* Returns an id drawn with probabilities softmax(scores / temperature): below 1 likelier
 * characters, above wilder ones. scores (count); uniform is in [0, 1). */
int64_t text_draw(const float *scores, int64_t count, double temperature, double uniform);

/* Fields of a batch. */
enum { CHARACTERS, TARGETS, TEXT_FIELDS };

/* Creates a dataset of the text from byte `begin` to `end`. The text is divided into `rows` streams
 * of equal length, and those into windows of `length`. Item i belongs to stream i mod rows, so
 * consecutive batches of `rows` items continue all streams. Fields: "characters" int64 (length),
 * "targets" int64 (length), the next characters. The text is borrowed, and must outlive the
 * dataset. Returns NULL on failure. */
tdm_dataset *text_windows(tdm_context *context, const text *from, int64_t begin, int64_t end,
                          int64_t rows, int64_t length);

/* The training part of a text, [true], and its last twentieth, which is held out, [false]. */
typedef struct text_parts {
  tdm_dataset *sets[2];
  tdm_loader *loaders[2]; /* loaders of batches of `rows` windows, in order */
} text_parts;

/* Creates both parts with text_windows of `length`. length_option is the command line's option for
 * it, which the message names if the text is too short. The caller releases *out_parts before the
 * text, on failure too. */
tdm_status text_open_parts(tdm_context *context, const text *from, int64_t rows, int64_t length,
                           const char *length_option, text_parts *out_parts);
void text_parts_release(text_parts *released);

#endif
