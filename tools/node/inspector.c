#include "inspector.h"

#include "ws.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

/* What a request was: an id is its thread's index times PURPOSES, plus this. */
enum purpose { OTHER, START, STOP, EVALUATE, COLLECT, PURPOSES = 8 };

struct dz_inspector {
    dz_ws *ws;
    pid_t pid;
    bool gone;
    unsigned interval_us; /* 0: not profiling */
    dz_js_thread *threads;
    size_t count, cap;
    const char *on_worker;
    size_t collecting; /* answers to come */
    int evaluated;     /* -1 waiting, 0 exception, 1 well */
};

static void on_message(void *arg, dz_slice text);
static void wait_a_little(dz_inspector *in);
static void stop_thread(dz_inspector *in, size_t thread);
static void evaluate(dz_inspector *in, size_t thread, enum purpose purpose, const char *expression);

static dz_js_thread *add_thread(dz_inspector *in, const char *session, const char *title)
{
    if (in->count == in->cap) {
        size_t cap = in->cap ? in->cap * 2 : 4;
        dz_js_thread *more = reallocarray(in->threads, cap, sizeof *more);
        if (!more)
            return NULL;
        in->threads = more;
        in->cap = cap;
    }
    dz_js_thread *t = &in->threads[in->count++];
    memset(t, 0, sizeof *t);
    snprintf(t->session, sizeof t->session, "%s", session);
    snprintf(t->title, sizeof t->title, "%s", title);
    return t;
}

int dz_inspector_open(dz_inspector **out, pid_t pid, const char *url, unsigned timeout_ms)
{
    dz_inspector *in = calloc(1, sizeof *in);
    if (!in)
        return DZ_E_NOMEM;
    in->pid = pid;
    int rc = add_thread(in, "", "main") ? 0 : DZ_E_NOMEM;
    if (rc == 0)
        rc = dz_ws_open(&in->ws, url, timeout_ms, on_message, in);
    if (rc < 0) {
        dz_inspector_close(in);
        return rc;
    }
    *out = in;
    return 0;
}

void dz_inspector_close(dz_inspector *in)
{
    if (!in)
        return;
    dz_ws_close(in->ws);
    for (size_t i = 0; i < in->count; i++) {
        json_decref(in->threads[i].profile);
        if (in->threads[i].parts)
            fclose(in->threads[i].parts);
    }
    free(in->threads);
    free(in);
}

void dz_inspector_hang_up(dz_inspector *in)
{
    dz_ws_close(in->ws);
    in->ws = NULL;
    in->gone = true;
}

pid_t dz_inspector_pid(const dz_inspector *in)
{
    return in->pid;
}

int dz_inspector_fd(const dz_inspector *in)
{
    return in->gone ? -1 : dz_ws_fd(in->ws);
}

short dz_inspector_events(const dz_inspector *in)
{
    return !in->gone && dz_ws_wants_write(in->ws) ? POLLIN | POLLOUT : POLLIN;
}

bool dz_inspector_gone(const dz_inspector *in)
{
    return in->gone;
}

size_t dz_inspector_threads(const dz_inspector *in)
{
    return in->count;
}

const dz_js_thread *dz_inspector_thread(const dz_inspector *in, size_t at)
{
    return &in->threads[at];
}

static void send_json(dz_inspector *in, json_t *message)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    json_decref(message);
    if (text && !in->gone)
        dz_ws_send(in->ws, dz_slice_of(text));
    free(text);
}

/* Takes `params`. For a worker the request travels as text inside a request to its parent. */
static void call(dz_inspector *in, size_t thread, enum purpose purpose, const char *method,
                 json_t *params)
{
    const dz_js_thread *t = &in->threads[thread];
    size_t number = thread * PURPOSES + (size_t)purpose;
    json_int_t id = (json_int_t)number;
    json_t *m = json_pack("{s:I, s:s, s:o*}", "id", id, "method", method, "params", params);
    if (!t->session[0]) {
        send_json(in, m);
        return;
    }
    char *text = m ? json_dumps(m, JSON_COMPACT) : NULL;
    json_decref(m);
    if (text)
        send_json(in, json_pack("{s:i, s:s, s:{s:s, s:s}}", "id", OTHER, "method",
                                "NodeWorker.sendMessageToWorker", "params", "sessionId", t->session,
                                "message", text));
    free(text);
}

