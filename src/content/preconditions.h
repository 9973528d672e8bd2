/* preconditions.h: whether a request still applies (RFC 9110 13). No I/O. */
#ifndef DZ_CONTENT_PRECONDITIONS_H
#define DZ_CONTENT_PRECONDITIONS_H

#include <donmaz/http.h>
#include <donmaz/slice.h>

#include <stdbool.h>
#include <stdint.h>

/* What the selected representation is. */
typedef struct dz_validators {
    bool exists;
    dz_slice etag; /* quoted, perhaps W/"..."; empty: none */
    bool has_modified;
    int64_t modified; /* Last-Modified, seconds since 1970 */
    bool strong_date; /* the date changes whenever the representation does (RFC 9110 8.8.2.2) */
} dz_validators;

/* The fields of a request; ptr NULL: absent. */
typedef struct dz_conditions {
    dz_slice if_match, if_unmodified_since, if_none_match, if_modified_since, if_range;
} dz_conditions;

/* In the order of RFC 9110 13.2.2. 0: go on; 304; or 412. `now` (seconds since 1970) is for dates
 * with two-digit years. */
int dz_preconditions_check(const dz_conditions *conditions, dz_method method,
                           const dz_validators *validators, int64_t now);

/* Whether If-Range lets a Range field count: it is absent, or is the current validator by strong
 * comparison. */
bool dz_if_range_holds(dz_slice if_range, const dz_validators *validators, int64_t now);

/* The opaque part may stand between the quotes: visible bytes but for the quote itself. */
bool dz_etag_valid(dz_slice opaque);

#endif
