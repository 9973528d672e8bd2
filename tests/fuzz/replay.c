/* replay.c: the main of a fuzz target in the ordinary test run: feeds it every file of the folders
 * named, whole and cut at every length. */
#include "fuzz.h"

#include "loop/sanitizer.h"

#include <dirent.h>
#include <string.h>

enum { INPUT_MAX = 64 * 1024, CUTS_MAX = 4096 };

/* The thread sanitizer has nothing to find in one thread's work: there a few of the long cuts do.
 */
#ifdef DZ_TSAN
enum { EVERY_CUT = 256, LATER_STEP = 13 };
#else
enum { EVERY_CUT = CUTS_MAX, LATER_STEP = 1 };
#endif

static bool replay_file(const char *path)
{
    static uint8_t bytes[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    size_t size = fread(bytes, 1, sizeof bytes, file);
    bool whole = feof(file) && !ferror(file);
    (void)fclose(file);
    if (!whole) {
        fprintf(stderr, "%s: unreadable, or larger than %d bytes\n", path, INPUT_MAX);
        return false;
    }
    fprintf(stderr, "%s\n", path); /* the last line before an abort names the culprit */
    for (size_t cut = 0; cut < size && cut < CUTS_MAX; cut += cut < EVERY_CUT ? 1 : LATER_STEP)
        LLVMFuzzerTestOneInput(bytes, cut);
    LLVMFuzzerTestOneInput(bytes, size);
    return true;
}

static int replay_folder(const char *folder)
{
    int files = 0;
    DIR *dir = opendir(folder);
    if (!dir) {
        perror(folder);
        return -1;
    }
    for (struct dirent *entry; files >= 0 && (entry = readdir(dir));) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        files = replay_file(path) ? files + 1 : -1;
    }
    closedir(dir);
    return files;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int files = replay_folder(argv[i]);
        if (files <= 0) {
            fprintf(stderr, "%s: nothing replayed\n", argv[i]);
            return 1;
        }
        total += files;
    }
    printf("%d inputs replayed\n", total);
    return total > 0 ? 0 : 1;
}
