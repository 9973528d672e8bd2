/* target.h: request targets and hosts (RFC 9112 3.2, RFC 3986 3.2.2). */
#ifndef DZ_HTTP_TARGET_H
#define DZ_HTTP_TARGET_H

#include "http/head.h"

/* Splits head->target of head->method into authority, path and query. 0, or -400. */
int dz_target_parse(dz_head *head);

/* Whether text is `host` or `host:port`, a name, an IPv4 or a bracketed IPv6 address. */
bool dz_host_valid(dz_slice text, bool port_required);

#endif
