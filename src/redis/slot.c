#include "redis/slot.h"

/* CRC-16/XMODEM: polynomial 0x1021, as the cluster specification has it. */
static uint16_t crc16(dz_slice bytes)
{
    static const uint16_t nibble[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                        0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                        0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    unsigned crc = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned byte = (unsigned char)bytes.ptr[i];
        crc = (crc << 4 ^ nibble[(crc >> 12 ^ byte >> 4) & 15]) & 0xffff;
        crc = (crc << 4 ^ nibble[(crc >> 12 ^ byte) & 15]) & 0xffff;
    }
    return (uint16_t)crc;
}

/* Only what is between the first { and the first } after it counts, unless that is empty: so keys
 * can be made to share a slot. */
uint16_t dz_slot_of(dz_slice key)
{
    const char *open = key.len > 0 ? memchr(key.ptr, '{', key.len) : NULL;
    if (open) {
        const char *tag = open + 1;
        const char *close = memchr(tag, '}', (size_t)(key.ptr + key.len - tag));
        if (close && close > tag)
            key = dz_slice_make(tag, (size_t)(close - tag));
    }
    return crc16(key) % DZ_SLOTS;
}
