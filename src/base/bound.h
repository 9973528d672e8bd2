/* bound.h: where an IP socket is bound. */
#ifndef DZ_BASE_BOUND_H
#define DZ_BASE_BOUND_H

#include <stdbool.h>

/* Its port; 0 when it has none, or can't be asked. */
unsigned dz_bound_port(int fd);

/* Whether only this machine reaches it. Sockets that are no IP sockets have no other way. */
bool dz_bound_to_loopback(int fd);

#endif
