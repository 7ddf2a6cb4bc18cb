/* The server's page, at /, with a form to classify words and the server's rates. */
#ifndef EXAMPLES_SERVE_PAGE_H
#define EXAMPLES_SERVE_PAGE_H

#include "examples/serve/http.h"

/* Sends it as the response. */
void page_answer(http_connection *connection);

#endif
