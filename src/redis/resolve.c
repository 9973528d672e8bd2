#include "redis/resolve.h"

#include <donmaz/error.h>

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The thread can't be interrupted, so it may outlive the connection and even the loop: the lookup
 * belongs to both. The thread's reference passes to the message that it posts. */
struct dz_redis_lookup {
    dz_msg msg;
    pthread_mutex_t lock;
    unsigned refs;
    bool posted;
    dz_loop *loop;
    dz_redis_resolved *fn; /* NULL: cancelled */
    void *user;
    dz_redis_endpoint endpoint;
    int rc; /* EAI_* */
    dz_redis_addresses found;
};

static int look_up(const dz_redis_endpoint *endpoint, int flags, dz_redis_addresses *out)
{
    char port[8];
    snprintf(port, sizeof port, "%u", endpoint->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *found;
    out->count = 0;
    int rc = getaddrinfo(endpoint->host, port, &hints, &found);
    if (rc != 0)
        return rc;
    for (const struct addrinfo *at = found; at && out->count < DZ_REDIS_ADDRESSES;
         at = at->ai_next) {
        dz_redis_address *address = &out->list[out->count];
        if (at->ai_addrlen > sizeof address->to)
            continue;
        memcpy(&address->to, at->ai_addr, at->ai_addrlen);
        address->len = at->ai_addrlen;
        out->count++;
    }
    freeaddrinfo(found);
    return out->count > 0 ? 0 : EAI_NONAME;
}

bool dz_redis_resolve_now(dz_redis_addresses *out, const dz_redis_endpoint *endpoint)
{
    if (!endpoint->path[0])
        return look_up(endpoint, AI_NUMERICHOST | AI_NUMERICSERV, out) == 0;
    *out = (dz_redis_addresses){.count = 1};
    dz_redis_address *address = &out->list[0];
    address->to.un.sun_family = AF_UNIX;
    memcpy(address->to.un.sun_path, endpoint->path, strlen(endpoint->path) + 1);
    address->len = sizeof address->to.un;
    return true;
}

static void drop(dz_redis_lookup *lookup, unsigned count)
{
    pthread_mutex_lock(&lookup->lock);
    bool last = (lookup->refs -= count) == 0;
    pthread_mutex_unlock(&lookup->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&lookup->lock);
    free(lookup);
}

static void on_loop(dz_loop *loop, dz_msg *msg)
{
    (void)loop;
    dz_redis_lookup *lookup = DZ_CONTAINER(msg, dz_redis_lookup, msg);
    bool wanted = lookup->fn != NULL; /* the loop's own from here on */
    if (wanted)
        lookup->fn(lookup->user, lookup->rc, &lookup->found);
    drop(lookup, wanted ? 2 : 1);
}

static void *run(void *arg)
{
    dz_redis_lookup *lookup = arg;
    /* Not AI_ADDRCONFIG: it hides 127.0.0.1 on a machine without a network. */
    lookup->rc = look_up(&lookup->endpoint, AI_NUMERICSERV, &lookup->found);
    pthread_mutex_lock(&lookup->lock);
    bool wanted = lookup->fn != NULL;
    if (wanted) { /* under the lock: once cancelled, the loop may be gone */
        lookup->posted = true;
        dz_loop_post(lookup->loop, &lookup->msg);
    }
    pthread_mutex_unlock(&lookup->lock);
    if (!wanted)
        drop(lookup, 1);
    return NULL;
}

static int start_thread(dz_redis_lookup *lookup)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are for the threads that expect them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_t thread;
    int error = pthread_attr_init(&attributes);
    if (error == 0) {
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        error = pthread_create(&thread, &attributes, run, lookup);
        pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 ? 0 : DZ_E_NO_THREAD;
}

dz_redis_lookup *dz_redis_lookup_start(dz_loop *loop, const dz_redis_endpoint *endpoint,
                                       dz_redis_resolved *fn, void *user, int *rc)
{
    dz_redis_lookup *lookup = calloc(1, sizeof *lookup);
    *rc = DZ_E_NOMEM;
    if (!lookup)
        return NULL;
    lookup->msg.fn = on_loop;
    pthread_mutex_init(&lookup->lock, NULL);
    lookup->refs = 2;
    lookup->loop = loop;
    lookup->fn = fn;
    lookup->user = user;
    lookup->endpoint = *endpoint;
    *rc = start_thread(lookup);
    if (*rc == 0)
        return lookup;
    drop(lookup, 2);
    return NULL;
}

void dz_redis_lookup_cancel(dz_redis_lookup *lookup, bool loop_ended)
{
    if (!lookup)
        return;
    pthread_mutex_lock(&lookup->lock);
    lookup->fn = NULL;
    /* Its message will not be delivered any more. */
    bool undelivered = lookup->posted && loop_ended;
    pthread_mutex_unlock(&lookup->lock);
    drop(lookup, undelivered ? 2 : 1);
}
