/* A service whose workers can be looked at, broken and held, for the tests beside it.
 *
 *   /pid      the worker's pid, and the thread that answers
 *   /hold     creates DIR/held.PID, answers when DIR/release exists
 *   /compute  creates DIR/held.PID, computes until killed (a minute at most)
 *   /abort    dies of SIGABRT        /exit    exits with code 7 */
#include <donmaz.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *dir = ".", *start = "";

static void join(char path[4096], const char *name)
{
    snprintf(path, 4096, "%s/%s", dir, name);
}

static void create(const char *name)
{
    char path[4096];
    join(path, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        abort();
    close(fd);
}

static bool exists(const char *name)
{
    char path[4096];
    join(path, name);
    return access(path, F_OK) == 0;
}

static void create_for_pid(const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%d", what, (int)getpid());
    create(name);
}

static void pid(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_json(res, 200, "{\"pid\":%d,\"thread\":%d}", (int)getpid(), (int)gettid());
}

static void hold(dz_request *req, dz_response *res)
{
    create_for_pid("held");
    while (!exists("release"))
        if (dz_sleep(2) < 0)
            return;
    pid(req, res);
}

static void compute(dz_request *req, dz_response *res)
{
    create_for_pid("held");
    time_t until = time(NULL) + 60;
    while (time(NULL) < until)
        continue;
    pid(req, res);
}

static void die(dz_request *req, dz_response *res)
{
    (void)req, (void)res;
    /* Not abort(): the sanitizers' reports are for the faults they find. */
    signal(SIGABRT, SIG_DFL);
    kill(getpid(), SIGABRT);
    for (;;)
        pause();
}

static void leave(dz_request *req, dz_response *res)
{
    (void)req, (void)res;
    _exit(7);
}

static int on_start(dz_app *app, void *data)
{
    (void)app, (void)data;
    create_for_pid("start");
    if (strcmp(start, "fails") == 0 || exists("start-fails"))
        return DZ_E_UNAVAILABLE;
    if (strcmp(start, "exits") == 0 || exists("start-exits"))
        _exit(3);
    while (strcmp(start, "hangs") == 0)
        pause();
    return 0;
}

static void on_stop(dz_app *app, void *data)
{
    (void)app, (void)data;
    create_for_pid("stop");
}

int main(int argc, char **argv)
{
    dz_app *app = dz_app_new();
    dz_get(app, "/pid", pid);
    dz_get(app, "/hold", hold);
    dz_get(app, "/compute", compute);
    dz_get(app, "/abort", die);
    dz_get(app, "/exit", leave);
    if (app) {
        dz_app_option(app, "dir", "PATH", "where signs are left", &dir);
        dz_app_option(app, "start", "HOW", "fails, exits or hangs", &start);
        dz_on_start(app, on_start);
        dz_on_stop(app, on_stop);
    }
    int code = dz_run(app, argc, argv);
    create_for_pid("main-returns");
    return code;
}
