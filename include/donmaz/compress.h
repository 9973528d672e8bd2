/* compress.h: gzip for responses, on worker threads.
 *
 *     dz_use_compress(app, NULL);      // for the routes added from here on
 *
 * A response is compressed when the client's Accept-Encoding prefers gzip, its type is known to
 * gain (text, JSON, XML, scripts ...) and its body is not tiny. Left alone: other types,
 * text/event-stream, what has a Content-Encoding or Content-Range already, and what says
 * Cache-Control: no-transform. Vary: Accept-Encoding is added wherever the answer depends on it,
 * and a strong ETag becomes a weak one. Files are not compressed on the way: see static.h for
 * precompressed ones.
 *
 * A page that holds a secret beside text that an attacker chooses should not be compressed: its
 * length tells about the secret (BREACH). Use a group without this middleware for such routes. */
#ifndef DONMAZ_COMPRESS_H
#define DONMAZ_COMPRESS_H

#include <donmaz/app.h>
#include <donmaz/export.h>

typedef struct dz_compress_options {
    int level;          /* 1 (default) to 12; each step costs more CPU and saves less */
    size_t min_bytes;   /* smaller bodies are sent as they are; default 1024 */
    size_t pool_bytes;  /* larger ones are compressed on a worker; default 16 KB */
    unsigned workers;   /* default: the CPU quota - 1, at least 1 */
    unsigned max_queue; /* bodies that may wait; more are sent uncompressed; default 64 */
    bool leave_streams; /* default false: each piece of a stream is compressed and sent at once */
} dz_compress_options;

DZ_API void dz_compress_options_init(dz_compress_options *options);

/* Middleware for the routes added to `app` (or group) from here on. `options` may be NULL; they are
 * the whole app's: those of the last call count. NULL apps are passed over; out of memory, dz_run
 * refuses to start. */
DZ_API void dz_use_compress(dz_app *app, const dz_compress_options *options);

typedef struct dz_compress_stats {
    uint64_t whole, streams; /* responses compressed */
    uint64_t refused; /* sent as they are, because the workers were behind or memory was out */
    uint64_t bytes_in, bytes_out;
} dz_compress_stats;

/* Any thread. Zeros when dz_use_compress was never called. */
DZ_API void dz_compress_get_stats(const dz_app *app, dz_compress_stats *stats);

#endif
