/* hello: text, JSON and a route parameter. */
#include <donmaz.h>

static void hello(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "hello world");
}

static void json(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_json(res, 200, "{\"hello\":\"world\"}");
}

static void user(dz_request *req, dz_response *res)
{
    dz_slice id = dz_req_param(req, "id");
    dz_send_bytes(res, 200, "text/plain; charset=utf-8", id);
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_get(app, "/", hello);
    dz_get(app, "/json", json);
    dz_get(app, "/users/:id", user);
    return dz_run(app, argc, argv);
}
