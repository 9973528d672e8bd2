/* content_server.c: files, conditional requests and compression for the wire tests.
 *
 *   GET /files/...     the folder --root, with Cache-Control
 *   GET /app/...       the same with a fallback and /.well-known
 *   GET /send/:name... dz_send_file: private, as a download
 *   any /doc           a text that PUT replaces and DELETE removes, guarded by preconditions
 *   GET /tag/:tag      a body with that ETag and a fixed Last-Modified
 *   GET /weak/:tag     the same, weak
 *   GET /hash/:n       n bytes, tag computed; /hashweak/:n with a weak one
 *   GET /tagstream     a stream with a tag; /plainstream without
 *   GET /z/json/:n     n bytes of JSON, compressed; the tag computed before
 *   GET /z/png/:n      n bytes of image/png
 *   GET /z/coded       has a Content-Encoding; /z/fixed: no-transform; /z/vary: varies on Origin
 *   GET /z/stream/:n   n lines streamed one by one; /z/events: an event stream
 *   GET /z/big/:n      n bytes streamed in pieces of 64 KB
 *   GET /stats         what was compressed */
#include <donmaz.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *root = ".";
static dz_files *private_files;

static size_t number(dz_request *req, const char *name)
{
    char text[24] = {0};
    dz_slice value = dz_req_param(req, name);
    memcpy(text, value.ptr, value.len < sizeof text - 1 ? value.len : sizeof text - 1);
    return strtoul(text, NULL, 10);
}

/* --- a document --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char doc[1024];
static size_t doc_len;
static unsigned version; /* 0: there is none */

static void tag_doc(dz_response *res)
{
    char tag[16];
    snprintf(tag, sizeof tag, "v%u", version);
    if (version)
        dz_res_etag(res, dz_slice_of(tag), false);
}

static void get_doc(dz_request *req, dz_response *res)
{
    (void)req;
    pthread_mutex_lock(&lock);
    if (version) {
        tag_doc(res);
        dz_send_bytes(res, 200, "text/plain", dz_slice_make(doc, doc_len));
    } else {
        dz_send_error(res, 404, 0);
    }
    pthread_mutex_unlock(&lock);
}

static void put_doc(dz_request *req, dz_response *res)
{
    dz_slice body;
    if (dz_req_body(req, &body) < 0)
        return;
    pthread_mutex_lock(&lock);
    tag_doc(res);
    if (dz_preconditions(req, res, version > 0)) {
        static unsigned next;
        doc_len = body.len < sizeof doc ? body.len : sizeof doc;
        memcpy(doc, body.ptr, doc_len);
        int status = version ? 200 : 201;
        version = ++next;
        tag_doc(res);
        dz_send_status(res, status);
    }
    pthread_mutex_unlock(&lock);
}

static void delete_doc(dz_request *req, dz_response *res)
{
    pthread_mutex_lock(&lock);
    tag_doc(res);
    if (dz_preconditions(req, res, version > 0)) {
        version = 0;
        dz_send_status(res, 204);
    }
    pthread_mutex_unlock(&lock);
}

/* --- tags --- */

static void tagged(dz_request *req, dz_response *res, bool weak)
{
    dz_res_etag(res, dz_req_param(req, "tag"), weak);
    dz_res_last_modified(res, 784111777); /* Sun, 06 Nov 1994 08:49:37 GMT */
    dz_res_header(res, "Cache-Control", "max-age=60");
    dz_res_header(res, "X-Custom", "kept");
    dz_send_text(res, 200, "the body");
}

static void strong_tag(dz_request *req, dz_response *res)
{
    tagged(req, res, false);
}

static void weak_tag(dz_request *req, dz_response *res)
{
    tagged(req, res, true);
}

static void hashed(dz_request *req, dz_response *res)
{
    dz_buf body;
    size_t len = number(req, "n");
    if (dz_buf_alloc(&body, len) < 0)
        return;
    memset(body.data, 'h', len);
    body.len = len;
    dz_send_buf(res, 200, "text/plain", &body);
}

static void stream(dz_response *res)
{
    int rc = dz_stream(res, 200, "text/plain");
    for (int i = 0; i < 10 && rc == 0; i++)
        rc = dz_write(res, DZ_LIT("a piece of it\n"));
    if (rc == 0)
        dz_end(res);
}

static void tagged_stream(dz_request *req, dz_response *res)
{
    (void)req;
    dz_res_etag(res, DZ_LIT("streamed"), false);
    stream(res);
}

static void plain_stream(dz_request *req, dz_response *res)
{
    (void)req;
    stream(res);
}

static void missing(dz_request *req, dz_response *res)
{
    (void)req;
    dz_res_etag(res, DZ_LIT("gone"), false);
    dz_send_text(res, 404, "not here");
}

/* --- compression --- */

static void fill(dz_buf *body, size_t len)
{
    static const char row[] = "{\"id\":12345,\"name\":\"Ada\",\"state\":\"open\"},";
    for (size_t i = 0; i < len; i++)
        body->data[i] = row[i % (sizeof row - 1)];
    body->len = len;
}

static void send_filled(dz_request *req, dz_response *res, const char *type)
{
    dz_buf body;
    size_t len = number(req, "n");
    if (dz_buf_alloc(&body, len) < 0)
        return;
    fill(&body, len);
    dz_send_buf(res, 200, type, &body);
}

static void json(dz_request *req, dz_response *res)
{
    send_filled(req, res, "application/json");
}

static void png(dz_request *req, dz_response *res)
{
    send_filled(req, res, "image/png");
}

