/* Reference 4 in donmaz: the three endpoints as every framework here answers them, field by field.
 * examples/hello.c is the same in donmaz's own words: its JSON has no charset. */
#include <donmaz.h>

#include <string.h>

static void text(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "hello world");
}

static void json(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_bytes(res, 200, "application/json; charset=utf-8",
                  dz_slice_of("{\"hello\":\"world\"}"));
}

static void user(dz_request *req, dz_response *res)
{
    dz_slice id = dz_req_param(req, "id"), name = dz_req_query(req, "name");
    char *both = name.ptr ? dz_req_alloc(req, id.len + 1 + name.len) : NULL;
    if (both) {
        memcpy(both, id.ptr, id.len);
        both[id.len] = ' ';
        memcpy(both + id.len + 1, name.ptr, name.len);
        id = dz_slice_make(both, id.len + 1 + name.len);
    }
    dz_send_bytes(res, 200, "text/plain; charset=utf-8", id);
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_get(app, "/", text);
    dz_get(app, "/json", json);
    dz_get(app, "/users/:id", user);
    return dz_run(app, argc, argv);
}
