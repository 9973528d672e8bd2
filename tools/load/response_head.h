/* response_head.h: the head of a response, for response.c. */
#ifndef DZ_LOAD_RESPONSE_HEAD_H
#define DZ_LOAD_RESPONSE_HEAD_H

#include "load/response.h"

/* Where the head ends (after its blank line), searching from `from`; 0 when it does not yet.
 * A bare LF is taken for CRLF, as RFC 9112 2.2 allows. */
size_t load_head_end(const char *data, size_t len, size_t from);

/* Whether the bytes so far can be the start of "HTTP/1.x SSS". */
bool load_may_be_status_line(const char *data, size_t len);

/* Reads a whole head, blank line included, and sets the state that follows it. */
load_progress load_head_read(load_response *r, const char *data, size_t len);

#endif
