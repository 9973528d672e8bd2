/* The handshake: HELLO, and for servers that do not know it AUTH; then database and tracking. */
#include "redis/conn.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void remember_error(dz_redis_conn *conn, const dz_reply *reply)
{
    int len = reply->text.len < 200 ? (int)reply->text.len : 200;
    dz_redis_conn_why(conn, "refused: %.*s", len, reply->text.data);
}

static bool begins_with(const dz_reply *reply, const char *word)
{
    size_t len = strlen(word);
    return reply->text.len >= len && memcmp(reply->text.data, word, len) == 0;
}

/* Any answer but an error is fine. */
static void on_plain(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply)
{
    free(cmd);
    if (rc < 0)
        return;
    if (reply->kind == DZ_REPLY_ERROR) {
        remember_error(conn, reply);
        conn->error = begins_with(reply, "LOADING") ? DZ_E_UNAVAILABLE : -EACCES;
    }
    dz_reply_free(reply);
}

static void on_tracking(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply)
{
    free(cmd);
    if (rc < 0)
        return;
    /* Without it the client works, only without a cache. */
    conn->tracks = reply->kind != DZ_REPLY_ERROR;
    dz_reply_free(reply);
}

static int greet_with(dz_redis_conn *conn, const dz_slice *args, size_t count,
                      void (*done)(dz_redis_conn *, dz_redis_cmd *, int, dz_reply *))
{
    dz_redis_cmd *cmd = dz_redis_cmd_new(args, count);
    if (!cmd)
        return DZ_E_NOMEM;
    cmd->done = done;
    cmd->late = true; /* its deadline is the handshake's */
    dz_list_push(&conn->greeting, &cmd->link);
    conn->owed++;
    conn->owed_bytes += cmd->len;
    dz_redis_count(&conn->stats->waiting_bytes, cmd->len);
    return 0;
}

static int greet_rest(dz_redis_conn *conn)
{
    const dz_redis_config *config = conn->config;
    char number[16];
    int rc = 0;
    if (config->url.db != 0) {
        snprintf(number, sizeof number, "%u", config->url.db);
        const dz_slice args[] = {DZ_LIT("SELECT"), dz_slice_of(number)};
        rc = greet_with(conn, args, 2, on_plain);
    }
    if (rc == 0 && conn->tracking && !conn->resp2) {
        const dz_slice args[] = {DZ_LIT("CLIENT"), DZ_LIT("TRACKING"), DZ_LIT("ON")};
        rc = greet_with(conn, args, 3, on_tracking);
    }
    return rc;
}

static int greet_version_2(dz_redis_conn *conn)
{
    const dz_redis_url *url = &conn->config->url;
    int rc = 0;
    if (url->password[0]) {
        const dz_slice args[] = {DZ_LIT("AUTH"), dz_slice_of(url->user),
                                 dz_slice_of(url->password)};
        const dz_slice old[] = {args[0], args[2]};
        rc =
            url->user[0] ? greet_with(conn, args, 3, on_plain) : greet_with(conn, old, 2, on_plain);
    } else {
        const dz_slice args[] = {DZ_LIT("PING")};
        rc = greet_with(conn, args, 1, on_plain);
    }
    return rc < 0 ? rc : greet_rest(conn);
}

static void on_hello(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply)
{
    free(cmd);
    if (rc < 0)
        return;
    if (reply->kind == DZ_REPLY_ERROR) {
        /* Before Redis 6: "ERR unknown command"; or "NOPROTO". */
        if (begins_with(reply, "ERR unknown") || begins_with(reply, "NOPROTO")) {
            conn->resp2 = true;
            conn->error = greet_version_2(conn);
        } else {
            remember_error(conn, reply);
            conn->error = begins_with(reply, "LOADING") ? DZ_E_UNAVAILABLE : -EACCES;
        }
    } else if (reply->kind != DZ_REPLY_MAP && reply->kind != DZ_REPLY_ARRAY) {
        conn->error = DZ_E_PROTOCOL; /* whatever that is, its answers are not ours */
    } else {
        conn->error = greet_rest(conn);
    }
    dz_reply_free(reply);
}

int dz_redis_greet(dz_redis_conn *conn)
{
    const dz_redis_url *url = &conn->config->url;
    conn->error = 0;
    conn->tracks = false;
    dz_slice args[5] = {DZ_LIT("HELLO"), DZ_LIT("3")};
    size_t count = 2;
    if (url->password[0]) {
        args[count++] = DZ_LIT("AUTH");
        args[count++] = url->user[0] ? dz_slice_of(url->user) : DZ_LIT("default");
        args[count++] = dz_slice_of(url->password);
    }
    return greet_with(conn, args, count, on_hello);
}
