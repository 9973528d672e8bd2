/* logger.h: the parts of a logger.
 *
 * Threads put lines into rings of their own. The writer sleeps until someone puts the first line
 * into an empty logger, then naps a few milliseconds so that more can gather, then writes all:
 *
 *     ASLEEP --first line--> NAPPING --nap over, or a ring half full--> AWAKE (drains)
 *        ^                      ^ ---------- there were lines ---------------│ │
 *        └────────────────────── there were none ──────────────────────────────┘
 *
 * So an idle logger wakes nobody, and a busy one costs a wake-up for each nap, and the threads that
 * log nothing at all. */
#ifndef DZ_LOG_LOGGER_H
#define DZ_LOG_LOGGER_H

#include "log/line.h"
#include "log/ring.h"
#include "log/sink.h"

#include <pthread.h>

enum {
    DZ_LOGGERS_MAX = 8,
    DZ_LOG_HEAD = 640,
    DZ_LOG_NAP_MS = 7,
    DZ_LOG_BATCH = 256 << 10,
    DZ_LOG_DIRECT_MS = 100, /* a direct line waits so long for a slow reader */
};

enum { DZ_WRITER_AWAKE, DZ_WRITER_NAPPING, DZ_WRITER_ASLEEP };

struct dz_logger {
    uint64_t id;   /* never used again, so that a stale reference can't match */
    unsigned slot; /* where each thread keeps its ring for this logger */
    atomic_int level;
    atomic_bool direct; /* each line is written at once by its own thread */
    size_t ring_bytes, line_bytes;
    bool block;
    bool spares_requests; /* no redaction of a request line's own fields */
    unsigned close_ms;
    dz_redact redact;
    char name[128];
    char head[DZ_LOG_HEAD]; /* the part of every line from the comma after time on */
    size_t head_len;

    _Atomic(dz_ring *) rings;         /* only ever grows */
    _Atomic uint64_t without_ring;    /* lines dropped for want of memory */
    _Atomic uint64_t lost;            /* copy of sink.lost, to be read at any time */
    _Atomic uint64_t thread_failures; /* pthread_create failed */
    _Atomic uint64_t next_start_ns;   /* when to try again */

    _Alignas(64) atomic_uint doze; /* DZ_WRITER_*; a futex */
    atomic_uint drains;            /* counts up after each; a futex for those who wait for room */
    atomic_uint waiting;           /* threads on that futex */
    atomic_bool running;           /* the writer thread exists */
    atomic_uint ended;             /* 1: it has nothing left to do but to end; a futex */
    atomic_bool stop, reopen;
    atomic_uint flush_wanted, flush_done; /* flush_done is a futex */

    pthread_t thread;
    pthread_mutex_t draining; /* held by who moves bytes from rings to the sink */
    dz_sink sink;
    uint64_t told_dropped, told_lost, told_ns; /* what the log itself already says of losses */
    char *batch;                               /* DZ_LOG_BATCH or line_bytes * 2, the larger */
    size_t batch_bytes;
};

/* writer.c */
void dz_writer_wake(dz_logger *logger);  /* starts the thread when needed */
bool dz_writer_drain(dz_logger *logger); /* on the calling thread; whether there was anything */
/* Until `ring`, the calling thread's, may have room for `len` bytes; at most 100 ms. */
void dz_writer_wait_for_room(dz_logger *logger, dz_ring *ring, size_t len);
int dz_writer_flush(dz_logger *logger, unsigned timeout_ms);
bool dz_writer_stop(dz_logger *logger); /* false: it hangs in the kernel, so leave the memory */

/* rings.c: the calling thread's ring; NULL out of memory. */
dz_ring *dz_logger_ring(dz_logger *logger);

/* log.c: puts a line into the calling thread's ring, as the options say when it is full. */
void dz_logger_put(dz_logger *logger, dz_ring *ring, dz_slice line);
/* A line was added to it: counts it, and sees to it that it is written. */
void dz_logger_added(dz_logger *logger, dz_ring *ring, size_t used);
/* As dz_log_write, with `members` (ready-made JSON: "a":1,"b":2) before the fields. */
void dz_log_write_bound(dz_logger *logger, int level, const char *msg, dz_slice members,
                        const dz_field *fields, size_t count);
/* The fields as such members, redacted, in to[0..room); returns the bytes. What does not fit is
 * left out. */
size_t dz_log_render_members(const dz_logger *logger, const dz_field *fields, size_t count,
                             char *to, size_t room);

/* Lines are written at once on the calling thread, for a process that is to have one thread; or no
 * longer. While no other thread logs. */
void dz_logger_set_direct(dz_logger *logger, bool direct);

/* logger.c */
void dz_logger_make_head(dz_logger *logger);
/* `ms`: the line's time; 0: now. */
void dz_line_begin(dz_line *line, const dz_logger *logger, dz_ring *ring, int level, uint64_t ms);

/* rings.c: loggers that are open, for fork, exit and thread exit. */
int dz_loggers_add(dz_logger *logger); /* sets id and slot; DZ_E_STATE when there are 8 */
void dz_loggers_remove(dz_logger *logger);
void dz_loggers_lock(void); /* also what starting a writer thread is done under */
void dz_loggers_unlock(void);

#endif
