/* server.c: handlers that misbehave. Those that take long print "begun" first.
 *
 *   GET /                 "hello"
 *   GET /forever          computes until the process ends
 *   GET /sleep/:ms        parks that long, then "slept"
 *   GET /park             parks until the file --until is there, then "parked"
 *   GET /spin             computes until then, then "spun"
 *   GET /overflow/:id     uses up its stack: on the loop
 *   GET /frame/:id        the same with frames of 64 KiB, of which it touches the far end
 *   GET /worker/overflow  the same on a worker
 *   GET /segv             reads from a null pointer, which is no overflow */
#include <donmaz.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long number(dz_request *req, const char *name)
{
    char text[24] = {0};
    dz_slice value = dz_req_param(req, name);
    memcpy(text, value.ptr, value.len < sizeof text - 1 ? value.len : sizeof text - 1);
    return strtoul(text, NULL, 10);
}

/* Tells the test that a handler runs. */
static void begin(void)
{
    ssize_t n = write(STDERR_FILENO, "begun\n", 6);
    (void)n;
}

static void hello(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "hello");
}

static const char *until = "";

static void park(dz_request *req, dz_response *res)
{
    (void)req;
    begin();
    while (access(until, F_OK) < 0 && dz_sleep(2) == 0)
        ;
    dz_send_text(res, 200, "parked");
}

static void spin(dz_request *req, dz_response *res)
{
    (void)req;
    begin();
    while (access(until, F_OK) < 0)
        for (volatile int i = 0; i < 100000; i++)
            ;
    dz_send_text(res, 200, "spun");
}

static volatile bool never;

static void forever(dz_request *req, dz_response *res)
{
    (void)req;
    begin();
    while (!never)
        ;
    dz_send_text(res, 200, "unreachable");
}

static void nap(dz_request *req, dz_response *res)
{
    begin();
    dz_sleep(number(req, "ms"));
    dz_send_text(res, 200, "slept");
}

__attribute__((noinline)) static int descend(volatile int *depth)
{
    volatile char room[512];
    room[0] = (char)++*depth;
    if (*depth < 0)
        return 0;
    return descend(depth) + room[0];
}

static void overflow(dz_request *req, dz_response *res)
{
    (void)req;
    volatile int depth = 0;
    dz_send_json(res, 200, "%d", descend(&depth));
}

__attribute__((noinline)) static int leap(volatile int *depth)
{
    volatile char room[64 << 10];
    room[0] = (char)++*depth;
    if (*depth < 0)
        return 0;
    return leap(depth) + room[0];
}

static void overflow_by_frames(dz_request *req, dz_response *res)
{
    (void)req;
    volatile int depth = 0;
    dz_send_json(res, 200, "%d", leap(&depth));
}

static void segv(dz_request *req, dz_response *res)
{
    (void)req;
    const char *volatile nowhere = NULL;
    dz_send_json(res, 200, "%d", *nowhere);
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_get(app, "/", hello);
    dz_app_option(app, "until", "FILE", "whose appearance ends /park and /spin", &until);
    dz_get(app, "/park", park);
    dz_get(app, "/spin", spin);
    dz_get(app, "/forever", forever);
    dz_get(app, "/sleep/:ms", nap);
    dz_get(app, "/overflow/:id", overflow);
    dz_get(app, "/frame/:id", overflow_by_frames);
    dz_blocking(dz_get(app, "/worker/overflow", overflow));
    dz_get(app, "/segv", segv);
    return dz_run(app, argc, argv);
}
