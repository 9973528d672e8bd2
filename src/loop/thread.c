#include "loop/runtime.h"

#include "base/slice.h"

#include <donmaz/error.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ALT_STACK = 32 << 10, THREAD_STACK = 256 << 10, KEEP_STANDBY = 4 };

static __thread dz_thread *self __attribute__((tls_model("initial-exec")));

/* Not inlined: a fiber may go on another thread after any switch, and the compiler must not keep
 * the address of a thread-local across one. */
__attribute__((noinline)) dz_thread *dz_thread_self(void)
{
    __asm__ volatile("");
    return self;
}

static void note_fork(void)
{
    if (self && self->fiber)
        self->is_copy = true;
}

static void guard_forks(void)
{
    (void)pthread_atfork(NULL, NULL, note_fork); /* without memory for it, nothing is noticed */
}

void dz_thread_guard_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, guard_forks);
}

void dz_thread_end_copy(const dz_fiber *fiber)
{
    char text[256];
    int len =
        snprintf(text, sizeof text,
                 "donmaz: the handler of %.100s forked, and its child came back: a child must "
                 "end in exec or _exit; it ends here\n",
                 fiber->label ? fiber->label : "(unknown)");
    ssize_t n = write(STDERR_FILENO, text, (size_t)len);
    (void)n;
    _exit(1);
}

/* A stack overflow of a fiber leaves no stack for its signal handler: give it one, unless someone
 * else (a sanitizer) has. */
static void set_alt_stack(dz_thread *thread)
{
    stack_t present;
    if (sigaltstack(NULL, &present) < 0 || !(present.ss_flags & SS_DISABLE))
        return;
    void *memory =
        mmap(NULL, ALT_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return; /* an overflow is then reported by the kernel alone */
    thread->alt_stack = memory;
    stack_t stack = {.ss_sp = memory, .ss_size = ALT_STACK};
    sigaltstack(&stack, NULL);
}

void dz_thread_enter(dz_thread *thread)
{
    self = thread;
    atomic_store(&thread->id, gettid());
    set_alt_stack(thread);
}

void dz_thread_leave(dz_thread *thread)
{
    self = NULL;
    if (!thread->alt_stack)
        return;
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    munmap(thread->alt_stack, ALT_STACK);
    thread->alt_stack = NULL;
}

uint64_t dz_thread_end_stray(dz_thread *thread, bool *demoted)
{
    dz_runtime *runtime = thread->runtime;
    pthread_mutex_lock(&runtime->lock);
    *demoted |= thread->demoted; /* perhaps in an earlier stretch */
    uint64_t start = thread->stray_cpu;
    thread->state = DZ_THREAD_STANDBY; /* no more demotion from here on */
    runtime->stray_count--;
    pthread_mutex_unlock(&runtime->lock);
    return dz_thread_cpu() - start;
}

/* Raises a demoted thread's priority again, which the kernel allows only to the privileged. */
static bool restore_priority(dz_thread *thread)
{
    if (!thread->demoted)
        return true;
    if (setpriority(PRIO_PROCESS, (id_t)atomic_load(&thread->id), thread->runtime->base_nice) < 0)
        return false;
    thread->demoted = false;
    return true;
}

/* With the lock held: whether a thread without a loop should wait for the next one. */
static bool worth_keeping(dz_thread *thread)
{
    dz_runtime *runtime = thread->runtime;
    return !runtime->closing && runtime->standby_count < KEEP_STANDBY && restore_priority(thread);
}

static void serve(dz_thread *thread)
{
    dz_runtime *runtime = thread->runtime;
    for (;;) {
        while (!thread->assigned && !runtime->closing)
            pthread_cond_wait(&thread->wake, &runtime->lock);
        dz_loop *loop = thread->assigned;
        if (!loop)
            return;
        thread->assigned = NULL;
        pthread_mutex_unlock(&runtime->lock);
        bool stopped = dz_loop_carry(loop, thread);
        pthread_mutex_lock(&runtime->lock);
        if (stopped) {
            runtime->loops_running--;
            pthread_cond_broadcast(&runtime->changed);
        }
        if (!worth_keeping(thread))
            return;
        dz_runtime_put_standby(runtime, thread);
    }
}

static void allow_backtrace(int signal)
{
    sigset_t set;
    sigemptyset(&set);
    if (signal && sigaddset(&set, signal) == 0)
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void *thread_main(void *arg)
{
    dz_thread *thread = arg;
    dz_runtime *runtime = thread->runtime;
    dz_thread_enter(thread);
    (void)dz_thread_slice(DZ_HANDLER_SLICE); /* a refusal leaves the kernel's slices */
    allow_backtrace(runtime->options.backtrace_signal);
    pthread_mutex_lock(&runtime->lock);
    serve(thread);
    dz_list_remove(&thread->link);
    dz_list_push(&runtime->dead, &thread->link);
    pthread_cond_broadcast(&runtime->changed);
    pthread_mutex_unlock(&runtime->lock);
    dz_thread_leave(thread);
    return NULL;
}

int dz_thread_create(pthread_t *handle, size_t stack_size, void *(*run)(void *), void *arg)
{
    /* A fault is raised by the thread itself; the kernel ends a process that blocks its signal
     * without asking the handler, which is to report a stack overflow. */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t mask, before;
    sigfillset(&mask);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&mask, faults[i]);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_size);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    int error = pthread_create(handle, &attributes, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error ? DZ_E_NO_THREAD : 0;
}

/* With the lock held. */
int dz_runtime_add_thread(dz_runtime *runtime)
{
    dz_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return DZ_E_NOMEM;
    thread->runtime = runtime;
    dz_list_init(&thread->link);
    pthread_cond_init(&thread->wake, NULL);

    int rc = dz_thread_create(&thread->handle, THREAD_STACK, thread_main, thread);
    if (rc < 0) {
        pthread_cond_destroy(&thread->wake);
        free(thread);
        return rc;
    }
    runtime->thread_count++;
    dz_runtime_put_standby(runtime, thread);
    return 0;
}

void dz_runtime_put_standby(dz_runtime *runtime, dz_thread *thread)
{
    dz_list_remove(&thread->link);
    thread->state = DZ_THREAD_STANDBY;
    dz_list_push(&runtime->standby, &thread->link);
    runtime->standby_count++;
}

dz_thread *dz_runtime_take_standby(dz_runtime *runtime)
{
    if (dz_list_empty(&runtime->standby) && dz_runtime_add_thread(runtime) < 0)
        return NULL;
    dz_list *link = runtime->standby.prev;
    dz_list_remove(link);
    runtime->standby_count--;
    dz_list_push(&runtime->busy, link);
    return DZ_CONTAINER(link, dz_thread, link);
}

void dz_runtime_bury(dz_runtime *runtime)
{
    for (dz_list *link; (link = dz_list_shift(&runtime->dead));) {
        dz_thread *thread = DZ_CONTAINER(link, dz_thread, link);
        runtime->thread_count--;
        pthread_mutex_unlock(&runtime->lock);
        pthread_join(thread->handle, NULL);
        pthread_cond_destroy(&thread->wake);
        free(thread);
        pthread_mutex_lock(&runtime->lock);
    }
}
