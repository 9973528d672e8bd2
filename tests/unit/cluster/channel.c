#include "cluster/channel.h"

#include "../check.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct pair {
    int ends[2];
} pair;

static int open_pair(void **state)
{
    static pair it;
    *state = &it;
    return dz_channel_open(it.ends);
}

static int close_pair(void **state)
{
    const pair *it = *state;
    for (int i = 0; i < 2; i++)
        if (it->ends[i] >= 0)
            close(it->ends[i]);
    return 0;
}

static void what_is_said_is_heard_with_its_text(void **state)
{
    const pair *it = *state;
    char text[DZ_CHANNEL_TEXT];
    assert_int_equal(dz_channel_say(it->ends[1], DZ_SAYS_READY, NULL), 0);
    assert_int_equal(dz_channel_say(it->ends[1], DZ_SAYS_FAILED, "no luck"), 0);
    assert_int_equal(dz_channel_hear(it->ends[0], text), DZ_SAYS_READY);
    assert_string_equal(text, "");
    assert_int_equal(dz_channel_hear(it->ends[0], text), DZ_SAYS_FAILED);
    assert_string_equal(text, "no luck");
    assert_int_equal(dz_channel_hear(it->ends[0], text), -EAGAIN);
}

static void a_long_text_is_cut_to_what_can_be_heard(void **state)
{
    const pair *it = *state;
    char said[2 * DZ_CHANNEL_TEXT], heard[DZ_CHANNEL_TEXT];
    memset(said, 'x', sizeof said - 1);
    said[sizeof said - 1] = '\0';
    assert_int_equal(dz_channel_say(it->ends[1], DZ_SAYS_FAILED, said), 0);
    assert_int_equal(dz_channel_hear(it->ends[0], heard), DZ_SAYS_FAILED);
    assert_int_equal(strlen(heard), DZ_CHANNEL_TEXT - 1);
}

static void last_words_are_heard_before_the_end(void **state)
{
    pair *it = *state;
    char text[DZ_CHANNEL_TEXT];
    dz_channel_say(it->ends[1], DZ_SAYS_FAILED, "bye");
    close(it->ends[1]);
    it->ends[1] = -1;
    assert_int_equal(dz_channel_hear(it->ends[0], text), DZ_SAYS_FAILED);
    assert_string_equal(text, "bye");
    assert_int_equal(dz_channel_hear(it->ends[0], text), 0);
}

/* How many sockets the channel takes before it must be read. */
static int fill(int channel, int fd)
{
    int sent = 0, rc;
    while ((rc = dz_channel_send_socket(channel, fd)) == 0)
        sent++;
    assert_true(rc == -EAGAIN || rc == -ENOBUFS || rc == -ETOOMANYREFS);
    return sent;
}

static void a_full_channel_refuses_and_takes_again_when_read(void **state)
{
    const pair *it = *state;
    int client[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, client), 0);
    assert_true(fill(it->ends[0], client[0]) > 16);
    char byte;
    while (recv(it->ends[1], &byte, 1, MSG_DONTWAIT) > 0) /* the sockets are dropped */
        continue;
    assert_int_equal(dz_channel_send_socket(it->ends[0], client[0]), 0);
    close(client[0]);
    close(client[1]);
}

static void a_sent_socket_stays_open_when_the_sender_closes_its_own(void **state)
{
    const pair *it = *state;
    int client[2];
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, client), 0);
    assert_int_equal(dz_channel_send_socket(it->ends[0], client[0]), 0);
    close(client[0]);
    assert_int_equal(recv(client[1], &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    recv(it->ends[1], &byte, 1, MSG_DONTWAIT); /* without room for it: dropped, so it closes */
    assert_int_equal(recv(client[1], &byte, 1, 0), 0);
    close(client[1]);
}

static void sending_to_the_dead_fails_without_a_signal(void **state)
{
    pair *it = *state;
    close(it->ends[1]);
    it->ends[1] = -1;
    assert_int_equal(dz_channel_send_socket(it->ends[0], STDIN_FILENO), -EPIPE);
    assert_int_equal(dz_channel_say(it->ends[0], DZ_SAYS_READY, NULL), -EPIPE);
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(what_is_said_is_heard_with_its_text),
        test(a_long_text_is_cut_to_what_can_be_heard),
        test(last_words_are_heard_before_the_end),
        test(a_full_channel_refuses_and_takes_again_when_read),
        test(a_sent_socket_stays_open_when_the_sender_closes_its_own),
        test(sending_to_the_dead_fails_without_a_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
