/* check.h: what every cmocka test includes, in the order cmocka wants it. */
#ifndef DZ_TESTS_CHECK_H
#define DZ_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <donmaz/slice.h>

#define assert_slice(slice, text)                                                                  \
    do {                                                                                           \
        dz_slice got_ = (slice);                                                                   \
        assert_int_equal(got_.len, strlen(text));                                                  \
        assert_memory_equal(got_.ptr, text, got_.len);                                             \
    } while (0)

#endif