static void noise(dz_request *req, dz_response *res)
{
    dz_buf body;
    uint64_t seed = 1;
    size_t len = number(req, "n");
    if (dz_buf_alloc(&body, len) < 0)
        return;
    for (size_t i = 0; i < len; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        body.data[i] = (char)(seed >> 56);
    }
    body.len = len;
    dz_send_buf(res, 200, "text/plain", &body);
}

static void send_text(dz_response *res)
{
    char text[4096];
    memset(text, 't', sizeof text);
    dz_send_bytes(res, 200, "text/plain", dz_slice_make(text, sizeof text));
}

static void coded(dz_request *req, dz_response *res)
{
    (void)req;
    dz_res_header(res, "Content-Encoding", "zstd");
    send_text(res);
}

static void fixed(dz_request *req, dz_response *res)
{
    (void)req;
    dz_res_header(res, "Cache-Control", "max-age=9, No-Transform");
    send_text(res);
}

static void varies(dz_request *req, dz_response *res)
{
    (void)req;
    dz_res_header(res, "Vary", "Origin");
    send_text(res);
}

static void lines(dz_request *req, dz_response *res)
{
    char line[64];
    size_t count = number(req, "n");
    int rc = dz_stream(res, 200, "text/plain");
    for (size_t i = 0; i < count && rc == 0; i++) {
        snprintf(line, sizeof line, "line %zu\n", i);
        rc = dz_write(res, dz_slice_of(line));
        if (rc == 0 && i == 0 && dz_slice_equal(dz_req_query(req, "pause"), DZ_LIT("yes")))
            while (!dz_req_gone(req) && dz_sleep(5) == 0)
                continue;
    }
}

static void big(dz_request *req, dz_response *res)
{
    dz_buf piece;
    size_t left = number(req, "n");
    if (dz_buf_alloc(&piece, 64 << 10) < 0)
        return;
    fill(&piece, piece.cap);
    int rc = dz_stream(res, 200, "application/json");
    while (left > 0 && rc == 0) {
        size_t len = left < piece.len ? left : piece.len;
        rc = dz_write(res, dz_slice_make(piece.data, len));
        left -= len;
    }
    dz_buf_release(&piece);
}

static void events(dz_request *req, dz_response *res)
{
    (void)req;
    dz_stream(res, 200, "text/event-stream");
    dz_write(res, DZ_LIT("data: 1\n\n"));
}

static void send_private(dz_request *req, dz_response *res)
{
    dz_res_header(res, "Content-Disposition", "attachment");
    dz_res_header(res, "Content-Type", "application/x-own");
    dz_res_header(res, "Cache-Control", "private");
    dz_send_file(req, res, private_files, dz_req_param(req, "name"));
}

static void stats(dz_request *req, dz_response *res)
{
    dz_compress_stats s;
    dz_compress_get_stats(dz_req_data(req), &s);
    dz_send_json(res, 200, "{\"whole\":%llu,\"streams\":%llu,\"refused\":%llu}",
                 (unsigned long long)s.whole, (unsigned long long)s.streams,
                 (unsigned long long)s.refused);
}

static int start(dz_app *app, void *unused)
{
    (void)unused;
    static const dz_type types[] = {{"own", "application/x-own"}, {NULL, NULL}};
    dz_files_options options;
    dz_files_options_init(&options);
    options.max_age_s = 3600;
    options.immutable = true;
    options.types = types;
    dz_static(app, "/files", root, &options);
    dz_files_options_init(&options);
    options.fallback = "index.html";
    options.well_known = true;
    dz_static(dz_group(app, "/app"), "/", root, &options);
    return dz_files_open(&private_files, root, NULL);
}

static void stop(dz_app *app, void *unused)
{
    (void)app, (void)unused;
    dz_files_close(private_files);
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_app_set_data(app, app);
    dz_app_option(app, "root", "FOLDER", "the folder of the files", &root);
    dz_get(app, "/stats", stats);
    dz_get(app, "/doc", get_doc);
    dz_put(app, "/doc", put_doc);
    dz_delete(app, "/doc", delete_doc);
    dz_get(app, "/send/*name", send_private);
    dz_route_use(dz_get(app, "/tag/:tag", strong_tag), dz_conditional);
    dz_route_use(dz_get(app, "/weak/:tag", weak_tag), dz_conditional);
    dz_route_use(dz_get(app, "/hash/:n", hashed), dz_conditional);
    dz_route_use(dz_get(app, "/hashweak/:n", hashed), dz_conditional_weak);
    dz_route_use(dz_post(app, "/hash/:n", hashed), dz_conditional);
    dz_route_use(dz_get(app, "/missing", missing), dz_conditional);
    dz_route_use(dz_get(app, "/tagstream", tagged_stream), dz_conditional);
    dz_route_use(dz_get(app, "/plainstream", plain_stream), dz_conditional);
    dz_app *z = dz_group(app, "/z");
    dz_use(z, dz_conditional);
    dz_use_compress(z, NULL);
    dz_get(z, "/json/:n", json);
    dz_get(z, "/png/:n", png);
    dz_get(z, "/noise/:n", noise);
    dz_get(z, "/coded", coded);
    dz_get(z, "/fixed", fixed);
    dz_get(z, "/vary", varies);
    dz_get(z, "/stream/:n", lines);
    dz_get(z, "/big/:n", big);
    dz_get(z, "/tagstream", tagged_stream);
    dz_get(z, "/events", events);
    dz_on_start(app, start);
    dz_on_stop(app, stop);
    return dz_run(app, argc, argv);
}
