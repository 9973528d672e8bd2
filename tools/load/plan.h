/* plan.h: what a run does, decided before it starts and only read while it runs. */
#ifndef DZ_LOAD_PLAN_H
#define DZ_LOAD_PLAN_H

#include "load/message.h"

#include <donmaz/slice.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { LOAD_ADDRESSES = 8 };

typedef struct load_address {
    struct sockaddr_storage name;
    socklen_t len;
} load_address;

/* Where connections go. */
typedef struct load_origin {
    char *host;             /* as in the URL, IPv6 without brackets; owned */
    char *authority;        /* for the Host field: host[:port], IPv6 in brackets; owned */
    char *port;             /* owned */
    const char *unix_path;  /* connect here instead; NULL: by host and port */
    const char *servername; /* for SNI and verification when not the host; NULL: the host */
    bool tls;
    load_address addresses[LOAD_ADDRESSES];
    size_t address_count;
    atomic_size_t preferred; /* the address that last accepted */
    atomic_bool reached;     /* a connection was established at least once */
} load_origin;

typedef struct load_endpoint {
    char *url, *method, *path; /* as shown in reports; owned */
    size_t origin;             /* index into the plan's origins */
    load_message message;      /* what is sent */
    unsigned expect_status;    /* 0: any */
    dz_slice expect_body;      /* ptr NULL: any */
    char *expect_owned;        /* memory behind expect_body; may be NULL */
    bool head_only;            /* HEAD: responses have no body */
    size_t connections;        /* for reports: connections that send to it */
    unsigned weight;           /* among the endpoints of its group */
} load_endpoint;

/* Connections that share endpoints, a schedule, and a budget. */
typedef struct load_group {
    size_t first_endpoint, endpoint_count; /* a range of the plan's endpoints, one origin */
    size_t connections;
    double rate;     /* requests a second over all its connections; 0: as fast as answered */
    uint64_t amount; /* requests in all; UINT64_MAX: no end */
} load_group;

typedef struct load_tls_options {
    bool insecure;
    const char *ca, *cert, *key; /* files; NULL: none */
} load_tls_options;

typedef struct load_plan {
    const char *name; /* of the phase; NULL without phases */
    char *name_owned; /* the memory behind it */
    load_origin *origins;
    size_t origin_count;
    load_endpoint *endpoints;
    size_t endpoint_count;
    load_group *groups;
    size_t group_count;
    size_t connections; /* of all groups */
    size_t threads;
    uint64_t warmup;              /* nanoseconds, before anything counts */
    uint64_t duration;            /* nanoseconds; UINT64_MAX: until the amount is done */
    uint64_t timeout;             /* nanoseconds a response may take */
    uint64_t interval;            /* nanoseconds of one req/s sample */
    size_t pipelining;            /* requests in flight on one connection */
    bool shared_schedule;         /* --open: any free connection takes the next request due */
    bool scheduled;               /* some group has a rate */
    bool skip_errors;             /* -x: latency and bytes of 2xx only */
    uint64_t reconnect_after;     /* requests, then a new connection; 0: never */
    uint64_t most_per_connection; /* requests of one connection; UINT64_MAX: no end */
    uint64_t bailout;             /* failures that end the run; 0: none do */
    load_tls_options tls;
    load_feed_rows *rows; /* CSV data for templates; NULL: none */
} load_plan;

#endif
