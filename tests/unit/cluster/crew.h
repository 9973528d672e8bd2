/* crew.h: a supervisor made by hand, with workers that are no processes, for the tests of crew.c
 * and reap.c. */
#ifndef DZ_TESTS_CLUSTER_CREW_H
#define DZ_TESTS_CLUSTER_CREW_H

#include "../check.h"

#include "cluster/channel.h"
#include "cluster/supervisor.h"

#include <donmaz.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PLACES = 3 };

static dz_supervisor it;
static dz_place places[PLACES];
static dz_app *app;
static char said[4096]; /* what was logged, a line each, after its level */

static inline void note_said(void *context, int level, const char *message)
{
    (void)context;
    size_t len = strlen(said);
    snprintf(said + len, sizeof said - len, "%d %s\n", level, message);
}

static inline int crew_set_up(void **state)
{
    (void)state;
    said[0] = '\0';
    app = dz_app_new();
    if (!app)
        return -1;
    dz_on_log(app, note_said, NULL);
    for (unsigned i = 0; i < PLACES; i++)
        places[i] = (dz_place){.due = UINT64_MAX};
    it = (dz_supervisor){.app = app,
                         .core = app->core,
                         .program = "test",
                         .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                         .places = places,
                         .count = PLACES};
    dz_list_init(&it.workers);
    return it.epoll_fd < 0 ? -1 : 0;
}

static inline int crew_tear_down(void **state)
{
    (void)state;
    while (!dz_list_empty(&it.workers))
        dz_worker_free(DZ_CONTAINER(it.workers.next, dz_worker, link));
    close(it.epoll_fd);
    dz_app_free(app);
    return 0;
}

/* A worker in that place; *end is its end of the channel. */
static inline dz_worker *crew_add(unsigned place, pid_t pid, enum dz_worker_state state, int *end)
{
    int ends[2];
    dz_worker *worker = calloc(1, sizeof *worker);
    assert_non_null(worker);
    assert_int_equal(dz_channel_open(ends), 0);
    *worker = (dz_worker){.place = &places[place],
                          .pid = pid,
                          .state = state,
                          .channel = ends[0],
                          .born = dz_now(),
                          .kill_at = UINT64_MAX};
    dz_list_init(&worker->link);
    dz_list_push(&it.workers, &worker->link);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = worker};
    assert_int_equal(epoll_ctl(it.epoll_fd, EPOLL_CTL_ADD, ends[0], &event), 0);
    if (state != DZ_WORKER_LEAVING)
        places[place].worker = worker;
    *end = ends[1];
    return worker;
}

/* Whether the worker was told to end. */
static inline bool crew_told_to_end(int end)
{
    char byte;
    return recv(end, &byte, 1, MSG_DONTWAIT) == 0;
}

static inline size_t crew_size(void)
{
    size_t count = 0;
    for (dz_list *link = it.workers.next; link != &it.workers; link = link->next)
        count++;
    return count;
}

/* Not inlined: its counter would be one that longjmp may lose. */
__attribute__((noinline, unused)) static size_t descriptors(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

#endif
