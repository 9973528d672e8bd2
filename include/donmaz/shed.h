/* shed.h: overload protection. A service that gets more than it can serve serves as much as it can
 * and refuses the rest at once: 503 with Retry-After, which costs a hundredth of the work.
 *
 * --shed adaptive protects every route; dz_use(app, dz_shed) those added after it. docs/shed.md
 * tells how the limit is found. */
#ifndef DONMAZ_SHED_H
#define DONMAZ_SHED_H

#include <donmaz/app.h>
#include <donmaz/export.h>

#include <stdbool.h>
#include <stdint.h>

/* Which requests are refused first. With thresholds and limits as NORMAL finds them, LOW has half
 * of the limit and four fifths of the thresholds, HIGH half more and a quarter more. NEVER is not
 * even counted: for health checks, and for streams that stay open. */
typedef enum dz_shed_class {
    DZ_SHED_NORMAL,
    DZ_SHED_LOW,
    DZ_SHED_HIGH,
    DZ_SHED_NEVER
} dz_shed_class;

/* Sets a route's class (default DZ_SHED_NORMAL); before the app runs. HIGH and NEVER also go before
 * others, and LOW after them, where requests wait for a worker. A NULL route is passed over. */
DZ_API dz_route *dz_shed_priority(dz_route *route, dz_shed_class priority);

/* Middleware: protects the routes it is used for (unless --shed off), and is where a refused
 * request is answered, so that middleware before it (a log, CORS) sees that request too. Without
 * --shed the limit is adaptive. Whether a request is let in is decided before any middleware runs.
 */
DZ_API void dz_shed(dz_request *req, dz_response *res);

/* What a refused request is answered with, besides status 503 and Retry-After; the default is what
 * dz_on_error renders. `type` and `body` must outlive the app; before the app runs. */
DZ_API void dz_shed_body(dz_app *app, const char *type, dz_slice body);

/* --- health checks --- */

/* Handlers. Live: 200 as long as the process answers at all, whatever its load: a restart cures no
 * overload. Ready: 200; 503 while it refuses requests of the NORMAL class (and for a second after)
 * or stops. */
DZ_API void dz_live(dz_request *req, dz_response *res);
DZ_API void dz_ready(dz_request *req, dz_response *res);

/* Adds both as GET routes that are never shed and always run on the loop. NULL: not that one.
 * 0 or, when a pattern can't be added, DZ_E_INVALID. */
DZ_API int dz_health_routes(dz_app *app, const char *live, const char *ready);

/* --- metrics --- */

typedef enum dz_shed_level {
    DZ_SHED_CALM,
    DZ_SHED_PRESSURE, /* some connections are closed after their response */
    DZ_SHED_REFUSING  /* a request was refused within the last second */
} dz_shed_level;

typedef enum dz_shed_reason {
    DZ_SHED_ADMITTED,
    DZ_SHED_BY_IN_FLIGHT,
    DZ_SHED_BY_WAIT, /* waited too long for its turn */
    DZ_SHED_BY_LAG,
    DZ_SHED_BY_RSS,
    DZ_SHED_REASONS
} dz_shed_reason;

/* "in flight", "queue wait", "loop lag", "memory". Static. */
DZ_API const char *dz_shed_reason_text(dz_shed_reason reason);

typedef struct dz_shed_stats {
    bool on;                    /* whether anything is protected */
    dz_shed_level level;        /* the worst of the loops */
    double limit;               /* requests that may be in flight now, of all loops */
    uint64_t in_flight;         /* of those that count */
    uint64_t admitted, refused; /* since the start */
    uint64_t refused_by[DZ_SHED_REASONS];
    uint64_t refused_low, refused_high; /* of `refused`, by class */
    uint64_t closed;  /* connections closed after a response to spread their clients */
    uint64_t wait_ns; /* time that requests waited for a thread, in all; divide by `admitted` */
    uint64_t probes;  /* times the limit was lowered to measure without a queue */
    uint64_t lag_ns;  /* of the worst loop, in the last sample */
    uint64_t rss;     /* bytes; 0: not watched, or can't be read */
    uint64_t rss_failures;
} dz_shed_stats;

/* Any thread, while the app runs. *stats is all zero when nothing is protected. */
DZ_API void dz_shed_get_stats(const dz_app *app, dz_shed_stats *stats);

/* Whether requests of the NORMAL class were refused within the last second. Any thread. */
DZ_API bool dz_shed_overloaded(const dz_app *app);

#endif
