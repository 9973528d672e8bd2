/* message.h: a request as bytes, with the parts that change from one to the next. */
#ifndef DZ_LOAD_MESSAGE_H
#define DZ_LOAD_MESSAGE_H

#include <donmaz/buf.h>
#include <donmaz/slice.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Rows of a CSV file, shared by all threads; each request takes the next one, round and round. */
typedef struct load_feed_rows {
    dz_buf text;        /* the file, cut up in place */
    const char **names; /* columns; owned array */
    size_t columns;
    const char **cells; /* rows x columns; owned array */
    size_t rows;
    atomic_size_t next;
} load_feed_rows;

typedef enum load_part_kind {
    LOAD_PART_TEXT,
    LOAD_PART_SEQ,    /* {{seq}}: 1, 2, 3, ... over all threads */
    LOAD_PART_UUID,   /* {{uuid}}: random, version 4 */
    LOAD_PART_RANDOM, /* {{random LOW HIGH}}: both ends included */
    LOAD_PART_CELL,   /* {{NAME}}: a column of the CSV row this request took */
} load_part_kind;

typedef struct load_part {
    load_part_kind kind;
    dz_slice text; /* TEXT */
    int64_t low, high;
    size_t column;
} load_part;

typedef struct load_template {
    load_part *parts;
    size_t count;
} load_template;

typedef struct load_message {
    load_template head; /* request line and fields, without Content-Length and the blank line */
    load_template body;
    bool has_body; /* send Content-Length even when it is 0 */
    bool changes;  /* something differs between requests; else `wire` is all of it */
    bool uses_rows;
    bool own_length; /* the fields given frame the body already */
    dz_buf text;     /* owns what the templates' text points into */
    dz_buf wire;     /* the whole request, repeated `copies` times, when nothing changes */
    size_t wire_len; /* bytes of one */
    size_t copies;
} load_message;

typedef struct load_field {
    dz_slice name, value;
} load_field;

typedef struct load_message_spec {
    dz_slice method, path, authority;
    const load_field *fields; /* a Host among them replaces the authority */
    size_t field_count;
    dz_slice body;
    bool has_body;
    bool templates;  /* {{...}} is replaced */
    bool strict;     /* an unknown {{name}} is an error rather than text */
    bool replace_id; /* [<id>] is replaced by a random id (-I) */
    bool close;      /* add Connection: close */
    const load_feed_rows *rows;
    size_t copies; /* how many requests may go out in one send */
} load_message_spec;

/* 0, DZ_E_NOMEM, or DZ_E_INVALID with the reason in `why`. */
int load_message_init(load_message *message, const load_message_spec *spec, char *why,
                      size_t why_size);
void load_message_free(load_message *message);

/* State of one thread for the parts that change. */
typedef struct load_mixer {
    uint64_t random;
    atomic_uint_fast64_t *seq; /* shared */
    load_feed_rows *rows;      /* shared; may be NULL */
    dz_buf body;               /* scratch, owned */
} load_mixer;

/* Appends one request to *out. DZ_E_NOMEM. */
int load_message_append(const load_message *message, load_mixer *mixer, dz_buf *out);

/* Reads a CSV file (RFC 4180) whose first row names the columns. 0, -errno, DZ_E_NOMEM, or
 * DZ_E_FORMAT with the reason, line included, in `why`. */
int load_rows_read(load_feed_rows *rows, const char *file, char *why, size_t why_size);
void load_rows_free(load_feed_rows *rows);

#endif
