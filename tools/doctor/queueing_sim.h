/* queueing_sim.h: between the files of the simulation: queueing.c sets one up and sums it up,
 * queueing_sim.c lets its time pass. */
#ifndef DZ_DOCTOR_QUEUEING_SIM_H
#define DZ_DOCTOR_QUEUEING_SIM_H

#include "queueing.h"
#include "scheduler.h"

#include <stdbool.h>
#include <stdint.h>

enum { DZ_QUEUE_CONNECTIONS = 1000 };

/* What a client takes from an answer to its next request, ms. */
#define DZ_QUEUE_TURN_MS 0.05

/* One closed loop: its client's turn, then its request in the process's loop and, where that is
 * so, in a worker and in the loop once more. */
typedef struct dz_queue_job {
    enum {
        DZ_QUEUE_CLIENT,
        DZ_QUEUE_ON_LOOP,
        DZ_QUEUE_DISPATCHED,
        DZ_QUEUE_IN_WORKER,
        DZ_QUEUE_COMING_BACK,
        DZ_QUEUE_POLLING
    } stage;
    size_t route, process;
    double sent;               /* DZ_QUEUE_CLIENT: when the next request will be */
    bool came;                 /* it waits on the socket, and the loop has not taken it yet */
    bool listed;               /* in the loop's list: see poll */
    double left;               /* CPU time of this stage */
    double work;               /* CPU time of the whole request */
    struct dz_queue_job *next; /* in the queue of a thread */
} dz_queue_job;

typedef struct dz_queue_fifo {
    dz_queue_job *first, *last;
    size_t length;
} dz_queue_fifo;

/* The connections of a process that epoll looks at next, in order. */
typedef struct dz_queue_list {
    dz_queue_job *at[DZ_QUEUE_CONNECTIONS];
    size_t count;
} dz_queue_list;

/* Threads: a loop for each process, then all workers, those of a process together. */
typedef struct dz_queue_sim {
    const dz_queue_route *routes;
    dz_queue_job *jobs;
    size_t job_count, processes, workers; /* workers of one process */
    uint64_t seed;
    dz_queue_fifo queues[DZ_SCHED_THREADS];
    dz_queue_list *lists; /* of each process */
    dz_queue_job *polls;  /* each loop's way from its last piece of work to asking for more */
    double *last;         /* when each process gave its last answer */
    dz_sched sched;
    struct {
        uint64_t *latency; /* ns; room for what is counted and one of each connection */
        size_t count;
    } seen[DZ_QUEUE_ROUTES + 1]; /* the last: all of them */
    size_t answers;              /* counted or not */
    bool counting;
} dz_queue_sim;

/* Lets time pass until the next thing happens, and has it happen. */
void dz_queue_sim_step(dz_queue_sim *sim);

#endif
