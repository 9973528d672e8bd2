/* wait.h: waiting for a condition in a test: polled, with a deadline far beyond any real delay, so
 * that a busy machine makes a test slow and never wrong. */
#ifndef DZ_TESTS_WAIT_H
#define DZ_TESTS_WAIT_H

#include "base/clock.h"

#include <stdbool.h>
#include <unistd.h>

enum { WAIT_SECONDS = 60 };

#define wait_until(condition)                                                                      \
    do {                                                                                           \
        uint64_t deadline_ = dz_now() + WAIT_SECONDS * DZ_SEC;                                     \
        while (!(condition)) {                                                                     \
            if (dz_now() > deadline_)                                                              \
                fail_msg("waited in vain for: %s", #condition);                                    \
            usleep(500);                                                                           \
        }                                                                                          \
    } while (0)

#endif
