/* request.h: a request made by hand, with an arena of as much room as a test wants. */
#ifndef DZ_TESTS_CONTENT_REQUEST_H
#define DZ_TESTS_CONTENT_REQUEST_H

#include "../check.h"

#include "http/request.h"

static dz_request *req;
static char request_memory[8192];

/* Begins it anew; beyond `room` bytes its arena asks for memory. */
static inline void request_begin(size_t room)
{
    dz_arena_reset(&req->arena);
    memset(req, 0, sizeof *req);
    dz_arena_init(&req->arena, request_memory, room);
    req->res.req = req;
}

static inline void request_make(void)
{
    req = calloc(1, sizeof *req);
    assert_non_null(req);
    dz_arena_init(&req->arena, NULL, 0);
    request_begin(sizeof request_memory);
}

static inline int request_free(void **state)
{
    (void)state;
    dz_arena_reset(&req->arena);
    free(req);
    return 0;
}

#endif
