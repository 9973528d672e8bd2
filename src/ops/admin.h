/* admin.h: /metrics and the live page /donmaz, on a port and a loop of their own: they answer
 * however busy the service's loops are, and a proxy in front of the service does not publish them.
 *
 *     GET /metrics     Prometheus text
 *     GET /donmaz      a page that shows the same, live
 */
#ifndef DZ_OPS_ADMIN_H
#define DZ_OPS_ADMIN_H

#include "app/app.h"

#include <stddef.h>

typedef struct dz_admin dz_admin;

/* Writes the text of /metrics. Any thread, one at a time. */
typedef int dz_admin_text(void *context, dz_buf *text);

bool dz_admin_wanted(const dz_core *core);

/* A listening socket as --admin says, and its port. Negative: `text` says why, in one line. */
int dz_admin_listen(const dz_core *core, unsigned *port, char *text, size_t size);

/* Serves on a copy of `listener`, which stays the caller's. `write` NULL: the app's metrics. The
 * app must be running. -errno, DZ_E_*. */
int dz_admin_start(dz_admin **out, dz_app *app, int listener, dz_admin_text *write, void *context);

/* Before what it shows is freed. NULL is fine. */
void dz_admin_stop(dz_admin *admin);

/* The line that says where the page can be reached. */
void dz_admin_log_listening(dz_core *core, unsigned port);

#endif