static void start_thread(dz_inspector *in, size_t thread)
{
    in->threads[thread].state = DZ_JS_STARTING;
    in->threads[thread].since = dz_now();
    call(in, thread, OTHER, "Profiler.enable", NULL);
    call(in, thread, OTHER, "Profiler.setSamplingInterval",
         json_pack("{s:i}", "interval", (int)in->interval_us));
    call(in, thread, START, "Profiler.start", NULL);
}

void dz_inspector_profile_start(dz_inspector *in, unsigned interval_us)
{
    in->interval_us = interval_us;
    for (size_t i = 0; i < in->count; i++)
        start_thread(in, i);
    call(in, 0, OTHER, "NodeWorker.enable", json_pack("{s:b}", "waitForDebuggerOnStart", 0));
    dz_inspector_pump(in);
}

void dz_inspector_profile_stop(dz_inspector *in)
{
    in->interval_us = 0;
    /* Workers first: the main thread passes their answers on. */
    for (size_t i = in->count; i-- > 0;)
        stop_thread(in, i);
    dz_inspector_pump(in);
}

bool dz_inspector_busy(const dz_inspector *in)
{
    if (in->gone)
        return false;
    for (size_t i = 0; i < in->count; i++) {
        const dz_js_thread *t = &in->threads[i];
        if (!t->gone && (t->state == DZ_JS_STARTING || t->state == DZ_JS_STOPPING))
            return true;
    }
    return false;
}

static void evaluate(dz_inspector *in, size_t thread, enum purpose purpose, const char *expression)
{
    call(in, thread, purpose, "Runtime.evaluate",
         json_pack("{s:s, s:b, s:b, s:b}", "expression", expression, "includeCommandLineAPI", 1,
                   "silent", 1, "returnByValue", 1));
}

void dz_inspector_evaluate(dz_inspector *in, const char *expression)
{
    evaluate(in, 0, EVALUATE, expression);
    dz_inspector_pump(in);
}

void dz_inspector_on_worker(dz_inspector *in, const char *expression)
{
    in->on_worker = expression;
}

static size_t find_worker(const dz_inspector *in, unsigned number)
{
    for (size_t i = 1; i < in->count; i++)
        if (!in->threads[i].gone && in->threads[i].number == number)
            return i;
    return 0;
}

static void stop_thread(dz_inspector *in, size_t thread)
{
    dz_js_thread *t = &in->threads[thread];
    if (t->gone || (t->state != DZ_JS_RUNNING && t->state != DZ_JS_STARTING))
        return;
    t->state = DZ_JS_STOPPING;
    call(in, thread, STOP, "Profiler.stop", NULL);
}

/* Both requests wait in the worker one behind the other, so next to nothing runs unseen. */
void dz_inspector_save_workers(dz_inspector *in)
{
    uint64_t now = dz_now();
    for (size_t i = 1; i < in->count; i++) {
        dz_js_thread *t = &in->threads[i];
        if (t->gone || t->state != DZ_JS_RUNNING || t->due || now - t->since < DZ_SEC)
            continue;
        t->since = now;
        t->due++;
        call(in, i, STOP, "Profiler.stop", NULL);
        call(in, i, START, "Profiler.start", NULL);
    }
}

/* To a file, as a worker may live for hours. */
static void save_part(dz_js_thread *t, const json_t *profile)
{
    if (!t->parts)
        t->parts = tmpfile();
    if (profile && t->parts && json_dumpf(profile, t->parts, JSON_COMPACT) == 0)
        putc('\n', t->parts);
}

bool dz_inspector_worker_stop(dz_inspector *in, unsigned number)
{
    size_t thread = find_worker(in, number);
    if (thread == 0)
        return true;
    stop_thread(in, thread);
    dz_inspector_pump(in);
    return in->threads[thread].state != DZ_JS_STOPPING;
}

void dz_inspector_worker_evaluate(dz_inspector *in, unsigned number, const char *expression)
{
    size_t thread = find_worker(in, number);
    if (thread > 0)
        evaluate(in, thread, OTHER, expression);
    dz_inspector_pump(in);
}

bool dz_inspector_evaluate_wait(dz_inspector *in, const char *expression, unsigned timeout_ms)
{
    uint64_t deadline = dz_now() + timeout_ms * DZ_MS;
    in->evaluated = -1;
    dz_inspector_evaluate(in, expression);
    while (in->evaluated < 0 && !in->gone && dz_now() < deadline) {
        wait_a_little(in);
    }
    return in->evaluated == 1;
}

static void wait_a_little(dz_inspector *in)
{
    struct pollfd p = {.fd = dz_inspector_fd(in), .events = dz_inspector_events(in)};
    poll(&p, 1, 10);
    dz_inspector_pump(in);
}

