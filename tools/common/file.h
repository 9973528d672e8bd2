/* file.h: a file that someone named, as a whole. */
#ifndef DZ_COMMON_FILE_H
#define DZ_COMMON_FILE_H

#include <donmaz/buf.h>

/* Appends the file's bytes to an owning or empty buffer. 0; -errno; DZ_E_NOMEM; DZ_E_TOO_LARGE for
 * one of more than 1 GiB, such as a device without end, which would fill the memory. */
int dz_file_read(const char *path, dz_buf *out);

#endif
