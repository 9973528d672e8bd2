/* fields.h: the header fields that decide how a request is framed and its connection goes on. */
#ifndef DZ_HTTP_FIELDS_H
#define DZ_HTTP_FIELDS_H

#include "http/head.h"

/* What was seen so far; all zero before the first field. */
typedef struct dz_fields {
    bool host, close, keep_alive, upgrade_token, upgrade;
    bool transfer_encoding, chunked_last, other_coding;
} dz_fields;

/* Takes one field into account. 0, or minus a status. */
int dz_fields_add(dz_fields *fields, dz_head *head, const dz_header *header);

/* After the last field: what must hold of all together. 0, or minus a status. */
int dz_fields_finish(const dz_fields *fields, dz_head *head);

#endif
