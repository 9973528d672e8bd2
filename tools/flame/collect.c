#include "collect.h"

#include "formats.h"

#include <donmaz/error.h>

#include <stdlib.h>

static int read_text(dz_profile *p, char *text, size_t len, pid_t tid)
{
    dz_read_error error;
    FILE *in = fmemopen(text, len, "r");
    int rc = in ? dz_read_cpuprofile_of(p, in, tid, &error) : DZ_E_NOMEM;
    if (in)
        fclose(in);
    return rc == DZ_E_FORMAT ? 0 : rc; /* a profile without nodes: the thread did not run */
}

/* The reader wants a file: the profile becomes text again, thread by thread. */
static int read_last(dz_profile *p, const json_t *json, pid_t tid)
{
    char *text = json_dumps(json, JSON_COMPACT);
    int rc = text ? read_text(p, text, strlen(text), tid) : DZ_E_NOMEM;
    free(text);
    return rc;
}

static int read_parts(dz_profile *p, FILE *parts, pid_t tid)
{
    char *line = NULL;
    size_t cap = 0;
    int rc = 0;
    rewind(parts);
    for (ssize_t n; rc == 0 && (n = getline(&line, &cap, parts)) > 0;)
        rc = read_text(p, line, (size_t)n, tid);
    free(line);
    return rc;
}

static int read_thread(dz_profile *p, const dz_js_thread *t, pid_t tid)
{
    int rc = t->parts ? read_parts(p, t->parts, tid) : 0;
    return rc == 0 && t->profile ? read_last(p, t->profile, tid) : rc;
}

static bool has_profile(const dz_js_thread *t)
{
    return t->profile || t->parts;
}

static size_t profiles(const dz_node *node)
{
    size_t n = 0;
    for (size_t i = 0; i < node->links.count; i++) {
        const dz_inspector *in = node->links.at[i].inspector;
        for (size_t k = 0; k < dz_inspector_threads(in); k++)
            n += has_profile(dz_inspector_thread(in, k));
    }
    return n;
}

/* The kernel's id of a Node thread, as its reporter gave it; 0 unknown. */
static pid_t thread_id(const dz_node *node, pid_t pid, unsigned number)
{
    for (size_t i = 0; number && i < node->feed.threads.count; i++)
        if (node->feed.threads.at[i].pid == pid && node->feed.threads.at[i].number == number)
            return node->feed.threads.at[i].tid;
    return number ? 0 : pid;
}

int dz_collect_node(dz_profile *profile, const dz_run *run, dz_collected *out)
{
    const dz_node *node = &run->node;
    int rc = 0;
    out->several = profiles(node) > 1;
    for (size_t i = 0; i < node->links.count && rc == 0; i++) {
        const dz_inspector *in = node->links.at[i].inspector;
        for (size_t k = 0; k < dz_inspector_threads(in) && rc == 0; k++) {
            const dz_js_thread *t = dz_inspector_thread(in, k);
            if (!has_profile(t)) {
                out->lost += t->state != DZ_JS_IDLE;
                continue;
            }
            dz_profile one;
            rc = dz_profile_init(&one);
            if (rc < 0)
                break;
            one.keep_ticks = profile->keep_ticks;
            rc = read_thread(&one, t, thread_id(node, dz_inspector_pid(in), t->number));
            if (rc == 0) /* our own reporter is not the user's time */
                rc = dz_profile_drop_file(&one, dz_slice_of(node->preload));
            char name[96];
            snprintf(name, sizeof name, "process %d, %s", (int)dz_inspector_pid(in), t->title);
            if (rc == 0)
                dz_profile_merge(profile, &one, out->several ? name : NULL, false);
            dz_profile_close(&one);
            out->threads += rc == 0;
            out->clipped += !t->profile;
        }
    }
    return rc == 0 && profile->failed ? DZ_E_NOMEM : rc;
}
