/* encoding.h: which coding a client gets (Accept-Encoding, RFC 9110 12.5.3). */
#ifndef DZ_CONTENT_ENCODING_H
#define DZ_CONTENT_ENCODING_H

#include <donmaz/slice.h>

typedef enum dz_coding {
    DZ_CODING_IDENTITY = 0,
    DZ_CODING_GZIP = 1,
    DZ_CODING_BR = 2,
} dz_coding;

/* "gzip", "br"; "" for identity. */
dz_slice dz_coding_name(dz_coding coding);

/* The coding of those in `available` (bits 1 << dz_coding; identity is always there) that `field`
 * gives the highest weight; at equal weights br goes before gzip before identity. A client that
 * says nothing (ptr NULL) gets identity; so does one that refuses everything, which is better than
 * 406. */
dz_coding dz_coding_choose(dz_slice field, unsigned available);

#endif
