#include "app/app.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

/* Hooks may be added while others run them: the list only grows, and its length is published after
 * the link. A run stops at the length it began with, so a hook that adds hooks ends. */

static void warn_running(dz_core *core, const char *what, const char *place)
{
    dz_core_log(core, 40,
                "%s was called while the app runs (%s): what is registered for each request is "
                "never released and makes every later request longer; register before dz_run",
                what, place ? place : "place unknown");
}

static void warn_crowded(dz_core *core, const char *place)
{
    dz_core_log(core, 40,
                "possible leak: more than %llu hooks are called after every request; the last "
                "was added by %s (--hooks-max changes the limit)",
                (unsigned long long)core->settings.hooks_max, place ? place : "place unknown");
}

bool dz_core_sealed(dz_core *core, unsigned kind, const char *what, const char *place)
{
    if (!atomic_load(&core->sealed))
        return false;
    if (!(atomic_fetch_or(&core->warned, kind) & kind))
        warn_running(core, what, place);
    return true;
}

static void look_at_count(dz_core *core, size_t count, const char *place)
{
    uint64_t max = core->settings.hooks_max;
    if (max > 0 && count > max &&
        !(atomic_fetch_or(&core->warned, DZ_WARNED_CROWDED) & DZ_WARNED_CROWDED))
        warn_crowded(core, place);
}

void dz_core_seal(dz_core *core)
{
    atomic_store(&core->sealed, true);
    size_t count = 0;
    for (const dz_after_hook *h = core->after.first; h; h = h->next)
        if (++count == core->settings.hooks_max + 1)
            look_at_count(core, count, h->place);
}

int dz_after_at(dz_app *app, dz_hook *hook, void *data, const char *place)
{
    if (!app || !hook)
        return DZ_E_INVALID;
    dz_core *core = app->core;
    dz_after_hook *it = malloc(sizeof *it);
    if (!it)
        return DZ_E_NOMEM;
    *it = (dz_after_hook){.hook = hook, .data = data, .place = place};
    bool running = dz_core_sealed(core, DZ_WARNED_AFTER, "dz_after", place);
    pthread_mutex_lock(&core->after.lock);
    *(core->after.last ? &core->after.last->next : &core->after.first) = it;
    core->after.last = it;
    size_t count = atomic_load_explicit(&core->after.count, memory_order_relaxed) + 1;
    atomic_store_explicit(&core->after.count, count, memory_order_release);
    pthread_mutex_unlock(&core->after.lock);
    if (running)
        look_at_count(core, count, place);
    return 0;
}

void dz_core_run_after(dz_core *core, dz_request *req)
{
    size_t count = atomic_load_explicit(&core->after.count, memory_order_acquire);
    const dz_after_hook *h = core->after.first;
    for (; count > 0; count--, h = h->next)
        h->hook(req, &req->res, h->data);
}

void dz_core_free_hooks(dz_core *core)
{
    for (dz_after_hook *h = core->after.first, *next; h; h = next) {
        next = h->next;
        free(h);
    }
    pthread_mutex_destroy(&core->after.lock);
}
