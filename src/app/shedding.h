/* shedding.h: overload protection of a running app: a guard for each loop. */
#ifndef DZ_APP_SHEDDING_H
#define DZ_APP_SHEDDING_H

#include "app/app.h"
#include "shed/guard.h"
#include "shed/rss.h"

struct dz_shedding {
    dz_guard *guards; /* by loop->index */
    unsigned loop_count;
    dz_limit_route *routes; /* route_count for each loop */
    unsigned route_count;
    bool watches_lag, watches_rss;
    dz_rss rss;
    char retry_after[24];       /* seconds */
    _Atomic uint64_t next_word; /* when "overloaded" may be logged again */
};

#endif
