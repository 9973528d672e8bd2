#include "pool/pool.h"

void dz_pool_on_pressure(dz_pool *pool, dz_pool_pressure_fn *fn, void *data)
{
    pthread_mutex_lock(&pool->lock);
    pool->on_pressure = fn;
    pool->pressure_data = data;
    dz_pool_unlock(pool);
}

static bool has_news(const dz_pool *pool)
{
    return pool->on_pressure && !pool->telling && pool->told != pool->full;
}

/* One thread tells at a time, without the lock, and looks again afterwards: so the news alternate,
 * none is lost, and the function may ask the pool things. */
void dz_pool_unlock(dz_pool *pool)
{
    while (has_news(pool)) {
        dz_pool_pressure_fn *fn = pool->on_pressure;
        void *data = pool->pressure_data;
        bool needs_drain = pool->told = pool->full;
        pool->telling = true;
        pthread_mutex_unlock(&pool->lock);
        fn(pool, needs_drain, data);
        pthread_mutex_lock(&pool->lock);
        pool->telling = false;
    }
    pthread_mutex_unlock(&pool->lock);
}
