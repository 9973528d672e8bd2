/* app.h: the inside of dz_app. */
#ifndef DZ_APP_APP_H
#define DZ_APP_APP_H

#include "app/meter.h"
#include "app/route.h"
#include "app/router.h"
#include "http/server.h"
#include "loop/runtime.h"
#include "pool/pool.h"

#include <donmaz/app.h>
#include <donmaz/shed.h>

#include <pthread.h>
#include <stdatomic.h>

typedef struct dz_settings {
    const char *host;
    uint64_t port, loops, processes, workers;
    uint64_t rescue_after_ns, rescue_max, demote_after_ns, demote_nice;
    uint64_t body_max, head_max, connections_max, stack_size;
    uint64_t header_timeout_ns, idle_timeout_ns, body_timeout_ns, write_timeout_ns;
    uint64_t drain_timeout_ns;
    uint64_t hooks_max;
    bool quiet, rescue_backtrace;
    const char *shed; /* NULL: not said */
    uint64_t shed_wait_ns, shed_wait_max_ns, shed_lag_max_ns, shed_in_flight_max, shed_rss_max;
    uint64_t shed_retry_after_ns, shed_close_every;
    const char *shed_body;
    const char *log, *log_redact, *request_id_header, *admin;
    uint64_t log_level;
    bool log_block, log_query, request_log;
} dz_settings;

typedef struct dz_user_option {
    const char *name, *value_name, *help;
    const char **value;
    struct dz_user_option *next;
} dz_user_option;

typedef struct dz_shedding dz_shedding;

/* What a layer above the app keeps with it; freed first, before pools and loops. */
typedef struct dz_part {
    dz_list link;
    void (*free)(struct dz_part *part);
} dz_part;

/* One dz_after. */
typedef struct dz_after_hook {
    dz_hook *hook;
    void *data;
    const char *place; /* "file:line", static; NULL unknown */
    struct dz_after_hook *next;
} dz_after_hook;

/* What was warned of: each once. */
enum {
    DZ_WARNED_USE = 1,
    DZ_WARNED_ROUTE = 2,
    DZ_WARNED_AFTER = 4,
    DZ_WARNED_CROWDED = 8,
};

/* What all groups of an app share. */
typedef struct dz_core {
    dz_settings settings;
    dz_shedding *shed; /* NULL: nothing is protected */
    const char *shed_type;
    dz_slice shed_text;           /* .ptr NULL: rendered like other errors */
    dz_user_option *user_options; /* newest first */
    dz_router *router;
    dz_list routes;                   /* dz_route.link */
    dz_list groups;                   /* dz_app.link */
    dz_list parts;                    /* dz_part.link */
    struct dz_compressor *compressor; /* dz_use_compress's; a part, too */
    dz_route not_found, not_allowed, options, overloaded;
    const char *build_error; /* the first route that could not be added, and why */
    int build_error_code;
    dz_error_handler *on_error;
    dz_log_handler *on_log;
    void *log_context;
    dz_logger *logger; /* NULL: none */
    bool owns_logger;
    dz_metrics *metrics;
    struct dz_exposure *exposure; /* metrics.c */
    dz_meter *meter;              /* from dz_app_start on */
    char id_start[12];            /* of the ids made in this process, terminated */
    void *data;
    int (*on_start)(dz_app *, void *);
    void (*on_stop)(dz_app *, void *);

    struct {
        dz_after_hook *first, *last;
        _Atomic size_t count;
        pthread_mutex_t lock; /* of those that add */
    } after;
    _Atomic bool sealed; /* started: middleware and routes stay as they are */
    bool running;        /* its threads live: dz_app_start to the end of dz_app_wait */
    _Atomic unsigned warned;

    dz_runtime *runtime;
    dz_server *server;
    dz_pool *medium, *heavy;       /* run the handlers of learned and blocking routes */
    dz_spread spread;              /* of those two */
    int listen_fd;                 /* given by a supervisor, else -1 */
    int adopt_fd;                  /* where a supervisor sends connected sockets, else -1 */
    _Atomic uint64_t *given_back;  /* see dz_server_adopt_from */
    int backtrace_signal;          /* 0: none */
    _Atomic uint64_t next_warning; /* monotonic ns */
    _Atomic uint64_t warnings_held;
} dz_core;

/* The app itself or a group of it. */
struct dz_app {
    dz_core *core;
    dz_app *parent; /* NULL: the app itself */
    char *prefix;
    dz_handler **middleware; /* its own, after its parent's */
    size_t middleware_count;
    dz_list link;
};

