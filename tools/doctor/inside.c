#include "inside.h"

#include "node/admin.h"

#include <base/clock.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    EVERY_MS = 50,
    TIMEOUT_MS = 2000,
    CLOSE = 4000, /* readings kept one by one: the first minutes; later ones every half second */
    RARE = 10,
};

struct dz_inside {
    dz_port port;
    pthread_t thread;
    bool running;
    int stop; /* eventfd */
    dz_inside_seen seen;
    dz_exposition before, now;
    uint64_t count;
};

static const dz_inside_seen none;

static bool grow(void *vector, size_t size)
{
    DZ_VECTOR(void) *v = vector;
    if (v->count < v->cap)
        return true;
    size_t cap = v->cap ? v->cap * 2 : 64;
    void *more = reallocarray(v->at, cap, size);
    if (!more)
        return false; /* fewer of them */
    v->at = more;
    v->cap = cap;
    return true;
}

static const dz_expo_loop *find_loop(const dz_exposition *in, const dz_expo_loop *like)
{
    for (size_t i = 0; i < in->loop_count; i++)
        if (in->loops[i].worker == like->worker && in->loops[i].loop == like->loop)
            return &in->loops[i];
    return NULL;
}

static double more(double now, double before)
{
    return now > before ? now - before : 0;
}

static void add_loop(dz_inside_seen *seen, const dz_expo_loop *b, const dz_expo_loop *l,
                     uint64_t at)
{
    if (!grow(&seen->loops, sizeof *seen->loops.at))
        return;
    double all = more(l->stalls, b->stalls), small = more(l->short_stalls, b->short_stalls);
    double lags = more(l->lags, b->lags), took = more(l->stall_ms, b->stall_ms);
    double count = more(all, small);
    /* Those under the bound are told by number alone: at most as long as the bound. */
    double least = count * DZ_EXPO_STALL_MS, rest = more(took, small * DZ_EXPO_STALL_MS / 2.0);
    seen->loops.at[seen->loops.count++] = (dz_inside_loop){
        .at = at,
        .worker = l->worker,
        .loop = l->loop,
        .delay_ms = l->delay_ms,
        .lag_ms = lags > 0 ? more(l->lag_ms, b->lag_ms) / lags : 0,
        .stalls = count,
        .stall_ms = count > 0 ? (rest > least ? rest : least) : 0,
        .rescues = more(l->rescues, b->rescues),
    };
}

static void add_routes(dz_inside_seen *seen, const dz_exposition *now, uint64_t at)
{
    if (!grow(&seen->readings, sizeof *seen->readings.at))
        return;
    size_t size = now->route_count * sizeof *now->routes;
    dz_inside_reading r = {
        .at = at, .refused = now->refused, .queued = now->queued, .in_flight = now->in_flight};
    r.routes = malloc(size ? size : 1);
    if (!r.routes)
        return;
    memcpy(r.routes, now->routes, size);
    r.count = now->route_count;
    seen->readings.at[seen->readings.count++] = r;
}

void dz_inside_add(dz_inside_seen *seen, dz_exposition *before, const dz_exposition *now,
                   uint64_t at)
{
    for (size_t i = 0; i < now->loop_count; i++) {
        const dz_expo_loop *b = find_loop(before, &now->loops[i]);
        if (b) /* the first time there is nothing to compare with */
            add_loop(seen, b, &now->loops[i], at);
    }
    add_routes(seen, now, at);
    *before = *now;
}

void dz_inside_forget(dz_inside_seen *seen)
{
    for (size_t i = 0; i < seen->readings.count; i++)
        free(seen->readings.at[i].routes);
    free(seen->readings.at);
    free(seen->loops.at);
    memset(seen, 0, sizeof *seen);
}

static bool read_once(dz_inside *it, int stop)
{
    dz_buf text = {0};
    bool got = dz_admin_get(&it->port, "/metrics", TIMEOUT_MS, stop, &text) == 0;
    if (got) {
        dz_exposition_read(&it->now, dz_buf_slice(&text));
        if (it->count < CLOSE || it->count % RARE == 0 || stop < 0)
            dz_inside_add(&it->seen, &it->before, &it->now, dz_now());
        it->count++;
    }
    dz_buf_release(&text);
    return got;
}

static void *run(void *arg)
{
    dz_inside *it = arg;
    struct pollfd stop = {.fd = it->stop, .events = POLLIN};
    for (uint64_t next = dz_now() + EVERY_MS * DZ_MS;; next += EVERY_MS * DZ_MS) {
        uint64_t now = dz_now();
        next = next > now ? next : now + EVERY_MS * DZ_MS / 2; /* it was slow to answer */
        if (poll(&stop, 1, (int)((next - now) / DZ_MS) + 1) != 0)
            return NULL;
        read_once(it, it->stop);
    }
}

dz_inside *dz_inside_start(const dz_port *admin)
{
    dz_inside *it = calloc(1, sizeof *it);
    if (!it)
        return NULL;
    it->port = *admin;
    it->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigset_t all, before; /* signals are for the thread that runs the examination */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    it->running =
        it->stop >= 0 && read_once(it, -1) && pthread_create(&it->thread, NULL, run, it) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (it->running)
        return it;
    dz_inside_free(it);
    return NULL;
}

void dz_inside_stop(dz_inside *it)
{
    if (!it || !it->running)
        return;
    eventfd_write(it->stop, 1);
    pthread_join(it->thread, NULL);
    it->running = false;
    read_once(it, -1);
}

const dz_inside_seen *dz_inside_look(const dz_inside *it)
{
    return it ? &it->seen : &none;
}

void dz_inside_free(dz_inside *it)
{
    if (!it)
        return;
    if (it->running) {
        eventfd_write(it->stop, 1);
        pthread_join(it->thread, NULL);
    }
    if (it->stop >= 0)
        close(it->stop);
    dz_inside_forget(&it->seen);
    free(it);
}
