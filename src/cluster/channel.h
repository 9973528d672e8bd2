/* channel.h: between the supervisor and one worker: a pair of connected unix sockets of type
 * SEQPACKET. Down go connected client sockets, one a message (dz_server_adopt_from takes them); up
 * go the few things a worker has to say. The end of the way down is the order to stop, and also
 * what a worker sees when its supervisor dies. */
#ifndef DZ_CLUSTER_CHANNEL_H
#define DZ_CLUSTER_CHANNEL_H

#include <stddef.h>
#include <sys/types.h>

enum dz_says {
    DZ_SAYS_READY = 'r',   /* send connections */
    DZ_SAYS_FAILED = 'f',  /* could not start; the text says why */
    DZ_SAYS_LEAVING = 'l', /* was told to stop by someone else: send no more */
};

enum { DZ_CHANNEL_TEXT = 512 }; /* longest message upwards, with its terminator */

/* Neither call of this header blocks. -errno. */
int dz_channel_open(int ends[2]);

/* A copy of fd is on its way when this returns 0; the caller keeps its own. -EAGAIN, -ENOBUFS,
 * -ETOOMANYREFS: not now. -EPIPE, -ECONNRESET: the worker is gone. */
int dz_channel_send_socket(int channel, int fd);

/* Takes one such socket, close-on-exec. -EAGAIN: there is none; -EPROTO: something else came; 0
 * can't be told from a descriptor, so the end is -EPIPE. */
int dz_channel_take_socket(int channel);

/* text may be NULL. */
int dz_channel_say(int channel, enum dz_says what, const char *text);

/* What was said, with its text (terminated) in `text`; 0: the other end is closed; -EAGAIN. */
int dz_channel_hear(int channel, char text[DZ_CHANNEL_TEXT]);

#endif
