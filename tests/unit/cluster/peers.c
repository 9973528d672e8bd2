/* Metrics of all places of a cluster: of those that answer, and without those that don't. */
#include "../check.h"
#include "../alloc.h"
#include "../wait.h"

#include "cluster/channel.h"
#include "cluster/peers.h"

#include <donmaz.h>
#include <donmaz/error.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/* --- a system that is out of things (--wrap) --- */

static int channels_left = -1; /* that can still be opened; below 0: any number */
static bool no_eventfd, no_thread;

int __real_dz_channel_open(int ends[2]);
int __wrap_dz_channel_open(int ends[2]);
int __wrap_dz_channel_open(int ends[2])
{
    if (channels_left == 0)
        return -EMFILE;
    channels_left -= channels_left > 0;
    return __real_dz_channel_open(ends);
}

int __real_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags)
{
    if (!no_eventfd)
        return __real_eventfd(value, flags);
    errno = EMFILE;
    return -1;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg)
{
    return no_thread ? EAGAIN : __real_pthread_create(thread, attributes, start, arg);
}

static size_t descriptors(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* --- three places --- */

enum { PLACES = 3 };

static dz_peers peers;
static dz_app *apps[PLACES]; /* each with a gauge that tells it apart */
static dz_peer *answering[PLACES];

static int set_up(void **state)
{
    (void)state;
    memset(answering, 0, sizeof answering);
    for (int i = 0; i < PLACES; i++) {
        const dz_metric metric = {"place", "Which one.", NULL, 0};
        dz_gauge *gauge;
        apps[i] = dz_app_new();
        if (!apps[i] || dz_metrics_gauge(apps[i]->core->metrics, &metric, &gauge) < 0)
            return -1;
        dz_gauge_set(gauge, 100 + i);
    }
    return dz_peers_open(&peers, PLACES);
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        dz_peer_stop(answering[i]);
        dz_app_free(apps[i]);
    }
    dz_peers_close(&peers);
    return 0;
}

static void start(unsigned number)
{
    assert_int_equal(dz_peer_start(&answering[number - 1], &peers, number, apps[number - 1]->core),
                     0);
}

/* What the place `number` shows. */
static char *scrape(unsigned number)
{
    dz_buf text = {0};
    assert_int_equal(dz_peer_write_all(answering[number - 1], &text), 0);
    char *copy = calloc(1, text.len + 1);
    assert_non_null(copy);
    memcpy(copy, text.data, text.len);
    dz_buf_release(&text);
    return copy;
}

static bool shows(const char *text, unsigned number, bool up)
{
    char line[64];
    snprintf(line, sizeof line, "\ndonmaz_worker_up{worker=\"%u\"} %d\n", number, up);
    if (!strstr(text, line))
        return false;
    snprintf(line, sizeof line, "\nplace{worker=\"%u\"} %u\n", number, 99 + number);
    return (strstr(text, line) != NULL) == up;
}

/* Whether only the places `up` are shown, the first as bit 0. Asked again when fewer are: each has
 * a second, which a machine may take from it. */
static void assert_scrape_shows(unsigned asked, unsigned up)
{
    for (int left = 5; left > 0; left--) {
        char *text = scrape(asked);
        unsigned found = 0;
        for (unsigned number = 1; number <= PLACES; number++) {
            found |= shows(text, number, true) ? 1U << (number - 1) : 0;
            assert_true(shows(text, number, true) || shows(text, number, false));
        }
        free(text);
        assert_int_equal(found & ~up, 0);
        if (found == up)
            return;
    }
    fail_msg("place %u does not show all that are up", asked);
}

enum { FIRST = 1, SECOND = 2, THIRD = 4 };

/* --- all well --- */

static void whichever_is_asked_shows_all(void **state)
{
    (void)state;
    for (unsigned number = 1; number <= PLACES; number++)
        start(number);
    size_t before = descriptors();
    for (int round = 0; round < 20; round++)
        for (unsigned asked = 1; asked <= PLACES; asked++)
            assert_scrape_shows(asked, FIRST | SECOND | THIRD);
    wait_until(descriptors() == before); /* who answers closes its end a moment later */
}

/* --- places that do not answer --- */

static void *answer_half(void *arg)
{
    int *kept = arg;
    wait_until((*kept = dz_channel_take_socket(peers.pairs[1][0])) >= 0);
    static const char half[] = "# HELP place Which one.\n# TYPE place gauge\nplace 1";
    send(*kept, half, sizeof half - 1, MSG_NOSIGNAL); /* who asked may have given up already */
    return NULL;                                      /* and neither goes on nor closes it */
}

