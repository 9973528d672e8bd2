#include "loop/turn.h"

#include "loop/runtime.h"

/* Running fibers, and whose the loop is meanwhile. */

bool dz_loop_pin(dz_loop *loop)
{
    dz_thread *thread = dz_thread_self();
    if (!thread || thread->loop != loop)
        return false;
    uint64_t word = thread->word;
    if (atomic_compare_exchange_strong_explicit(&loop->owner, &word, word & ~UINT64_C(1),
                                                memory_order_acquire, memory_order_relaxed))
        return true;
    thread->loop = NULL;
    return false;
}

void dz_loop_unpin(dz_loop *loop)
{
    atomic_store_explicit(&loop->owner, dz_thread_self()->word, memory_order_release);
}

void dz_loop_note_stall(dz_loop *loop, uint64_t ns)
{
    if (ns >= DZ_LOOP_STALL_NS)
        dz_histogram_put(loop->stats.stalls, ns);
}

static void run_after(dz_loop *loop, dz_msg *msg)
{
    dz_fiber *fiber = DZ_CONTAINER(msg, dz_fiber, msg);
    fiber->after(loop, fiber);
}

/* `cpu_ns` 0: not measured. */
static void note_stretch(dz_fiber *fiber, uint64_t wall_ns, uint64_t cpu_ns)
{
    fiber->ran_ns += wall_ns;
    fiber->used_ns += cpu_ns ? cpu_ns : wall_ns;
    if (wall_ns > fiber->wall_ns)
        fiber->wall_ns = wall_ns;
    if (cpu_ns > fiber->cpu_ns)
        fiber->cpu_ns = cpu_ns;
}

/* False: the loop was taken away meanwhile. */
static bool run_fiber(dz_loop *loop, dz_thread *thread, dz_fiber *fiber)
{
    uint64_t cpu = fiber->measure_cpu ? dz_thread_cpu() : 0;
    uint64_t start = atomic_load_explicit(&loop->mark, memory_order_relaxed);
    if (fiber->began == 0)
        fiber->began = start;
    thread->loop = loop;
    thread->word = ++loop->sequence << 1 | 1;
    atomic_store_explicit(&loop->owner, thread->word, memory_order_release);

    dz_fiber_switch_in(fiber);

    uint64_t end = dz_now();
    uint64_t used = fiber->measure_cpu ? dz_thread_cpu() - cpu : 0;
    if (dz_loop_pin(loop)) {
        note_stretch(fiber, end - start, used);
        thread->loop = NULL;
        loop->now = end; /* deadlines set from here on must not lie in the past */
        atomic_store_explicit(&loop->mark, end, memory_order_relaxed);
        dz_loop_note_stall(loop, end - start);
        fiber->after(loop, fiber);
        return true;
    }
    uint64_t stray_cpu = dz_thread_end_stray(thread, &fiber->demoted);
    note_stretch(fiber, end - start, stray_cpu);
    fiber->rescued = true;
    fiber->msg.fn = run_after;
    dz_loop_post(loop, &fiber->msg);
    return false;
}

void dz_fiber_run_here(dz_fiber *fiber)
{
    uint64_t cpu = dz_thread_cpu(), start = dz_now();
    if (fiber->began == 0)
        fiber->began = start;
    dz_fiber_switch_in(fiber);
    note_stretch(fiber, dz_now() - start, dz_thread_cpu() - cpu);
    fiber->msg.fn = run_after;
    dz_loop_post(fiber->loop, &fiber->msg);
}

bool dz_loop_run_ready(dz_loop *loop, dz_thread *thread)
{
    const dz_list *last = loop->ready.prev;
    while (!dz_list_empty(&loop->ready)) {
        dz_list *link = dz_list_shift(&loop->ready);
        dz_loop_add_waiting(loop, -1);
        if (!run_fiber(loop, thread, DZ_CONTAINER(link, dz_fiber, link)))
            return false;
        if (link == last)
            break;
    }
    return true;
}
