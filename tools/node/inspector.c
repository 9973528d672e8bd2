#include "inspecting.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static void on_message(void *arg, dz_slice text);
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
void dz_inspector_call(dz_inspector *in, size_t thread, enum purpose purpose, const char *method,
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

static void evaluate(dz_inspector *in, size_t thread, enum purpose purpose, const char *expression)
{
    dz_inspector_call(in, thread, purpose, "Runtime.evaluate",
                      json_pack("{s:s, s:b, s:b, s:b}", "expression", expression,
                                "includeCommandLineAPI", 1, "silent", 1, "returnByValue", 1));
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

size_t dz_inspector_worker(const dz_inspector *in, unsigned number)
{
    for (size_t i = 1; i < in->count; i++)
        if (!in->threads[i].gone && in->threads[i].number == number)
            return i;
    return 0;
}

void dz_inspector_worker_evaluate(dz_inspector *in, unsigned number, const char *expression)
{
    size_t thread = dz_inspector_worker(in, number);
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
        dz_inspector_await(in);
    }
    return in->evaluated == 1;
}

void dz_inspector_await(dz_inspector *in)
{
    struct pollfd p = {.fd = dz_inspector_fd(in), .events = dz_inspector_events(in)};
    poll(&p, 1, 10);
    dz_inspector_pump(in);
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
            dz_inspector_keep_part(t, json_object_get(result, "profile"));
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
            dz_inspector_start_thread(in, in->count - 1);
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
