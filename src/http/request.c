#include "http/conn.h"

#include <stdlib.h>

/* A request and its arena's first block are one allocation of REQUEST_SIZE bytes: room for the
 * header fields and a small response. */
enum { REQUEST_SIZE = 8192, FREE_REQUESTS = 256 };

dz_request *dz_request_new(dz_conn *conn)
{
    dz_server_loop *home = conn->home;
    dz_list *link = dz_list_shift(&home->free_requests);
    dz_request *req;
    if (link) {
        req = DZ_CONTAINER(link, dz_request, link);
        home->free_request_count--;
    } else {
        req = malloc(REQUEST_SIZE);
        if (!req)
            return NULL;
    }
    memset(req, 0, sizeof *req);
    dz_list_init(&req->link);
    dz_arena_init(&req->arena, req->first, REQUEST_SIZE - sizeof *req);
    req->conn = conn;
    req->loop = home->loop;
    req->res.req = req;
    dz_list_init(&req->out_more);
    req->head.headers =
        dz_arena_alloc(&req->arena, home->server->options.head.headers_max * sizeof(dz_header));
    if (!req->head.headers) {
        dz_request_free(req);
        return NULL;
    }
    return req;
}

void dz_request_free(dz_request *req)
{
    dz_server_loop *home = req->conn->home;
    dz_buf_release(&req->body.whole);
    free(req->head_bytes);
    dz_arena_reset(&req->arena);
    if (home->free_request_count >= FREE_REQUESTS) {
        free(req);
        return;
    }
    dz_list_push(&home->free_requests, &req->link);
    home->free_request_count++;
}

void dz_request_release(dz_request *req)
{
    if (!req->handler_done || req->out_pending > 0)
        return;
    const dz_service *service = &req->conn->home->server->service;
    if (service->ended)
        service->ended(service->context, req);
    dz_request_free(req);
}

void dz_request_note_gone(dz_request *req)
{
    atomic_store_explicit(&req->gone, true, memory_order_relaxed);
    if (req->fiber && req->fiber->abandoned)
        req->fiber->abandoned(req->fiber);
}
