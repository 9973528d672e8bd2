/* command.h: what a client has to know of Redis' commands. */
#ifndef DZ_REDIS_COMMAND_H
#define DZ_REDIS_COMMAND_H

#include <donmaz/slice.h>

#include <stdbool.h>
#include <stddef.h>

/* Commands that change what later replies mean, or hold up everyone behind them. */
bool dz_redis_command_refused(const dz_slice *args, size_t count);

/* Which argument is the first key; 0: there is none. */
size_t dz_redis_command_key(const dz_slice *args, size_t count);

/* Whether it may write keys that are not among its arguments (scripts, FLUSHALL). */
bool dz_redis_command_writes_anything(dz_slice name);

#endif
