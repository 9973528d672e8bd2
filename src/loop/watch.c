#include "loop/loop.h"

#include <errno.h>

/* Descriptors a loop watches. */

static int control(dz_loop *loop, int op, dz_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    return epoll_ctl(loop->epoll_fd, op, watch->fd, &event) < 0 ? -errno : 0;
}

int dz_watch_start(dz_loop *loop, dz_watch *watch, int fd, uint32_t events, dz_watch_fn *fn)
{
    *watch = (dz_watch){.fn = fn, .fd = fd};
    return control(loop, EPOLL_CTL_ADD, watch, events);
}

int dz_watch_change(dz_loop *loop, dz_watch *watch, uint32_t events)
{
    return control(loop, EPOLL_CTL_MOD, watch, events);
}

void dz_watch_stop(dz_loop *loop, dz_watch *watch)
{
    control(loop, EPOLL_CTL_DEL, watch, 0);
    for (int i = loop->event_next; i < loop->event_count; i++)
        if (loop->events[i].data.ptr == watch)
            loop->events[i].data.ptr = NULL;
}
