/* io.h: socket reads and writes without what a C library adds to them.
 *
 * recv(3) and send(3) are cancellation points: with several threads each call switches asynchronous
 * cancellation on and off, which costs as much as parsing a request head. Nobody cancels our
 * threads. Errors are errno's, as usual. */
#ifndef DZ_BASE_IO_H
#define DZ_BASE_IO_H

#include <sys/socket.h>
#include <sys/types.h>

ssize_t dz_recv(int fd, void *out, size_t size);
ssize_t dz_send(int fd, const void *bytes, size_t size);
ssize_t dz_sendmsg(int fd, const struct msghdr *message);

#endif
