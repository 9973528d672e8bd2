/* app.h: a service: routes, middleware, and the call that runs it.
 *
 * An app is built by one thread and then run. While it runs its handlers run on several threads at
 * once, also for one loop (a handler that computes keeps its thread, the loop goes on elsewhere):
 * data that handlers share need atomics or locks. */
#ifndef DONMAZ_APP_H
#define DONMAZ_APP_H

#include <donmaz/export.h>
#include <donmaz/http.h>
#include <donmaz/log.h>
#include <donmaz/metrics.h>
#include <donmaz/pool.h>
#include <donmaz/request.h>
#include <donmaz/response.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct dz_app dz_app;
typedef struct dz_route dz_route;

/* A handler answers a request; middleware answers or calls dz_next. Both are straight-line code on
 * a stack of their own: a call that waits parks the request, never the loop. Handlers that need
 * errno must read it before the next call that may wait. */
typedef void dz_handler(dz_request *req, dz_response *res);

/* Renders what the library itself answers: 404, 405, 413, 500, 503 and the like. `error` is a
 * DZ_E_* or -errno, 0 when there is none. */
typedef void dz_error_handler(dz_request *req, dz_response *res, int status, int error);

/* "file:line" of the line it stands on, for the functions that take a place: a string that lives as
 * long as the program, or NULL. */
#define DZ_HERE_TEXT(line) #line
#define DZ_HERE_LINE(line) DZ_HERE_TEXT(line)
#define DZ_HERE            (__FILE__ ":" DZ_HERE_LINE(__LINE__))

/* NULL: out of memory. */
DZ_API dz_app *dz_app_new(void);
/* NULL is fine. An app that still runs is stopped and waited for, as dz_app_stop and dz_app_wait
 * do; where that can't be (in one of its handlers, or while one computes on and on) it stays in
 * memory, and the log says so. */
DZ_API void dz_app_free(dz_app *app);

/* --- routes ---
 * Patterns: "/users/:id"; a last segment "*path" takes the rest of the path. HEAD is answered by
 * GET's route; OPTIONS, 404 and 405 with Allow are automatic. The functions return the route, for
 * the options below, or NULL when the pattern is bad, registered already, or memory is out; dz_run
 * then refuses to start and says which. */
DZ_API dz_route *dz_get(dz_app *app, const char *pattern, dz_handler *handler);
DZ_API dz_route *dz_post(dz_app *app, const char *pattern, dz_handler *handler);
DZ_API dz_route *dz_put(dz_app *app, const char *pattern, dz_handler *handler);
DZ_API dz_route *dz_patch(dz_app *app, const char *pattern, dz_handler *handler);
DZ_API dz_route *dz_delete(dz_app *app, const char *pattern, dz_handler *handler);
DZ_API dz_route *dz_all(dz_app *app, const char *pattern, dz_handler *handler); /* any method */

/* Middleware for the routes added to this app or group (and groups of it) from now on, in the order
 * of the calls; the app's own also runs for 404 and 405.
 *
 * Routes and middleware are fixed once the app runs: what is registered later is left out, and a
 * warning (once) names the place in the source. That is why these are macros. */
#define dz_use(app, middleware) dz_use_at(app, middleware, DZ_HERE)
DZ_API void dz_use_at(dz_app *app, dz_handler *middleware, const char *place);

/* Runs the rest: the next middleware or the handler; returns when it has. */
DZ_API void dz_next(dz_request *req, dz_response *res);

/* Called once a request has its response, in the order added, on the handler's stack: with the same
 * freedom to wait, but too late to answer. dz_res_status tells what was answered. Not for requests
 * that no route or middleware saw (malformed ones, 503 for want of memory).
 *
 * A hook stays until the app is freed. One that is added while the app runs takes part from the
 * next request on, which is nearly always a mistake: each request then adds its own, and every
 * later one calls them all. A warning (once) names the place; another one does when there are more
 * than --hooks-max (10). Any thread. 0, DZ_E_NOMEM, DZ_E_INVALID. */
typedef void dz_hook(dz_request *req, dz_response *res, void *data);
#define dz_after(app, hook, data) dz_after_at(app, hook, data, DZ_HERE)
DZ_API int dz_after_at(dz_app *app, dz_hook *hook, void *data, const char *place);

/* A view of the app for routes below `prefix`, with middleware of its own after the app's. Freed
 * with the app. NULL like the routes. */
DZ_API dz_app *dz_group(dz_app *app, const char *prefix);

/* --- options of a route; NULL routes are passed over --- */

/* Middleware for this route alone, after the app's and the group's. */
#define dz_route_use(route, middleware) dz_route_use_at(route, middleware, DZ_HERE)
DZ_API dz_route *dz_route_use_at(dz_route *route, dz_handler *middleware, const char *place);

