/* echo: sends back what it gets, to look at a client or to test a proxy.
 *
 *   any method, any path   the request's body, or OK when it has none
 *   /echo                  the header fields received, one a line: "Name: value"
 *   /cookie                the cookies received, one a line: "name=value" */
#include <donmaz.h>

/* Appends a line; out of memory shows when the buffer is sent. */
static int add_line(dz_buf *out, dz_slice name, const char *between, dz_slice value)
{
    int rc = dz_buf_append(out, name);
    if (rc == 0)
        rc = dz_buf_append(out, dz_slice_of(between));
    if (rc == 0)
        rc = dz_buf_append(out, value);
    if (rc == 0)
        rc = dz_buf_append(out, DZ_LIT("\n"));
    return rc;
}

static void finish(dz_response *res, dz_buf *out, int rc)
{
    if (rc == 0) {
        dz_send_buf(res, 200, "text/plain; charset=utf-8", out);
        return;
    }
    dz_buf_release(out);
    dz_send_error(res, 500, rc);
}

static void headers(dz_request *req, dz_response *res)
{
    size_t count;
    const dz_header *fields = dz_req_headers(req, &count);
    dz_buf out = {0};
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = add_line(&out, fields[i].name, ": ", fields[i].value);
    finish(res, &out, rc);
}

static void cookies(dz_request *req, dz_response *res)
{
    dz_buf out = {0};
    dz_slice name, value;
    int rc = 0;
    for (size_t i = 0; rc == 0 && dz_req_cookie_at(req, i, &name, &value); i++)
        rc = add_line(&out, name, "=", value);
    finish(res, &out, rc);
}

static void echo(dz_request *req, dz_response *res)
{
    dz_slice body;
    int rc = dz_req_body(req, &body);
    if (rc < 0)
        return; /* the library answers 413, 400 or 408 */
    if (body.len == 0)
        body = DZ_LIT("OK");
    dz_slice type = dz_req_header(req, "Content-Type");
    if (type.ptr)
        dz_res_header_slice(res, DZ_LIT("Content-Type"), type);
    dz_send_bytes(res, 200, "text/plain; charset=utf-8", body);
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_get(app, "/echo", headers);
    dz_get(app, "/cookie", cookies);
    dz_all(app, "/", echo);
    dz_all(app, "/*path", echo);
    return dz_run(app, argc, argv);
}
