/* types.h: media types: what a file is by its name, and whether it gains by compression. */
#ifndef DZ_CONTENT_TYPES_H
#define DZ_CONTENT_TYPES_H

#include <donmaz/slice.h>

/* By the text after the name's last dot, any case; application/octet-stream when it is unknown. */
dz_slice dz_type_of_name(dz_slice name);

/* Whether bodies of `type` usually become smaller: text, JSON, XML, scripts and the like; not what
 * is compressed already, nor event streams, whose events must not wait in a compressor. */
bool dz_type_compressible(dz_slice type);

#endif
