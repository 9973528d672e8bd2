/* CSV: the scanner agrees with the plain reference on rows, problems and places, and all kernels
 * agree with each other. The first byte chooses the separator. */
#include "fuzz.h"

#include "../unit/text/csv_reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char separators[] = {',', ';', '\t', 'a'};
    if (size == 0)
        return 0;
    char separator = separators[data[0] % sizeof separators];
    char *bytes = fuzz_copy(data + 1, size - 1);
    HOLDS(reference_agrees(bytes, size - 1, separator));
    HOLDS(reference_kernels_agree(bytes, size - 1, separator));
    free(bytes);
    return 0;
}
