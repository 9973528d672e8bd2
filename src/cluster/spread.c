#include "cluster/spread.h"

unsigned dz_spread_pick(const dz_load *loads, unsigned count, unsigned last)
{
    unsigned best = count;
    for (unsigned i = 1; i <= count; i++) {
        unsigned at = (last + i) % count;
        if (loads[at].takes && (best == count || loads[at].open < loads[best].open))
            best = at;
    }
    return best;
}
