/* See page.h. The page is page.html. Its policy lets a browser run and load nothing else. */
#include "examples/serve/page.h"

#include <stdio.h>

#include "examples/serve_page_text.inc"

void page_answer(http_connection *connection) {
  char extra[sizeof page_policy + 256];
  (void)snprintf(extra, sizeof extra,
                 "Content-Security-Policy: %s\r\nX-Content-Type-Options: nosniff\r\n"
                 "Referrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n",
                 page_policy);
  http_answer_standing(connection, HTTP_STATUS_OK, "text/html; charset=utf-8", extra, page_text);
}
