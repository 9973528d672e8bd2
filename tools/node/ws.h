/* ws.h: a WebSocket client for one server on loopback (wslay does the frames, RFC 6455).
 *
 * Never blocks once open. One thread at a time. */
#ifndef DZ_NODE_WS_H
#define DZ_NODE_WS_H

#include <donmaz/slice.h>

#include <stdbool.h>

typedef struct dz_ws dz_ws;

/* Called from dz_ws_pump for each whole text message; `message` is valid during the call only. */
typedef void dz_ws_on_message(void *arg, dz_slice message);

/* Connects to "ws://HOST:PORT/PATH" and upgrades, within `timeout_ms`. HOST must be a numeric
 * loopback address. 0 and *out, which dz_ws_close frees; or -errno, DZ_E_INVALID, DZ_E_TIMEOUT,
 * DZ_E_PROTOCOL. */
int dz_ws_open(dz_ws **out, const char *url, unsigned timeout_ms, dz_ws_on_message *on_message,
               void *arg);

/* Says goodbye (best effort) and frees. Accepts NULL. */
void dz_ws_close(dz_ws *ws);

int dz_ws_fd(const dz_ws *ws);
bool dz_ws_wants_write(const dz_ws *ws);

/* Queues a text message. DZ_E_NOMEM, DZ_E_CLOSED. */
int dz_ws_send(dz_ws *ws, dz_slice text);

/* Reads and writes what is possible now. 0; DZ_E_CLOSED when the peer is gone; DZ_E_PROTOCOL. */
int dz_ws_pump(dz_ws *ws);

/* Plain HTTP GET to the same kind of address; the body in memory the caller frees. For /json/list.
 * 0, -errno, DZ_E_TIMEOUT, DZ_E_PROTOCOL. */
int dz_ws_http_get(unsigned port, bool six, const char *path, unsigned timeout_ms, char **body);

#endif