/* The handler computes or blocks: always run it on a worker, from the first request on. */
DZ_API dz_route *dz_blocking(dz_route *route);

/* Always start the handler on the loop, however long it was seen to compute. (If it computes too
 * long it is still rescued.) */
DZ_API dz_route *dz_inline(dz_route *route);

/* The largest body in bytes: 413 above. Default: the app's. */
DZ_API dz_route *dz_body_limit(dz_route *route, uint64_t bytes);

/* --- the app's settings; a NULL app is passed over --- */

/* A pointer for dz_req_data. */
DZ_API void dz_app_set_data(dz_app *app, void *data);

/* Replaces the default rendering of errors: {"error": "Not Found"}. */
DZ_API void dz_on_error(dz_app *app, dz_error_handler *handler);

/* A line about the running service: `level` is 20 debug, 30 info, 40 warn, 50 error. Without it
 * such lines go to the app's logger, and without that nowhere. Called on any thread. */
typedef void dz_log_handler(void *context, int level, const char *message);
DZ_API void dz_on_log(dz_app *app, dz_log_handler *handler, void *context);

/* The logger of the app, for its lines, its handlers' and the request log. dz_run opens one as
 * --log and the other options say, unless it was given one here before. It stays the caller's, and
 * must outlive the app. Before the app starts. */
DZ_API void dz_app_set_logger(dz_app *app, dz_logger *logger);
/* NULL: none (yet). For lines that belong to no request. */
DZ_API dz_logger *dz_app_logger(const dz_app *app);

/* The app's metrics: what the library measures of it is in there, and what pools, clients and the
 * program register is shown with it at /metrics (--admin). Lives as long as the app; what is
 * registered must too, or be taken out by dz_metrics_forget; dz_on_stop is a place for that. */
DZ_API dz_metrics *dz_app_metrics(dz_app *app);
DZ_API dz_metrics *dz_req_metrics(const dz_request *req);

/* A setting of the program's own for dz_run: --name VALUE or DONMAZ_NAME; *value (holding the
 * default) is set before the app starts. A flag has `value_name` NULL and is set to "1", or to NULL
 * by a word that says no (--name=off, DONMAZ_NAME=0). All strings must outlive the app. */
DZ_API void dz_app_option(dz_app *app, const char *name, const char *value_name, const char *help,
                          const char **value);

/* Sets one of the settings of --help by name, as if given on the command line, which goes before
 * it: dz_app_set(app, "rescue-after", "0"). DZ_E_NOT_FOUND, DZ_E_INVALID. */
DZ_API int dz_app_set(dz_app *app, const char *name, const char *value);

/* Called when the options are known, before any socket is opened: the place to start what the
 * handlers need. A negative return ends dz_run. In every process of --processes. */
DZ_API void dz_on_start(dz_app *app, int (*start)(dz_app *app, void *data));
/* Called after the last request, before dz_run returns; in every process of --processes. */
DZ_API void dz_on_stop(dz_app *app, void (*stop)(dz_app *app, void *data));

/* --- running --- */

/* Reads the settings (argv, then DONMAZ_*), listens, serves until SIGTERM or SIGINT, drains, and
 * frees the app and returns the exit code: 0, 1 when it could not run (the reason is on stderr), 2
 * for unusable arguments. A second signal ends at once. SIGUSR1 opens the log file anew; SIGHUP
 * does the same, and with --processes also replaces the workers one after the other. Blocks these
 * four in the calling thread, ignores SIGPIPE, and reports stack overflows on SIGSEGV. With
 * --processes it must be called before the program has other threads: it forks. Workers then end
 * inside it, and what follows it happens once, in their supervisor. */
DZ_API int dz_run(dz_app *app, int argc, char **argv);

/* The same without signals, arguments and messages: starts the threads and returns. *port is set to
 * the port listened on (0 was asked for any). 0 or a negative error. */
DZ_API int dz_app_start(dz_app *app, unsigned *port);

/* Any thread, also a handler: stop accepting, finish the requests, then the threads. Again: nothing
 * more. Must return before the app is freed. */
DZ_API void dz_app_stop(dz_app *app);

/* Waits for the end that dz_app_stop began, at most until the drain timeout; what still runs is
 * then cut. DZ_E_TIMEOUT: handlers still compute, and nothing of the app may be freed; it may be
 * called again. DZ_E_STATE: never started, or called by one of its handlers. */
DZ_API int dz_app_wait(dz_app *app);

/* --- waiting in handlers --- */

/* Parks the request for `ms` milliseconds; the loop serves others. DZ_E_STATE: not in a handler.
 * DZ_E_SHUTDOWN: the drain timeout has passed, return soon. DZ_E_NOMEM: did not sleep. */
DZ_API int dz_sleep(uint64_t ms);

#endif
