#include "loop/loop.h"

#include <donmaz/app.h>
#include <donmaz/error.h>

int dz_sleep(uint64_t ms)
{
    if (!dz_fiber_current())
        return DZ_E_STATE;
    uint64_t now = dz_now();
    return dz_fiber_sleep(ms > (UINT64_MAX - now) / DZ_MS ? UINT64_MAX : now + ms * DZ_MS);
}
