#include "loop/fiber.h"

#include "loop/loop.h"
#include "loop/runtime.h"
#include "loop/sanitizer.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* A fiber and its stack are one mapping:
 *
 *     | guard | stack, grows down ........ | dz_fiber |
 *
 * An overflow hits the guard and not another fiber's stack; see app/fault.c for the report. The
 * guard is address space alone: no memory, and no mapping more than one page would take. */
static dz_fiber *map_fiber(size_t stack_size)
{
    size_t page = page_size();
    size_t size = (DZ_FIBER_GUARD + stack_size + sizeof(dz_fiber) + page - 1) / page * page;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (mprotect(memory, DZ_FIBER_GUARD, PROT_NONE) < 0) {
        munmap(memory, size);
        return NULL;
    }
    size_t room = (size - DZ_FIBER_GUARD - sizeof(dz_fiber)) & ~(size_t)63;
    dz_fiber *fiber = (dz_fiber *)(void *)(memory + DZ_FIBER_GUARD + room);
    fiber->stack = memory + DZ_FIBER_GUARD;
    fiber->stack_size = room;
    return fiber;
}

void dz_fiber_destroy(dz_fiber *fiber)
{
#ifdef DZ_TSAN
    __tsan_destroy_fiber(fiber->sanitizer_fiber);
#endif
#ifdef DZ_ASAN
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_size);
#endif
#ifdef DZ_VALGRIND
    VALGRIND_STACK_DEREGISTER(fiber->valgrind_stack);
#endif
    size_t page = page_size();
    char *memory = fiber->stack - DZ_FIBER_GUARD;
    size_t end = (size_t)((char *)(fiber + 1) - memory);
    munmap(memory, (end + page - 1) / page * page);
}

static void enter(void *arg);

dz_fiber *dz_fiber_new(dz_loop *loop)
{
    dz_list *link = dz_list_shift(&loop->free_fibers);
    dz_fiber *fiber;
    if (link) {
        fiber = DZ_CONTAINER(link, dz_fiber, link);
        loop->free_fiber_count--;
    } else {
        fiber = map_fiber(loop->stack_size);
        if (!fiber)
            return NULL;
        fiber->loop = loop;
        dz_list_init(&fiber->link);
        loop->fiber_count++;
#ifdef DZ_TSAN
        fiber->sanitizer_fiber = __tsan_create_fiber(0);
#endif
#ifdef DZ_VALGRIND
        fiber->valgrind_stack =
            VALGRIND_STACK_REGISTER(fiber->stack, fiber->stack + fiber->stack_size);
#endif
        dz_context_make(&fiber->context, fiber->stack, fiber->stack_size, enter, fiber);
    }
    fiber->began = fiber->wall_ns = fiber->cpu_ns = fiber->ran_ns = fiber->used_ns = 0;
    fiber->measure_cpu = fiber->rescued = fiber->demoted = false;
    fiber->trace_count = 0;
    fiber->gone = NULL;
    fiber->abandoned = NULL;
    fiber->abandoned_arg = NULL;
    fiber->dispatch = NULL;
    fiber->label = NULL;
    return fiber;
}

void dz_fiber_free(dz_fiber *fiber)
{
    dz_loop *loop = fiber->loop;
    if (loop->free_fiber_count >= DZ_LOOP_FREE_FIBERS) {
        loop->fiber_count--;
        dz_fiber_destroy(fiber);
        return;
    }
    /* The last one used is the warmest in the cache. */
    fiber->link.next = loop->free_fibers.next;
    fiber->link.prev = &loop->free_fibers;
    loop->free_fibers.next->prev = &fiber->link;
    loop->free_fibers.next = &fiber->link;
    loop->free_fiber_count++;
}

dz_fiber *dz_fiber_current(void)
{
    dz_thread *thread = dz_thread_self();
    return thread ? thread->fiber : NULL;
}

/* The two halves of a switch as the sanitizers want to be told. Always inlined: the thread
 * sanitizer counts calls per fiber, and a function entered on one and left on the other would make
 * it write before the start of its shadow stack. */
#define DZ_INLINE static inline __attribute__((always_inline))

DZ_INLINE void announce_switch_in(dz_thread *thread, dz_fiber *fiber)
{
    (void)thread, (void)fiber;
#ifdef DZ_ASAN
    __sanitizer_start_switch_fiber(&thread->fake_stack, fiber->stack, fiber->stack_size);
#endif
#ifdef DZ_TSAN
    thread->sanitizer_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->sanitizer_fiber, 0);
#endif
}

DZ_INLINE void arrived_in_fiber(dz_fiber *fiber)
{
    (void)fiber;
#ifdef DZ_ASAN
    dz_thread *thread = dz_thread_self();
    __sanitizer_finish_switch_fiber(fiber->sanitizer_fake_stack, &thread->stack_bottom,
                                    &thread->stack_size);
#endif
}

DZ_INLINE void announce_switch_out(dz_thread *thread, dz_fiber *fiber)
{
    (void)thread, (void)fiber;
#ifdef DZ_ASAN
    __sanitizer_start_switch_fiber(&fiber->sanitizer_fake_stack, thread->stack_bottom,
                                   thread->stack_size);
#endif
#ifdef DZ_TSAN
    __tsan_switch_to_fiber(thread->sanitizer_fiber, 0);
#endif
}

DZ_INLINE void arrived_in_thread(dz_thread *thread)
{
    (void)thread;
#ifdef DZ_ASAN
    __sanitizer_finish_switch_fiber(thread->fake_stack, NULL, NULL);
#endif
}

void dz_fiber_switch_in(dz_fiber *fiber)
{
    dz_thread *thread = dz_thread_self();
    thread->fiber = fiber;
    announce_switch_in(thread, fiber);
    dz_context_switch(&thread->context, &fiber->context);
    arrived_in_thread(thread);
    thread->fiber = NULL;
    if (__builtin_expect(thread->is_copy, 0))
        dz_thread_end_copy(fiber);
}

static void leave(dz_fiber *fiber)
{
    dz_thread *thread = dz_thread_self();
    announce_switch_out(thread, fiber);
    dz_context_switch(&fiber->context, &thread->context);
    /* Perhaps on another thread now. */
    arrived_in_fiber(fiber);
}

void dz_fiber_park(dz_fiber_after *after, void *arg)
{
    dz_fiber *fiber = dz_fiber_current();
    fiber->after = after;
    fiber->after_arg = arg;
    leave(fiber);
}

/* A free fiber waits in here; each turn runs one entry. */
static void enter(void *arg)
{
    dz_fiber *fiber = arg;
    arrived_in_fiber(fiber);
    for (;;) {
        fiber->entry(fiber);
        fiber->after = fiber->done;
        leave(fiber);
    }
}
