/* Records as the kernel would never write them, and stacks that lead nowhere: each is told within
 * its bounds, and unwinding reads nothing but the copy of the stack. */
#include "fuzz.h"

#include "flame/perf_ring.h"
#include "flame/unwind.h"

#include <unistd.h>

typedef struct told {
    dz_symbols *symbols;
    const char *record;
    size_t size;
} told;

static void on_sample(void *arg, const dz_perf_sample *s)
{
    told *t = arg;
    HOLDS(s->depth <= DZ_PERF_DEPTH && s->kernel <= s->depth);
    if (s->stack_len == 0)
        return;
    HOLDS(fuzz_within(dz_slice_make(s->stack, s->stack_len), t->record, t->size));
    uint64_t out[64];
    size_t depth = 0;
    dz_unwind(dz_arch_here(), t->symbols, dz_symbols_image(t->symbols, getpid(), 1), s, out, 64,
              &depth);
    HOLDS(depth <= 64);
}

static void on_map(void *arg, const dz_mapped *m)
{
    told *t = arg;
    size_t len = strlen(m->name);
    HOLDS(fuzz_within(dz_slice_make(m->name, len + 1), t->record, t->size));
}

static void on_exec(void *arg, pid_t pid, uint64_t at)
{
    dz_symbols_exec(((told *)arg)->symbols, pid ? 1 : 2, at);
}

static void on_fork(void *arg, pid_t pid, pid_t parent, uint64_t at)
{
    (void)arg, (void)pid, (void)parent, (void)at;
}

static void on_turn(void *arg, pid_t pid, pid_t tid, uint64_t at, bool in, bool preempted)
{
    (void)arg, (void)pid, (void)tid, (void)at, (void)in, (void)preempted;
}

static void on_end(void *arg, pid_t tid, uint64_t at)
{
    (void)arg, (void)tid, (void)at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct perf_event_header head;
    if (size < sizeof head + 16 || size > UINT16_MAX)
        return 0;
    dz_profile profile;
    HOLDS(dz_profile_init(&profile) == 0);
    told t = {.symbols = dz_symbols_new(&profile), .size = size};
    HOLDS(t.symbols);
    dz_symbols_read_maps(t.symbols, getpid());
    char *record = fuzz_copy(data, size); /* as long as the record says, so that any more is seen */
    memcpy(&head, record, sizeof head);
    head.type = head.type % 24;
    head.size = (uint16_t)size;
    memcpy(record, &head, sizeof head);
    t.record = record;
    const dz_perf_events events = {.sample = on_sample,
                                   .map = on_map,
                                   .exec = on_exec,
                                   .fork = on_fork,
                                   .turn = on_turn,
                                   .end = on_end,
                                   .arg = &t};
    dz_ring_tell(record, &events, false);
    free(record);
    dz_symbols_free(t.symbols);
    dz_profile_close(&profile);
    return 0;
}