/* One has no worker, another stops in the middle of a number. */
static void who_does_not_answer_in_time_is_down_and_leaves_no_half_of_a_text(void **state)
{
    (void)state;
    pthread_t thread;
    int kept = -1;
    start(1);
    size_t before = descriptors();
    assert_int_equal(__real_pthread_create(&thread, NULL, answer_half, &kept), 0);
    assert_scrape_shows(1, FIRST);
    pthread_join(thread, NULL);
    close(kept);
    assert_int_equal(descriptors(), before);
}

/* The second takes all the time there is. */
static void who_answers_meanwhile_is_up(void **state)
{
    (void)state;
    start(1);
    start(3);
    assert_scrape_shows(1, FIRST | THIRD);
}

static void *hang_up(void *arg)
{
    int fd;
    (void)arg;
    wait_until((fd = dz_channel_take_socket(peers.pairs[1][0])) >= 0);
    close(fd);
    return NULL;
}

static void one_that_hangs_up_is_down(void **state)
{
    (void)state;
    pthread_t thread;
    start(1);
    start(3);
    assert_int_equal(__real_pthread_create(&thread, NULL, hang_up, NULL), 0);
    assert_scrape_shows(1, FIRST | THIRD);
    pthread_join(thread, NULL);
}

static void a_place_that_was_asked_too_often_is_not_waited_for(void **state)
{
    (void)state;
    start(1);
    start(3);
    int nobody = eventfd(0, EFD_CLOEXEC);
    while (dz_channel_send_socket(peers.pairs[1][1], nobody) == 0) /* until it takes no more */
        continue;
    close(nobody);
    size_t before = descriptors();
    assert_scrape_shows(1, FIRST | THIRD);
    wait_until(descriptors() == before);
}

/* --- short of something --- */

static void without_memory_it_is_an_error_and_nothing_is_left_open(void **state)
{
    (void)state;
    for (unsigned number = 1; number <= PLACES; number++)
        start(number);
    size_t before = descriptors();
    int rc, failures = 0;
    dz_buf text = {0};
    with_few_allocations(
        {
            dz_buf_release(&text);
            rc = dz_peer_write_all(answering[0], &text);
        },
        rc == 0, rc == DZ_E_NOMEM && ++failures);
    assert_true(failures >= 4);
    dz_buf_release(&text);
    wait_until(descriptors() == before);
    assert_scrape_shows(1, FIRST | SECOND | THIRD);
}

static void pairs_that_can_t_all_be_opened_are_closed_again(void **state)
{
    (void)state;
    size_t before = descriptors();
    dz_peers few;
    channels_left = 2;
    assert_int_equal(dz_peers_open(&few, PLACES), -EMFILE);
    channels_left = -1;
    assert_int_equal(few.count, 0);
    dz_peers_close(&few); /* harmless */
    assert_int_equal(descriptors(), before);
    allocs_left = 0;
    int rc = dz_peers_open(&few, PLACES);
    allocs_left = -1;
    assert_int_equal(rc, DZ_E_NOMEM);
    dz_peers_close(&few);
}

static void one_that_can_t_start_leaves_nothing(void **state)
{
    (void)state;
    dz_peer *peer = NULL;
    size_t before = descriptors();
    no_eventfd = true;
    assert_int_equal(dz_peer_start(&peer, &peers, 1, apps[0]->core), -EMFILE);
    no_eventfd = false;
    no_thread = true;
    assert_int_equal(dz_peer_start(&peer, &peers, 1, apps[0]->core), DZ_E_NO_THREAD);
    no_thread = false;
    allocs_left = 0;
    int rc = dz_peer_start(&peer, &peers, 1, apps[0]->core);
    allocs_left = -1;
    assert_int_equal(rc, DZ_E_NOMEM);
    assert_null(peer);
    assert_int_equal(descriptors(), before);
    dz_peer_stop(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whichever_is_asked_shows_all),
        TEST(who_does_not_answer_in_time_is_down_and_leaves_no_half_of_a_text),
        TEST(who_answers_meanwhile_is_up),
        TEST(one_that_hangs_up_is_down),
        TEST(a_place_that_was_asked_too_often_is_not_waited_for),
        TEST(without_memory_it_is_an_error_and_nothing_is_left_open),
        TEST(pairs_that_can_t_all_be_opened_are_closed_again),
        TEST(one_that_can_t_start_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
