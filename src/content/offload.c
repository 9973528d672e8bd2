#include "content/offload.h"

#include <stdlib.h>

typedef struct call {
    dz_offload_fn *fn;
    void *arg;
    bool ran;
} call;

static int run_call(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task, (void)out;
    call *it;
    memcpy(&it, in->data, sizeof(call *));
    it->fn(it->arg);
    it->ran = true;
    return 0;
}

dz_pool *dz_offload_pool(unsigned workers, unsigned max_queue)
{
    dz_pool_options options;
    dz_pool_options_init(&options);
    if (workers > 0)
        options.max_workers = workers;
    options.max_queue = max_queue;
    dz_pool *pool = dz_pool_new(&options);
    if (pool && dz_pool_add_task(pool, "call", run_call) < 0) {
        dz_pool_free(pool);
        return NULL;
    }
    return pool;
}

int dz_offload(dz_pool *pool, dz_offload_fn *fn, void *arg)
{
    call it = {.fn = fn, .arg = arg};
    const call *at = &it; /* lives on this stack, which stays parked until the task is done */
    dz_buf in;
    if (dz_buf_copy(&in, dz_slice_make(&at, sizeof(call *))) < 0)
        return DZ_E_NOMEM;
    int rc = dz_pool_run(pool, "call", &in, NULL);
    dz_buf_release(&in);
    return it.ran ? 0 : rc < 0 ? rc : DZ_E_CANCELLED;
}
