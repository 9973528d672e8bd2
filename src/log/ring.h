/* ring.h: bytes from one thread to the writer, without a lock. Only whole lines are in it. */
#ifndef DZ_LOG_RING_H
#define DZ_LOG_RING_H

#include <donmaz/slice.h>

#include <stdatomic.h>
#include <stdint.h>

/* The padding keeps the owner's cache lines and the writer's apart.
 * NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
typedef struct dz_ring {
    struct dz_ring *next; /* in the logger's list; set once */
    size_t size;          /* a power of two */
    char *bytes;
    char *line; /* where the owner makes a line */
    atomic_bool owned;

    /* The owner's cache line(s). Head and tail count bytes for ever; the one counted `n` lies at
     * (n - base) modulo size. Whenever the ring is empty the owner begins at its start again: so
     * only as much memory is ever touched, and kept in the cache, as really piles up. The writer
     * looks at base when there is something to take, and then it does not change. */
    _Alignas(64) _Atomic size_t tail;
    size_t base;
    uint64_t ms; /* the time whose digits are in ms_digits */
    char ms_digits[24];
    size_t ms_len;
    _Atomic uint64_t lines, dropped, waited;

    /* The writer's. */
    _Alignas(64) _Atomic size_t head;
} dz_ring;

dz_ring *dz_ring_new(size_t size, size_t line_bytes); /* owned by the caller; NULL out of memory */
void dz_ring_free(dz_ring *ring);

/* Where a line of at most `len` bytes can be made in the ring itself; NULL when there is no such
 * room in one piece. dz_ring_commit then adds the `len` bytes it has. */
char *dz_ring_reserve(dz_ring *ring, size_t len);
void dz_ring_commit(dz_ring *ring, size_t len, size_t *used);

/* Adds a line; false when there is no room. *used is how full the ring is then. */
bool dz_ring_put(dz_ring *ring, dz_slice line, size_t *used);
bool dz_ring_has_room(const dz_ring *ring, size_t len); /* for the owner */

/* Takes whole lines, at most `room` bytes; returns the bytes. `room` must hold the longest line. */
size_t dz_ring_take(dz_ring *ring, char *to, size_t room);

/* The whole lines that come next and lie in one piece, at most `room` bytes of them; they stay in
 * the ring until they are skipped. */
dz_slice dz_ring_peek(dz_ring *ring, size_t room);
void dz_ring_skip(dz_ring *ring, size_t len);

bool dz_ring_empty(dz_ring *ring);

#endif
