/* start.h: what a service that can't start tells its user. */
#ifndef DZ_CLUSTER_START_H
#define DZ_CLUSTER_START_H

#include "app/app.h"

#include <stddef.h>

/* Runs on_start and dz_app_start. 0, or negative with the reason in `text`: one line, without the
 * program's name and the newline. */
int dz_start_service(dz_app *app, unsigned *port, char *text, size_t size);

/* dz_core_listen failed. */
void dz_explain_listen(const dz_core *core, int error, char *text, size_t size);

/* Routes or options could not be registered: negative, with the reason in `text`; else 0. */
int dz_explain_build(const dz_core *core, char *text, size_t size);

/* The line that says where the service can be reached. */
void dz_log_listening(dz_core *core, unsigned port);

#endif
