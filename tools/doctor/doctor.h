/* doctor.h: one examination: the run, what it gave, and the verdict. */
#ifndef DZ_DOCTOR_DOCTOR_H
#define DZ_DOCTOR_DOCTOR_H

#include "judge.h"
#include "queueing.h"

#include "flame/native.h"
#include "node/run.h"

typedef struct dz_doctor {
    dz_run run;
    dz_outside outside;
    dz_probe *probe;   /* NULL: none */
    dz_inside *inside; /* of a donmaz server; NULL */
    dz_profile profile;
    bool profile_ready, no_probe;
    dz_native *native;                      /* of a program that is not Node; NULL */
    uint64_t garbage_before, garbage_after; /* when heaps were collected; 0: not */
    dz_facts facts;
    dz_diagnosis diagnosis;
    struct {
        const char *name; /* borrowed from the feed */
        dz_queue_route queue;
    } work[DZ_QUEUE_ROUTES]; /* what the estimates are made from */
    size_t work_count;
    struct {
        dz_queue_mode mode;
        dz_queue_deal deal;
        dz_queue_result result;
    } estimates[DZ_QUEUE_MODES * DZ_QUEUE_DEALS];
    size_t estimate_count;
    char basis[256]; /* what the estimates rest on; empty: there are none */
    char title[512];
    char notes[8][256]; /* what could not be seen */
    size_t note_count;
} dz_doctor;

void dz_doctor_note(dz_doctor *doctor, const char *text);

/* The cores that the program may use: fewer than ours when taskset started it. */
unsigned dz_doctor_cores(const dz_tree *tree);

/* After the run: fills facts and diagnosis. */
void dz_doctor_examine(dz_doctor *doctor);

/* After the judgement: for a server that computes, fills work, estimates and basis. */
void dz_doctor_prescribe(dz_doctor *doctor);

/* The verdict in words. */
void dz_doctor_print(const dz_doctor *doctor, FILE *out);

/* 0 or -errno. */
int dz_doctor_write_json(const dz_doctor *doctor, FILE *out);
int dz_doctor_write_html(const dz_doctor *doctor, FILE *out);

/* For the report: what a donmaz server told of itself, ",\"inside\":..." and its series. */
void dz_report_inside(FILE *out, const dz_doctor *doctor);
void dz_report_inside_series(FILE *out, const dz_doctor *doctor);

#endif
