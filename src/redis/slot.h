/* slot.h: which of the 16384 slots of a Redis Cluster a key is in. */
#ifndef DZ_REDIS_SLOT_H
#define DZ_REDIS_SLOT_H

#include <donmaz/slice.h>

#include <stdint.h>

enum { DZ_SLOTS = 16384, DZ_SLOT_ANY = 0xffff };

uint16_t dz_slot_of(dz_slice key);

#endif
