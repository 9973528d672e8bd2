#include "ports.h"

#include "procfs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct inodes {
    uint64_t *at;
    size_t count, cap;
    pid_t pid;
    int rc;
} inodes;

static void each_fd(void *arg, long fd)
{
    inodes *set = arg;
    char path[64], link[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%ld", (int)set->pid, fd);
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n <= 0)
        return;
    link[n] = 0;
    uint64_t inode;
    if (sscanf(link, "socket:[%" SCNu64 "]", &inode) != 1)
        return;
    if (set->count == set->cap) {
        size_t cap = set->cap ? set->cap * 2 : 64;
        uint64_t *more = reallocarray(set->at, cap, sizeof *more);
        if (!more) {
            set->rc = -ENOMEM;
            return;
        }
        set->at = more;
        set->cap = cap;
    }
    set->at[set->count++] = inode;
}

static bool holds(const inodes *set, uint64_t inode)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->at[i] == inode)
            return true;
    return false;
}

typedef struct found {
    dz_port *out;
    size_t count, cap;
} found;

static void add(found *f, const dz_port *port)
{
    for (size_t i = 0; i < f->count; i++) {
        bool same_tcp = port->port && f->out[i].port == port->port && f->out[i].kind == port->kind;
        if (f->out[i].inode == port->inode || same_tcp)
            return; /* held by several, or SO_REUSEPORT */
    }
    if (f->count < f->cap)
        f->out[f->count++] = *port;
}

/* The kernel prints addresses as 32-bit words in host order. */
static void decode_address(dz_port *port, const char *hex)
{
    uint32_t words[4] = {0};
    size_t count = strlen(hex) / 8;
    for (size_t i = 0; i < count && i < 4; i++) {
        char word[9];
        memcpy(word, hex + 8 * i, 8);
        word[8] = 0;
        words[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    bool six = count == 4;
    inet_ntop(six ? AF_INET6 : AF_INET, words, port->address, sizeof port->address);
    const unsigned char *bytes = (const unsigned char *)words;
    port->loopback = six ? strcmp(port->address, "::1") == 0 : bytes[0] == 127;
}

static void parse_tcp(found *f, const inodes *set, char *text, dz_port_kind kind)
{
    for (const char *line; (line = strsep(&text, "\n"));) {
        char hex[33];
        unsigned number, state;
        uint64_t inode;
        if (sscanf(line, " %*d: %32[0-9A-F]:%x %*s %x %*s %*s %*s %*u %*u %" SCNu64, hex, &number,
                   &state, &inode) != 4)
            continue;
        enum { LISTEN = 0x0a };
        if (state != LISTEN || !holds(set, inode))
            continue;
        dz_port port = {.kind = kind, .pid = set->pid, .port = number, .inode = inode};
        decode_address(&port, hex);
        add(f, &port);
    }
}

static void parse_unix(found *f, const inodes *set, char *text)
{
    for (const char *line; (line = strsep(&text, "\n"));) {
        unsigned flags;
        uint64_t inode;
        int path = 0;
        if (sscanf(line, "%*[^:]: %*x %*x %x %*x %*x %" SCNu64 " %n", &flags, &inode, &path) != 2)
            continue;
        enum { ACCEPTS = 0x10000 }; /* __SO_ACCEPTCON */
        if (!(flags & ACCEPTS) || path == 0 || !line[path] || !holds(set, inode))
            continue;
        dz_port port = {.kind = DZ_PORT_UNIX, .pid = set->pid, .inode = inode, .loopback = true};
        snprintf(port.address, sizeof port.address, "%s", line + path);
        add(f, &port);
    }
}

int dz_ports_find(const dz_tree *tree, dz_port *out, size_t cap)
{
    found f = {.out = out, .cap = cap};
    /* All TCP first, so that a server's own control sockets never hide its port. */
    static const char *const files[] = {"net/tcp", "net/tcp6", "net/unix"};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < tree->count; i++) {
            if (tree->procs[i].gone)
                continue;
            inodes set = {.pid = tree->procs[i].pid};
            char path[64];
            snprintf(path, sizeof path, "/proc/%d/fd", (int)set.pid);
            int rc = dz_procfs_each(path, each_fd, &set);
            snprintf(path, sizeof path, "/proc/%d/%s", (int)set.pid, files[k]);
            char *text = rc == 0 && set.count ? dz_procfs_slurp(path, NULL) : NULL;
            if (text && k < 2)
                parse_tcp(&f, &set, text, k == 0 ? DZ_PORT_TCP4 : DZ_PORT_TCP6);
            else if (text)
                parse_unix(&f, &set, text);
            free(text);
            free(set.at);
            if (set.rc < 0)
                return set.rc;
        }
    return (int)f.count;
}
