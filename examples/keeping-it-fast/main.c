/* keeping-it-fast: a server that gets slower with every request, and how it is mended
 * (docs/keeping-it-fast.md).
 *
 *   --state slow    each request adds another listener, and each response runs them all
 *   --state fixed   one listener
 *   --state fast    nothing is serialised or hashed twice, and conditional requests are answered
 *
 * GET /seed/v1 is the only route. */
#include "seed.h"

#include <stdio.h>

static const char *state = "fast";

static void seed_by_object(dz_request *req, dz_response *res)
{
    seed *object = dz_req_alloc(req, sizeof *object);
    dz_buf body = {0};
    int rc = DZ_E_NOMEM;
    if (object) {
        *object = (seed){.data = seed_data(), .url = seed_url(req), .ts = seed_timestamp()};
        rc = dz_req_set(req, "seed", object);
    }
    if (rc == 0)
        rc = seed_to_json(object, &body);
    if (rc == 0)
        rc = dz_send_buf(res, 200, "application/json", &body);
    if (rc < 0)
        dz_send_error(res, 500, rc);
    dz_buf_release(&body);
}

/* What is the same in every answer, and the identity of the content instead of a hash of it. */
static char start[SEED_DIGITS + 32];
static size_t start_len;

static void seed_direct(dz_request *req, dz_response *res)
{
    uint64_t ts = seed_timestamp();
    char etag[32], end[32];
    snprintf(etag, sizeof etag, "\"v1-%llu\"", (unsigned long long)ts);
    dz_res_header(res, "Etag", etag);
    dz_res_header(res, "Cache-Control", "public, max-age=120");
    if (dz_slice_equal(dz_req_header(req, "If-None-Match"), dz_slice_of(etag))) {
        dz_send_status(res, 304);
        return;
    }
    dz_buf body = {0};
    dz_json json;
    dz_slice url = seed_url(req);
    int n = snprintf(end, sizeof end, ",\"ts\":%llu}", (unsigned long long)ts);
    int rc = dz_buf_reserve(&body, start_len + 6 * url.len + sizeof end + 2);
    if (rc == 0)
        rc = dz_buf_append(&body, dz_slice_make(start, start_len));
    if (rc == 0) {
        dz_json_init(&json, &body, 0);
        dz_json_string(&json, url);
        rc = dz_json_finish(&json);
    }
    if (rc == 0)
        rc = dz_buf_append(&body, dz_slice_make(end, (size_t)n));
    if (rc == 0)
        rc = dz_send_buf(res, 200, "application/json", &body);
    if (rc < 0)
        dz_send_error(res, 500, rc);
    dz_buf_release(&body);
}

static bool is(const char *word)
{
    return strcmp(state, word) == 0;
}

/* Routes and middleware are fixed once the app listens; --state is known just before that. */
static int build(dz_app *app, void *data)
{
    (void)data;
    if (!is("slow") && !is("fixed") && !is("fast")) {
        fprintf(stderr, "keeping-it-fast: --state is slow, fixed or fast\n");
        return DZ_E_INVALID;
    }
    if (!seed_make())
        return DZ_E_NOT_FOUND;
    if (is("fast")) {
        dz_slice hex = seed_data();
        start_len = (size_t)snprintf(start, sizeof start,
                                     "{\"data\":\"%.*s\",\"url\":", (int)hex.len, hex.ptr);
        dz_get(app, "/seed/v1", seed_direct);
        return 0;
    }
    etagger_init(app, is("slow"));
    dz_use(app, is("slow") ? etagger_slow : etagger_fixed);
    dz_get(app, "/seed/v1", seed_by_object);
    return 0;
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    if (app) {
        dz_app_option(app, "state", "NAME", "slow, fixed or fast (fast)", &state);
        dz_on_start(app, build);
    }
    return dz_run(app, argc, argv);
}
