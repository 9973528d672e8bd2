#include "http/chunked.h"

#include "http/chars.h"
#include "http/scan.h"

enum state {
    SIZE,          /* digits of a chunk's size */
    SIZE_BLANK,    /* white space after them: only an extension may follow */
    EXTENSION,     /* after a ';', until CR */
    SIZE_LF,       /* LF of the size line */
    DATA,          /* decoder->left bytes of payload */
    DATA_CR,       /* the line end after them */
    DATA_LF,       //
    TRAILER_START, /* first byte of a trailer line */
    TRAILER_NAME,  /* until its colon */
    TRAILER_VALUE, /* until CR */
    TRAILER_LF,    //
    LAST_LF,       /* LF of the empty line that ends the body */
    DONE
};

/* Sixteen digits hold any 64-bit size; more could only be leading zeros. */
enum { DIGITS_MAX = 16 };

void dz_chunked_init(dz_chunked *decoder)
{
    *decoder = (dz_chunked){.state = SIZE};
}

/* Extensions are paid for by the payload that follows, so that a signature with each large chunk
 * passes and an extension for nothing doesn't. */
static int count_extension(dz_chunked *decoder, size_t bytes)
{
    if (bytes > DZ_CHUNK_EXTENSION_MAX - decoder->extension)
        return -400;
    decoder->extension += (uint32_t)bytes;
    return 0;
}

static int count_trailer(dz_chunked *decoder, size_t bytes)
{
    if (bytes > DZ_CHUNK_TRAILER_MAX - decoder->trailer)
        return -431;
    decoder->trailer += (uint32_t)bytes;
    return 0;
}

static int read_size_digit(dz_chunked *decoder, char c)
{
    int digit = dz_char_hex(c);
    if (digit >= 0) {
        if (decoder->digits == DIGITS_MAX || decoder->left > (uint64_t)INT64_MAX >> 4)
            return -400;
        decoder->digits++;
        decoder->left = decoder->left << 4 | (unsigned)digit;
        return 0;
    }
    if (decoder->digits == 0)
        return -400;
    if (c == '\r')
        decoder->state = SIZE_LF;
    else if (c == ';')
        decoder->state = EXTENSION;
    else if (dz_char_blank(c))
        decoder->state = SIZE_BLANK;
    else
        return -400;
    return 0;
}

/* One byte of anything but payload, extension text and trailer values. */
static int read_byte(dz_chunked *decoder, char c)
{
    switch (decoder->state) {
    case SIZE:
        return read_size_digit(decoder, c);
    case SIZE_BLANK:
        if (c == ';')
            decoder->state = EXTENSION;
        else if (!dz_char_blank(c))
            return -400;
        return count_extension(decoder, 1);
    case SIZE_LF:
        decoder->state = decoder->left ? DATA : TRAILER_START;
        break;
    case DATA_CR:
        decoder->state = DATA_LF;
        return c == '\r' ? 0 : -400;
    case DATA_LF:
        decoder->state = SIZE;
        decoder->digits = 0;
        break;
    case TRAILER_START:
        if (c != '\r' && !dz_char_is(c, DZ_CHAR_TOKEN))
            return -400;
        decoder->state = c == '\r' ? LAST_LF : TRAILER_NAME;
        return count_trailer(decoder, 1);
    case TRAILER_NAME:
        if (c == ':')
            decoder->state = TRAILER_VALUE;
        else if (!dz_char_is(c, DZ_CHAR_TOKEN))
            return -400;
        return count_trailer(decoder, 1);
    case TRAILER_LF:
        decoder->state = TRAILER_START;
        break;
    case LAST_LF:
        decoder->state = DONE;
        break;
    default:
        break;
    }
    return c == '\n' ? 0 : -400;
}

/* Text that ends with CR; everything else is free but for control bytes. */
static int read_text(dz_chunked *decoder, const char *at, const char *end, size_t *used)
{
    const char *stop = dz_scan_control(at, at, end);
    *used = (size_t)(stop - at);
    bool extension = decoder->state == EXTENSION;
    int rc = extension ? count_extension(decoder, *used) : count_trailer(decoder, *used);
    if (rc < 0 || stop == end)
        return rc;
    if (*stop != '\r')
        return -400;
    decoder->state = extension ? SIZE_LF : TRAILER_LF;
    *used += 1;
    return 0;
}

static dz_slice read_data(dz_chunked *decoder, const char *at, size_t len)
{
    size_t take = decoder->left < len ? (size_t)decoder->left : len;
    decoder->left -= take;
    decoder->extension -= take < decoder->extension ? (uint32_t)take : decoder->extension;
    if (decoder->left == 0)
        decoder->state = DATA_CR;
    return dz_slice_make(at, take);
}

int dz_chunked_next(dz_chunked *decoder, const char *bytes, size_t len, size_t *used,
                    dz_slice *payload)
{
    size_t at = 0;
    int rc = 0;
    *payload = (dz_slice){0};
    while (rc == 0 && at < len && decoder->state != DONE) {
        size_t step = 1;
        if (decoder->state == DATA) {
            *payload = read_data(decoder, bytes + at, len - at);
            at += payload->len;
            rc = DZ_CHUNKED_DATA;
            break;
        }
        if (decoder->state == EXTENSION || decoder->state == TRAILER_VALUE)
            rc = read_text(decoder, bytes + at, bytes + len, &step);
        else
            rc = read_byte(decoder, bytes[at]);
        at += step;
    }
    *used = at;
    return rc == 0 && decoder->state == DONE ? DZ_CHUNKED_END : rc;
}

size_t dz_chunk_header(char out[DZ_CHUNK_HEADER_MAX], uint64_t size)
{
    size_t digits = size ? (67 - (size_t)__builtin_clzll(size)) / 4 : 1;
    for (size_t i = digits; i-- > 0; size >>= 4)
        out[i] = "0123456789abcdef"[size & 15];
    out[digits] = '\r';
    out[digits + 1] = '\n';
    return digits + 2;
}
