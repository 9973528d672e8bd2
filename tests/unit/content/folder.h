/* folder.h: a folder of its own for each test program, with what a test puts there. */
#ifndef DZ_TESTS_CONTENT_FOLDER_H
#define DZ_TESTS_CONTENT_FOLDER_H

#include "../check.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

typedef struct folder_path {
    char text[256];
} folder_path;

static inline folder_path in_folder(const char *name)
{
    folder_path path;
    snprintf(path.text, sizeof path.text, "%s/%s", folder, name);
    return path;
}

static inline void folder_make(void)
{
    snprintf(folder, sizeof folder, "/tmp/dz-content-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

static inline int folder_remove_one(const char *path, const struct stat *st, int type,
                                    struct FTW *walk)
{
    (void)st, (void)type, (void)walk;
    return remove(path);
}

static inline void folder_remove(void)
{
    nftw(folder, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void folder_write(const char *name, const char *data, size_t len)
{
    FILE *file = fopen(in_folder(name).text, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static inline void folder_text(const char *name, const char *text)
{
    folder_write(name, text, strlen(text));
}

static inline void folder_sub(const char *name)
{
    assert_int_equal(mkdir(in_folder(name).text, 0700), 0);
}

static inline void folder_link(const char *target, const char *name)
{
    assert_int_equal(symlink(target, in_folder(name).text), 0);
}

#endif
