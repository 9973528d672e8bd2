/* V8's .cpuprofile: nodes with call frames, samples naming nodes, and the time between them. */
#include "cpuprofile_private.h"
#include "formats.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdlib.h>

/* As far as microseconds are exact in JSON's usual numbers (285 years); no sum overflows then. */
static int64_t in_range(int64_t us)
{
    const int64_t most = INT64_C(1) << 53;
    return us > most ? most : us < -most ? -most : us;
}

static void one_sample(void *arg, dz_json *j)
{
    dz_spool_put(&((dz_cpu_reader *)arg)->samples, dz_cpu_id(j));
}

static void one_delta(void *arg, dz_json *j)
{
    dz_spool_put(&((dz_cpu_reader *)arg)->deltas, dz_json_integer(j));
}

static void member(void *arg, dz_json *j, dz_slice key)
{
    dz_cpu_reader *r = arg;
    if (dz_slice_equal(key, DZ_LIT("nodes")))
        dz_json_elements(j, dz_cpu_read_node, r);
    else if (dz_slice_equal(key, DZ_LIT("samples")))
        dz_json_elements(j, one_sample, r);
    else if (dz_slice_equal(key, DZ_LIT("timeDeltas")))
        dz_json_elements(j, one_delta, r);
    else if (dz_slice_equal(key, DZ_LIT("startTime")))
        r->start = in_range(dz_json_integer(j));
    else if (dz_slice_equal(key, DZ_LIT("endTime")))
        r->end = in_range(dz_json_integer(j));
    else
        dz_json_skip(j);
}

static void lasted(dz_cpu_reader *r, int64_t until)
{
    const dz_timed *s = &r->last;
    if (r->has_last)
        dz_profile_add(r->profile, dz_cpu_stack(r, &r->nodes[s->id]),
                       (uint64_t)(until - s->at) * 1000, (uint64_t)(s->at > 0 ? s->at : 0) * 1000,
                       r->tid);
}

/* A sample lasts until the next one begins, the last until the end. */
static void in_order(void *arg, const dz_timed *s)
{
    dz_cpu_reader *r = arg;
    lasted(r, s->at);
    r->last = *s;
    r->has_last = true;
}

/* The time of the next sample. Where no deltas are told they are all the same. */
static int64_t next_time(dz_cpu_reader *r, int64_t at, size_t index)
{
    int64_t delta;
    if (dz_spool_next(&r->deltas, &delta))
        return in_range(at + in_range(delta));
    double whole = (double)(r->end > r->start ? r->end - r->start : 0);
    return r->start + (int64_t)(whole / (double)r->samples.total * (double)index);
}

static int add_samples(dz_cpu_reader *r)
{
    dz_reorder order;
    int rc = dz_spool_rewind(&r->samples);
    if (rc == 0)
        rc = dz_spool_rewind(&r->deltas);
    if (rc == 0 && !dz_reorder_init(&order, in_order, r))
        rc = DZ_E_NOMEM;
    if (rc < 0)
        return rc;
    int64_t at = r->start, id;
    for (size_t i = 0; dz_spool_next(&r->samples, &id); i++) {
        const dz_cpu_node *n = dz_cpu_find(r, (uint32_t)id);
        if (!n)
            dz_cpu_complain(r, "sample %zu refers to node %lld, which is not there", i + 1,
                            (long long)id - 1);
        at = next_time(r, at, i);
        if (n)
            dz_reorder_put(&order, at, (uint32_t)(n - r->nodes));
    }
    dz_reorder_finish(&order);
    lasted(r, r->end > r->last.at ? r->end : r->last.at);
    return 0;
}

/* Without samples only counts are known: the time is shared out by them. */
static void add_hits(dz_cpu_reader *r)
{
    uint64_t hits = 0;
    for (size_t i = 0; i < r->node_count; i++)
        hits += r->nodes[i].hits;
    double each =
        hits && r->end > r->start ? (double)(r->end - r->start) * 1e3 / (double)hits : 1e6;
    for (size_t i = 0; i < r->node_count; i++)
        if (r->nodes[i].hits)
            dz_profile_add(r->profile, dz_cpu_stack(r, &r->nodes[i]),
                           (uint64_t)((double)r->nodes[i].hits * each), 0, 0);
}

/* What must hold beyond JSON's own rules, before time is counted. */
static void check(dz_cpu_reader *r)
{
    if (r->node_count == 0)
        dz_cpu_complain(r, "no \"nodes\": not a CPU profile");
    if (r->deltas.total && r->deltas.total != r->samples.total)
        dz_cpu_complain(r, "%zu \"samples\", but %zu \"timeDeltas\"", r->samples.total,
                        r->deltas.total);
    for (size_t i = 0; i < r->node_count && !r->problem[0]; i++)
        if (r->nodes[i].parent && !dz_cpu_find(r, r->nodes[i].parent))
            dz_cpu_complain(r, "node %u has the parent %u, which is not there", r->nodes[i].id - 1,
                            r->nodes[i].parent - 1);
}

static int add_time(dz_cpu_reader *r)
{
    if (!r->samples.total) {
        add_hits(r);
        return 0;
    }
    for (size_t i = 0; i < r->node_count; i++)
        dz_cpu_stack(r, &r->nodes[i]); /* in file order, parents mostly first: short walks */
    return add_samples(r);
}

static void close_reader(dz_cpu_reader *r)
{
    free(r->nodes);
    free(r->children);
    free(r->ticks);
    dz_spool_close(&r->samples);
    dz_spool_close(&r->deltas);
    dz_map_close(&r->by_id);
}

int dz_read_cpuprofile_of(dz_profile *profile, FILE *in, pid_t tid, dz_read_error *error)
{
    dz_cpu_reader r = {.profile = profile, .tid = tid};
    dz_json j;
    int rc = 0;
    dz_json_open(&j, in);
    dz_json_members(&j, member, &r);
    dz_json_end(&j);
    if (!dz_json_error(&j))
        check(&r);
    if (!dz_json_error(&j) && !r.problem[0])
        rc = add_time(&r);
    if (dz_json_error(&j) || r.problem[0]) {
        if (dz_json_error(&j))
            snprintf(error->text, sizeof error->text, "line %llu: %s", (unsigned long long)j.line,
                     dz_json_error(&j));
        else
            snprintf(error->text, sizeof error->text, "%s", r.problem);
        rc = DZ_E_FORMAT;
    }
    if (ferror(in))
        rc = -EIO;
    if (rc == 0 && (r.out_of_memory || profile->failed))
        rc = DZ_E_NOMEM;
    dz_json_close(&j);
    close_reader(&r);
    return rc;
}

int dz_read_cpuprofile(dz_profile *profile, FILE *in, dz_read_error *error)
{
    return dz_read_cpuprofile_of(profile, in, 0, error);
}
