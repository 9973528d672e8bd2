/* tasks.h: what the bookstore's pool does. The result of a task is 0, or BAD_CATALOGUE when the
 * input is no catalogue; then, too, the output says why, as JSON: failures are data, so that they
 * look the same from a thread and from a process. */
#ifndef BOOKSTORE_TASKS_H
#define BOOKSTORE_TASKS_H

#include <donmaz/pool.h>

enum { BAD_CATALOGUE = 1 };

/* in: the CSV; out: the summary as JSON. Posts {"rows":N} every CATALOGUE_PROGRESS rows. */
dz_task_fn task_validate;

/* in: the CSV; out: the valid books (records.h). */
dz_task_fn task_records;

#endif