bool dz_inspector_collect_garbage(dz_inspector *in, unsigned timeout_ms)
{
    uint64_t deadline = dz_now() + timeout_ms * DZ_MS;
    in->collecting = 0;
    for (size_t i = 0; i < in->count; i++)
        if (!in->threads[i].gone) {
            call(in, i, COLLECT, "HeapProfiler.collectGarbage", NULL);
            in->collecting++;
        }
    while (in->collecting && !in->gone && dz_now() < deadline)
        wait_a_little(in);
    return in->collecting == 0;
}

static void on_answer(dz_inspector *in, json_int_t id, json_t *message)
{
    size_t thread = (size_t)id / PURPOSES;
    if (id < 0 || thread >= in->count)
        return;
    dz_js_thread *t = &in->threads[thread];
    json_t *result = json_object_get(message, "result");
    switch ((enum purpose)((size_t)id % PURPOSES)) {
    case START:
        if (t->state == DZ_JS_STARTING)
            t->state = result ? DZ_JS_RUNNING : DZ_JS_DONE;
        break;
    case STOP:
        if (t->due) {
            t->due--;
            save_part(t, json_object_get(result, "profile"));
            break;
        }
        t->state = DZ_JS_DONE;
        if (!t->profile)
            t->profile = json_incref(json_object_get(result, "profile"));
        break;
    case EVALUATE:
        in->evaluated = result && !json_object_get(result, "exceptionDetails");
        break;
    case COLLECT:
        in->collecting -= in->collecting > 0;
        break;
    default:
        break;
    }
}

static dz_js_thread *find_session(dz_inspector *in, const char *session)
{
    for (size_t i = 1; session && i < in->count; i++)
        if (!in->threads[i].gone && strcmp(in->threads[i].session, session) == 0)
            return &in->threads[i];
    return NULL;
}

static void on_event(dz_inspector *in, const char *method, json_t *params)
{
    const char *session = json_string_value(json_object_get(params, "sessionId"));
    if (!session)
        return;
    if (strcmp(method, "NodeWorker.attachedToWorker") == 0) {
        json_t *info = json_object_get(params, "workerInfo");
        const char *title = json_string_value(json_object_get(info, "title"));
        dz_js_thread *t = add_thread(in, session, title ? title : "worker");
        if (!t)
            return;
        /* "Worker 3" or "[worker 3] name": its threadId is the first number. */
        const char *digit = strpbrk(t->title, "0123456789");
        t->number = digit ? (unsigned)strtoul(digit, NULL, 10) : 0;
        if (in->interval_us)
            start_thread(in, in->count - 1);
        if (in->on_worker)
            evaluate(in, in->count - 1, OTHER, in->on_worker);
    } else if (strcmp(method, "NodeWorker.detachedFromWorker") == 0) {
        dz_js_thread *t = find_session(in, session);
        if (t)
            t->gone = true;
    } else if (strcmp(method, "NodeWorker.receivedMessageFromWorker") == 0) {
        const char *text = json_string_value(json_object_get(params, "message"));
        if (text)
            on_message(in, dz_slice_of(text));
    }
}

static void on_message(void *arg, dz_slice text)
{
    dz_inspector *in = arg;
    json_t *message = json_loadb(text.ptr, text.len, 0, NULL);
    if (!message)
        return; /* nothing we asked for is malformed; whatever it is, it is not for us */
    json_t *id = json_object_get(message, "id");
    const char *method = json_string_value(json_object_get(message, "method"));
    if (json_is_integer(id))
        on_answer(in, json_integer_value(id), message);
    else if (method)
        on_event(in, method, json_object_get(message, "params"));
    json_decref(message);
}

void dz_inspector_pump(dz_inspector *in)
{
    if (!in->gone && dz_ws_pump(in->ws) < 0)
        in->gone = true;
}

int dz_inspector_find(unsigned port, bool six, unsigned timeout_ms, char *url, size_t cap)
{
    char *body = NULL;
    int rc = dz_ws_http_get(port, six, "/json/list", timeout_ms, &body);
    if (rc < 0)
        return rc;
    json_t *list = json_loads(body, 0, NULL);
    free(body);
    const char *id = json_string_value(json_object_get(json_array_get(list, 0), "id"));
    if (id && strlen(id) < 100)
        snprintf(url, cap, six ? "ws://[::1]:%u/%s" : "ws://127.0.0.1:%u/%s", port, id);
    json_decref(list);
    return id ? 0 : DZ_E_NOT_FOUND;
}
