/* The probe against servers of each kind, and what is made of its samples. */
#include "../check.h"
#include "../wait.h"

#include <doctor/facts.h>

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static int listener;
static _Atomic unsigned answered_requests;
static bool answers;

/* Refuses each connection's first bytes, or keeps silent. */
static void *serve(void *arg)
{
    (void)arg;
    int kept[256];
    size_t count = 0;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        char bytes[256];
        static const char refusal[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
        if (answers && recv(fd, bytes, sizeof bytes, 0) > 0 &&
            send(fd, refusal, sizeof refusal - 1, MSG_NOSIGNAL) > 0)
            answered_requests++;
        if (answers || count == 256)
            close(fd);
        else
            kept[count++] = fd;
    }
    while (count > 0)
        close(kept[--count]);
    return NULL;
}

static dz_port bind_anywhere(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    return (dz_port){.kind = DZ_PORT_TCP4, .port = ntohs(a.sin_port), .address = "127.0.0.1"};
}

static dz_port listen_anywhere(void)
{
    dz_port port = bind_anywhere();
    assert_int_equal(listen(listener, 16), 0);
    return port;
}

static void an_answering_server_is_asked_again_and_again(void **state)
{
    (void)state;
    answers = true;
    answered_requests = 0;
    dz_port port = listen_anywhere();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    dz_probe *probe = dz_probe_start(&port);
    assert_non_null(probe);
    wait_until(answered_requests >= 5);
    dz_probe_stop(probe);
    const dz_probe_samples *seen = dz_probe_seen(probe);
    assert_true(seen->count >= 4);
    for (size_t i = 0; i + 1 < seen->count; i++)
        assert_true(seen->at[i].answered > seen->at[i].sent);
    dz_probe_free(probe);
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
}

static void a_silent_server_leaves_one_question_open(void **state)
{
    (void)state;
    answers = false;
    dz_port port = listen_anywhere();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    dz_probe *probe = dz_probe_start(&port);
    assert_non_null(probe);
    usleep(10000); /* not waited for: without a question there is no sample, which is right too */
    dz_probe_stop(probe);
    const dz_probe_samples *seen = dz_probe_seen(probe);
    assert_true(seen->count <= 1);
    for (size_t i = 0; i < seen->count; i++)
        assert_int_equal(seen->at[i].answered, 0);
    dz_probe_free(probe);
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
}

static void nobody_listens_gives_no_samples(void **state)
{
    (void)state;
    dz_port port = bind_anywhere(); /* bound, so that nobody else listens there meanwhile */
    for (int i = 0; i < 200; i++) { /* the end may come at any point of a question */
        dz_probe *probe = dz_probe_start(&port);
        assert_non_null(probe);
        for (uint64_t until = dz_now() + (uint64_t)i * 1000; dz_now() < until;)
            ;
        dz_probe_stop(probe);
        assert_int_equal(dz_probe_seen(probe)->count, 0);
        dz_probe_free(probe);
    }
    close(listener);
    dz_probe_free(NULL);
    assert_int_equal(dz_probe_seen(NULL)->count, 0);
}

#define MS(n) ((uint64_t)(n)*1000000)

static void late_answers_are_stalls_less_what_others_took(void **state)
{
    (void)state;
    dz_probe_sample at[] = {
        {.sent = MS(1000), .answered = MS(1001), .until = MS(1001)},
        {.sent = MS(1050), .answered = MS(1150), .until = MS(1150)},
        {.sent = MS(1200), .answered = MS(1300), .until = MS(1300), .waited = MS(80)},
        {.sent = MS(1350), .answered = MS(1351), .until = MS(1351)},
        {.sent = MS(1400), .until = MS(1900)},
    };
    dz_probe_samples samples = {.at = at, .count = 5};
    dz_outside outside = {0};
    dz_probe_facts f;
    dz_facts_probe(&f, &samples, &outside, 0, MS(1000), MS(2000));
    assert_int_equal(f.count, 5);
    assert_int_equal(f.answered, 4);
    assert_int_equal(f.late, 1); /* the third was the prober's own wait */
    assert_true(fabs(f.stalled - 0.6) < 0.001);
    assert_true(fabs(f.pending_ms - 500) < 0.1);
    assert_true(fabs(f.max_ms - 100) < 0.1);

    /* The program's threads were ready all the time, and others had the cores for half of it. */
    dz_out_sample whole = {.from = MS(1000), .to = MS(2000), .wait = 1};
    dz_out_series process = {.samples = {.at = &whole, .count = 1}};
    outside.processes.at = &process;
    outside.processes.count = 1;
    dz_facts_probe(&f, &samples, &outside, 0.5, MS(1000), MS(2000));
    assert_true(fabs(f.max_ms - 50) < 0.1);
    assert_true(fabs(f.pending_ms - 250) < 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answering_server_is_asked_again_and_again),
        cmocka_unit_test(a_silent_server_leaves_one_question_open),
        cmocka_unit_test(nobody_listens_gives_no_samples),
        cmocka_unit_test(late_answers_are_stalls_less_what_others_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
