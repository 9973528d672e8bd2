/* resp_value.h: between the reader (resp.c), what a line says (resp_line.c) and the values that are
 * made of it (resp_value.c). */
#ifndef DZ_REDIS_RESP_VALUE_H
#define DZ_REDIS_RESP_VALUE_H

#include "redis/resp.h"

enum { DZ_RESP_OWN = 1024 }; /* strings of that length and more get a buffer of their own */

/* The memory of one reply. The top value comes first, so that freeing needs no other pointer. */
typedef struct dz_resp_root {
    dz_reply top;
    dz_arena arena;
    dz_reply *owners; /* every value whose text owns its memory, wherever it is in the tree */
    _Alignas(max_align_t) char first[256];
} dz_resp_root;

/* A new value in the reply being read (which it begins if there is none), counted against the
 * limits; the top one if is_top. NULL with resp->error set. */
dz_reply *dz_resp_new_value(dz_resp *resp, dz_reply_kind kind, bool is_top);

/* Gives the value room for a text of `len` bytes. 0 or an error. */
int dz_resp_text_room(dz_resp *resp, dz_reply *value, size_t len);

/* The same, in a buffer of its own whatever the size. */
int dz_resp_own_text(dz_resp *resp, dz_reply *value, size_t len);

/* Fills the value from what stands after its type byte on a one-line value. 0 or an error. */
int dz_resp_line_value(dz_resp *resp, dz_reply *value, char type, dz_slice line);

/* A line without its CRLF, and a value that is complete. 1: so is the reply; 0: go on; or an error.
 */
int dz_resp_on_line(dz_resp *resp, dz_slice line);
int dz_resp_add_value(dz_resp *resp, dz_reply *value);

#endif
