/* create.h: pthread_create that can be told to fail (link with --wrap=pthread_create). */
#ifndef DZ_TESTS_LOOP_CREATE_H
#define DZ_TESTS_LOOP_CREATE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

/* Threads that can still be started; below 0: any number. */
static _Atomic int threads_left = -1;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg)
{
    int left = atomic_load(&threads_left);
    if (left == 0)
        return EAGAIN;
    if (left > 0)
        atomic_fetch_sub(&threads_left, 1);
    return __real_pthread_create(thread, attributes, start, arg);
}

#endif
