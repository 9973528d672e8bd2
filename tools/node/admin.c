#include "admin.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* All of 127/8 is this machine; nobody else has a reason to listen right there. */
static const char ours[] = "127.68.90.77";

static const char mark[] = "donmaz_loop_lag_seconds"; /* in every program that contains donmaz */

const char *dz_admin_environment(void)
{
    static char text[48];
    if (getenv("DONMAZ_ADMIN"))
        return NULL;
    /* A server that can't listen there would not start: so try. */
    dz_port port = {.kind = DZ_PORT_TCP4};
    memcpy(port.address, ours, sizeof ours);
    dz_port_address at;
    socklen_t len = dz_port_connect_address(&port, &at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool can = fd >= 0 && bind(fd, &at.any, len) == 0;
    if (fd >= 0)
        close(fd);
    snprintf(text, sizeof text, "DONMAZ_ADMIN=%s:0", ours);
    return can ? text : NULL;
}

socklen_t dz_port_connect_address(const dz_port *port, dz_port_address *out)
{
    memset(out, 0, sizeof *out);
    in_port_t number = htons((uint16_t)port->port);
    if (port->kind == DZ_PORT_TCP6) {
        struct sockaddr_in6 *a = (struct sockaddr_in6 *)&out->storage;
        *a = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = number};
        if (inet_pton(AF_INET6, port->address, &a->sin6_addr) != 1 ||
            IN6_IS_ADDR_UNSPECIFIED(&a->sin6_addr))
            a->sin6_addr = in6addr_loopback;
        return sizeof *a;
    }
    if (port->kind == DZ_PORT_TCP4) {
        struct sockaddr_in *a = (struct sockaddr_in *)&out->storage;
        *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = number};
        if (inet_pton(AF_INET, port->address, &a->sin_addr) != 1 ||
            a->sin_addr.s_addr == htonl(INADDR_ANY))
            a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return sizeof *a;
    }
    struct sockaddr_un *a = (struct sockaddr_un *)&out->storage;
    size_t len = strlen(port->address);
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (len < sizeof a->sun_path)
        memcpy(a->sun_path, port->address, len);
    bool abstract = port->address[0] == '@';
    if (abstract)
        a->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + !abstract);
}

/* --- GET --- */

/* 0 once fd is ready; DZ_E_CLOSED when `stop` is first, DZ_E_TIMEOUT. */
static int await(int fd, short events, int stop, uint64_t deadline)
{
    struct pollfd p[2] = {{.fd = fd, .events = events}, {.fd = stop, .events = POLLIN}};
    for (;;) {
        uint64_t now = dz_now();
        if (now >= deadline)
            return DZ_E_TIMEOUT;
        int n = poll(p, 2, (int)((deadline - now) / DZ_MS) + 1);
        if (p[1].revents && n > 0)
            return DZ_E_CLOSED;
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

static int read_all(int fd, int stop, uint64_t deadline, dz_buf *text)
{
    enum { MOST = 64 << 20 };
    char bytes[16384];
    for (;;) {
        int rc = await(fd, POLLIN, stop, deadline);
        ssize_t n = rc < 0 ? 0 : recv(fd, bytes, sizeof bytes, 0);
        if (rc == 0 && n == 0)
            return 0;
        if (n < 0 && errno == EAGAIN)
            continue;
        if (n < 0)
            rc = -errno;
        if (rc == 0 && text->len > MOST)
            rc = DZ_E_TOO_LARGE;
        if (rc == 0)
            rc = dz_buf_append(text, dz_slice_make(bytes, (size_t)n));
        if (rc < 0)
            return rc;
    }
}

/* Leaves the body. */
static int cut_head(dz_buf *answer, dz_buf *body)
{
    dz_slice all = dz_buf_slice(answer);
    const char *end = all.len ? memmem(all.ptr, all.len, "\r\n\r\n", 4) : NULL;
    if (!end || all.len < 12 || memcmp(all.ptr, "HTTP/1.1 200", 12) != 0)
        return DZ_E_PROTOCOL;
    size_t head = (size_t)(end - all.ptr) + 4;
    return dz_buf_append(body, dz_slice_make(all.ptr + head, all.len - head));
}

int dz_admin_get(const dz_port *port, const char *path, unsigned timeout_ms, int stop, dz_buf *body)
{
    uint64_t deadline = dz_now() + timeout_ms * DZ_MS;
    dz_port_address at;
    socklen_t len = dz_port_connect_address(port, &at);
    dz_buf answer = {0};
    char request[256];
    int n = snprintf(request, sizeof request,
                     "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    dz_buf_release(body);
    int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int rc = connect(fd, &at.any, len) == 0 || errno == EINPROGRESS ? 0 : -errno;
    if (rc == 0)
        rc = await(fd, POLLOUT, stop, deadline);
    if (rc == 0 && send(fd, request, (size_t)n, MSG_NOSIGNAL) != n)
        rc = errno ? -errno : DZ_E_PROTOCOL;
    if (rc == 0)
        rc = read_all(fd, stop, deadline, &answer);
    if (rc == 0)
        rc = cut_head(&answer, body);
    dz_buf_release(&answer);
    close(fd);
    return rc;
}

/* --- which socket --- */

static bool file_has_mark(const char *path)
{
    enum { MOST = 512 << 20 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return false;
    bool has = false;
    if (fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size < MOST) {
        size_t size = (size_t)st.st_size;
        void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            has = memmem(bytes, size, mark, sizeof mark - 1) != NULL;
            munmap(bytes, size);
        }
    }
    close(fd);
    return has;
}

/* Linked into the program itself, or as the shared library. */
static bool contains_donmaz(pid_t pid)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    if (file_has_mark(path))
        return true;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    bool has = false;
    while (maps && !has && fgets(line, sizeof line, maps))
        has = strstr(line, "/libdonmaz.so") != NULL;
    if (maps)
        fclose(maps);
    return has;
}

static bool answers(const dz_port *port, unsigned timeout_ms)
{
    dz_buf text = {0};
    bool is = false;
    if (dz_admin_get(port, "/metrics", timeout_ms, -1, &text) == 0) {
        dz_slice all = dz_buf_slice(&text);
        is = all.len && memmem(all.ptr, all.len, mark, sizeof mark - 1) != NULL;
    }
    dz_buf_release(&text);
    return is;
}

int dz_admin_find(const dz_port *ports, int count, unsigned timeout_ms)
{
    for (int i = 0; i < count; i++)
        if (strcmp(ports[i].address, ours) == 0)
            return i;
    pid_t known = 0;
    bool has = false;
    for (int i = 0; i < count; i++) {
        if (ports[i].kind == DZ_PORT_UNIX)
            continue;
        if (ports[i].pid != known)
            has = contains_donmaz(ports[i].pid);
        known = ports[i].pid;
        if (has && answers(&ports[i], timeout_ms))
            return i;
    }
    return -1;
}