/* What the app keeps of one request, in the request's arena. */
typedef struct dz_call {
    dz_core *core;
    dz_request *req;
    const dz_route *route;
    dz_job job;             /* when the handler runs on a worker */
    bool counted;           /* shed.c: let in, to be given back */
    dz_shed_reason refused; /* why it is not served; of its chain only what leads to dz_shed runs */
    uint64_t lagged_ns;     /* it may have waited so long to be read */
    const dz_route *matched; /* what the request is counted under */
    dz_slice id;             /* empty: not asked for yet */
    dz_slice bound;          /* members of its log lines, by dz_log_bind */
    dz_slice child;          /* its id and those, as members; empty: not made yet */
    bool rescued, kept;
    dz_slice method, url; /* for the request log, once kept */
    dz_route_match match;
} dz_call;

static inline dz_call *dz_call_of(const dz_request *req)
{
    return req->app;
}

/* app.c: makes dz_run refuse to start and say that `what` (which must outlive the app) failed. */
void dz_core_fail_build(dz_core *core, const char *what, int code);

/* builtin.c: the routes that answer without a match. */
void dz_core_init_builtin(dz_core *core);
/* Gives them the app's own middleware, as it is now. DZ_E_NOMEM. */
int dz_core_build_builtin(dz_app *app);

/* register.c: makes route->chain of the middleware of `app` (NULL: none), its groups', and
 * `handler`. DZ_E_NOMEM. */
int dz_route_build_chain(dz_route *route, const dz_app *app, dz_handler *handler);

/* dispatch.c */
void dz_dispatch_start(void *context, dz_request *req);

/* shed.c */
/* NULL, or what is wrong with the settings (static). */
const char *dz_shed_complain(const dz_core *core);
/* With the runtime made, before it starts: makes core->shed if anything is to be protected. */
int dz_shed_start(dz_core *core);
void dz_shed_free(dz_core *core);
/* On the loop: whether the request goes on; otherwise it is answered, or its fiber will do it. */
typedef enum dz_admission { DZ_ADMITTED, DZ_REFUSED_WITH_FIBER, DZ_REFUSED } dz_admission;
dz_admission dz_shed_admit(dz_request *req);
/* On the loop: the request let in has ended; `fiber` is NULL when it never got one. */
void dz_shed_leave(dz_request *req, const dz_fiber *fiber);
/* On the handler's stack, before it runs: true when it was refused, or has waited too long, and is
 * answered. False also when dz_shed in its chain will answer it. */
bool dz_shed_at_turn(dz_request *req);

/* hooks.c */
/* From now on registering is too late. */
void dz_core_seal(dz_core *core);
/* Whether it is too late; then warns once for this `kind` (DZ_WARNED_*). `place` may be NULL. */
bool dz_core_sealed(dz_core *core, unsigned kind, const char *what, const char *place);
void dz_core_run_after(dz_core *core, dz_request *req);
void dz_core_free_hooks(dz_core *core);

/* log.c */
void dz_core_log(dz_core *core, int level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void dz_core_warn_rescue(dz_core *core, const dz_route *route, const dz_fiber *fiber);

/* logging.c: opens the logger that the settings ask for, unless the app has one. DZ_E_INVALID for a
 * redaction list that can't be, -errno of the file. */
int dz_core_open_log(dz_core *core);
/* Waits for the log's lines to be written; before the process ends otherwise than by exit(). */
void dz_core_flush_log(const dz_core *core, unsigned timeout_ms);

/* request_log.c: for dz_service. */
void dz_core_request_ended(void *context, dz_request *req);
void dz_core_request_refused(void *context, int status);
/* Copies what the request log will say of the head. The log's line is written when the response is,
 * and by then the connection has used the head's memory for what came after it. To be called when
 * the handler is done. */
void dz_core_keep_head(dz_core *core, dz_request *req);
/* Begins the ids of this process. */
void dz_core_start_ids(dz_core *core);

/* metrics.c: makes the app's registry, whose text has all that is measured of it. DZ_E_NOMEM. */
int dz_core_make_metrics(dz_core *core);
void dz_core_free_metrics(dz_core *core);
/* process.c: adds the figures of this process. */
int dz_metrics_add_process(dz_metrics *metrics);

/* response.c: as dz_res_header_slice, also where no handler runs. */
int dz_core_set_header(dz_response *res, dz_slice name, dz_slice value);

/* error.c */
void dz_core_render_error(dz_request *req, dz_response *res, int status, int error);

/* settings.c */
void dz_settings_init(dz_settings *settings);
/* Sets one by name. DZ_E_NOT_FOUND, DZ_E_INVALID. */
int dz_settings_set(dz_settings *settings, const char *name, const char *value);
/* command_line.c: reads DONMAZ_* and argv. Returns -1 to go on, or the exit code: 0 after
 * --help, 2. */
int dz_settings_parse(dz_app *app, int argc, char **argv);

/* fault.c: reports a stack overflow by route. For dz_run. */
void dz_fault_install(void);
/* Installs the handler that notes where a rescued handler is; returns its signal. For dz_run. */
int dz_fault_install_backtrace(void);

/* listen.c: a listening socket as the settings say, and its port; -errno. */
int dz_core_listen(const dz_core *core, unsigned *port);

#endif
