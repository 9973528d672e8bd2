#include "common/file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum { LONGEST = 1 << 30 };

int dz_file_read(const char *path, dz_buf *out)
{
    FILE *in = fopen(path, "re");
    if (!in)
        return -errno;
    char block[16384];
    struct stat st;
    bool sized = fstat(fileno(in), &st) == 0 && S_ISREG(st.st_mode);
    int rc = sized && st.st_size > LONGEST ? DZ_E_TOO_LARGE : 0;
    for (size_t n; rc == 0 && (n = fread(block, 1, sizeof block, in)) > 0;)
        rc = out->len + n > LONGEST ? DZ_E_TOO_LARGE : dz_buf_append(out, dz_slice_make(block, n));
    if (rc == 0 && ferror(in))
        rc = errno ? -errno : -EIO;
    fclose(in);
    return rc;
}
