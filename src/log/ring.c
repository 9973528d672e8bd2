#include "log/ring.h"

#include <stdlib.h>

dz_ring *dz_ring_new(size_t size, size_t line_bytes)
{
    dz_ring *ring = aligned_alloc(_Alignof(dz_ring), sizeof *ring);
    if (!ring)
        return NULL;
    memset(ring, 0, sizeof *ring);
    ring->size = size;
    ring->bytes = malloc(size);
    ring->line = malloc(line_bytes);
    ring->ms = UINT64_MAX;
    atomic_init(&ring->owned, true);
    if (ring->bytes && ring->line)
        return ring;
    dz_ring_free(ring);
    return NULL;
}

void dz_ring_free(dz_ring *ring)
{
    free(ring->bytes);
    free(ring->line);
    free(ring);
}

static size_t offset_of(const dz_ring *ring, size_t at)
{
    return (at - ring->base) & (ring->size - 1);
}

/* The first of the up to two pieces that `len` bytes at the offset lie in. */
static size_t first_piece(const dz_ring *ring, size_t offset, size_t len)
{
    size_t to_end = ring->size - offset;
    return len < to_end ? len : to_end;
}

/* Sequentially consistent with the writer's going to sleep: either the writer sees this line, or
 * the owner sees that it must wake the writer. */
static void publish(dz_ring *ring, size_t tail)
{
    atomic_store(&ring->tail, tail);
}

char *dz_ring_reserve(dz_ring *ring, size_t len)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    size_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (head == tail)
        ring->base = tail;
    size_t offset = offset_of(ring, tail);
    bool fits = len <= ring->size - (tail - head) && len <= ring->size - offset;
    return fits ? ring->bytes + offset : NULL;
}

void dz_ring_commit(dz_ring *ring, size_t len, size_t *used)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed) + len;
    publish(ring, tail);
    *used = tail - atomic_load_explicit(&ring->head, memory_order_relaxed);
}

bool dz_ring_put(dz_ring *ring, dz_slice line, size_t *used)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    size_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (head == tail)
        ring->base = tail;
    if (line.len > ring->size - (tail - head)) {
        *used = tail - head;
        return false;
    }
    size_t offset = offset_of(ring, tail), first = first_piece(ring, offset, line.len);
    memcpy(ring->bytes + offset, line.ptr, first);
    memcpy(ring->bytes, line.ptr + first, line.len - first);
    publish(ring, tail + line.len);
    *used = tail + line.len - head;
    return true;
}

size_t dz_ring_take(dz_ring *ring, char *to, size_t room)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    size_t len = atomic_load_explicit(&ring->tail, memory_order_acquire) - head;
    bool all = len <= room;
    if (!all)
        len = room;
    if (len == 0)
        return 0;
    size_t offset = offset_of(ring, head), first = first_piece(ring, offset, len);
    memcpy(to, ring->bytes + offset, first);
    memcpy(to + first, ring->bytes, len - first);
    if (!all) {
        const char *last = memrchr(to, '\n', len);
        len = last ? (size_t)(last - to) + 1 : 0;
    }
    atomic_store_explicit(&ring->head, head + len, memory_order_release);
    return len;
}

dz_slice dz_ring_peek(dz_ring *ring, size_t room)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    size_t len = atomic_load_explicit(&ring->tail, memory_order_acquire) - head;
    if (len == 0)
        return (dz_slice){0};
    size_t offset = offset_of(ring, head), first = first_piece(ring, offset, len);
    const char *from = ring->bytes + offset;
    if (first > room)
        first = room;
    const char *last = first < len ? memrchr(from, '\n', first) : from + first - 1;
    return dz_slice_make(from, last ? (size_t)(last - from) + 1 : 0);
}

void dz_ring_skip(dz_ring *ring, size_t len)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + len, memory_order_release);
}

bool dz_ring_has_room(const dz_ring *ring, size_t len)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    return len <= ring->size - (tail - atomic_load_explicit(&ring->head, memory_order_acquire));
}

bool dz_ring_empty(dz_ring *ring)
{
    return atomic_load(&ring->tail) == atomic_load_explicit(&ring->head, memory_order_relaxed);
}
