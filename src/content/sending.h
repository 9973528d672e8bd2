/* sending.h: between finding a file (send_file.c) and answering with it (send_found.c).
 *
 * From a clean path to the response:
 *
 *   visible? ─> find ─> folder: redirect or index ─> variant ─> validators ─> 304, 412?
 *            ─> Range: 206, 416 ─> head and pieces of the file
 */
#ifndef DZ_CONTENT_SENDING_H
#define DZ_CONTENT_SENDING_H

#include "content/encoding.h"
#include "content/files.h"

typedef struct dz_sending {
    dz_request *req;
    dz_response *res;
    dz_files *files;
    dz_slice type;
    dz_coding coding;
    dz_found found; /* what is sent */
    bool settled;   /* its time is old enough to be a strong validator */
} dz_sending;

/* Answers with the file in it->found, whose descriptor it takes, and which is called `name`. */
void dz_sending_found(dz_sending *it, const char *name);

/* Answers with what the error means to a client. The reason is the operator's business: the client
 * gets the status alone. */
void dz_sending_failed(dz_request *req, dz_response *res, int error);

/* Finds a regular file, and nothing else. 0, or -errno or a DZ_E_*. */
int dz_sending_find(dz_files *files, const char *name, dz_found *found);

/* NUL-terminated: the path below the folder and something after it. NULL out of memory. */
char *dz_sending_join(dz_request *req, dz_slice path, const char *end);

#endif
