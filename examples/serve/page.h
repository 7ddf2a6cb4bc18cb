/* The server's page, at /: words are asked there, and rates are seen. */
#ifndef EXAMPLES_SERVE_PAGE_H
#define EXAMPLES_SERVE_PAGE_H

#include "examples/serve/http.h"

/* Sends it as the response. */
void page_answer(http_connection *connection);

#endif
