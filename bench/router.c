/* What finding a route costs with 1, 100 and 1000 routes, half of them with a parameter.
 * Best of several rounds, so that what else runs on the machine counts least. */
#include "app/router.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1000, FINDS = 400000, ROUNDS = 7 };

static char paths[LARGEST][48];
static dz_slice slices[LARGEST];

static dz_router *build(int count)
{
    static int route;
    dz_router *router = dz_router_new();
    for (int i = 0; router && i < count; i++) {
        char pattern[48];
        const char *end = i % 2 ? "/:id" : "", *value = i % 2 ? "/12345" : "";
        snprintf(pattern, sizeof pattern, "/api/v1/resource%d%s", i, end);
        snprintf(paths[i], sizeof paths[i], "/api/v1/resource%d%s", i, value);
        slices[i] = dz_slice_of(paths[i]);
        if (dz_router_add(router, 0, pattern, &route) < 0)
            exit(1);
    }
    return router;
}

static double nanoseconds_per_find(const dz_router *router, size_t count)
{
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        dz_route_match match;
        uint64_t start = dz_thread_cpu();
        for (size_t i = 0, at = 0; i < FINDS; i++) {
            if (dz_router_find(router, 0, slices[at], &match) < 0)
                exit(1);
            at = at + 1 == count ? 0 : at + 1;
        }
        double took = (double)(dz_thread_cpu() - start) / FINDS;
        if (round == 0 || took < best)
            best = took;
    }
    return best;
}

int main(void)
{
    static const int counts[] = {1, 100, LARGEST};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        dz_router *router = build(counts[i]);
        if (!router)
            return 1;
        printf("router: %4d routes %6.1f ns per find\n", counts[i],
               nanoseconds_per_find(router, (size_t)counts[i]));
        dz_router_free(router);
    }
    return 0;
}
