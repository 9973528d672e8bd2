#include "http/fields.h"

#include "http/chars.h"
#include "http/split.h"
#include "http/target.h"

/* `lower` holds only a-z and '-', for which setting bit 5 of a token byte is lower-casing. */
static bool is_named(dz_slice name, const char *lower)
{
    for (size_t i = 0; i < name.len; i++)
        if ((name.ptr[i] | 0x20) != lower[i])
            return false;
    return true;
}

static int add_host(dz_fields *fields, dz_head *head, dz_slice value)
{
    if (fields->host || !dz_host_valid(value, false))
        return -400;
    fields->host = true;
    /* An absolute-form target overrides the field (RFC 9112 3.2.2). */
    head->host = head->authority.len ? head->authority : value;
    return 0;
}

/* One field of digits. A list of equal numbers would be allowed (RFC 9112 6.3), but nobody sends
 * one in good faith. */
static int add_content_length(dz_head *head, dz_slice value)
{
    if (head->has_length || value.len == 0)
        return -400;
    uint64_t length = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (!dz_char_digit(value.ptr[i]))
            return -400;
        unsigned digit = (unsigned)(value.ptr[i] - '0');
        if (length > ((uint64_t)INT64_MAX - digit) / 10)
            return -400;
        length = length * 10 + digit;
    }
    head->has_length = true;
    head->content_length = length;
    return 0;
}

/* Transfer codings are one list over all fields. Only `chunked`, once and last, can be framed. */
static int add_transfer_encoding(dz_fields *fields, dz_slice value)
{
    dz_slice rest = value, coding;
    fields->transfer_encoding = true;
    do {
        dz_split_take(&rest, ',', &coding);
        if (coding.len == 0)
            return -400;
        for (size_t i = 0; i < coding.len; i++)
            if (!dz_char_is(coding.ptr[i], DZ_CHAR_TOKEN))
                return -400;
        if (fields->chunked_last) /* something follows chunked */
            return -400;
        if (dz_slice_equal_nocase(coding, DZ_LIT("chunked")))
            fields->chunked_last = true;
        else
            fields->other_coding = true;
    } while (rest.ptr);
    return 0;
}

static int add_connection(dz_fields *fields, dz_slice value)
{
    dz_slice rest = value, option;
    do {
        dz_split_take(&rest, ',', &option);
        if (dz_slice_equal_nocase(option, DZ_LIT("close")))
            fields->close = true;
        else if (dz_slice_equal_nocase(option, DZ_LIT("keep-alive")))
            fields->keep_alive = true;
        else if (dz_slice_equal_nocase(option, DZ_LIT("upgrade")))
            fields->upgrade_token = true;
    } while (rest.ptr);
    return 0;
}

static int add_expect(dz_head *head, dz_slice value)
{
    /* A 1.0 client can't mean it (RFC 9110 10.1.1). */
    if (head->minor == 0)
        return 0;
    if (!dz_slice_equal_nocase(value, DZ_LIT("100-continue")))
        return -417;
    head->expect_continue = true;
    return 0;
}

int dz_fields_add(dz_fields *fields, dz_head *head, const dz_header *header)
{
    dz_slice name = header->name;
    switch (name.len) {
    case 4:
        return is_named(name, "host") ? add_host(fields, head, header->value) : 0;
    case 6:
        return is_named(name, "expect") ? add_expect(head, header->value) : 0;
    case 7:
        if (is_named(name, "upgrade"))
            fields->upgrade = true;
        return 0;
    case 10:
        return is_named(name, "connection") ? add_connection(fields, header->value) : 0;
    case 14:
        return is_named(name, "content-length") ? add_content_length(head, header->value) : 0;
    case 17:
        return is_named(name, "transfer-encoding") ? add_transfer_encoding(fields, header->value)
                                                   : 0;
    default:
        return 0;
    }
}

int dz_fields_finish(const dz_fields *fields, dz_head *head)
{
    if (!fields->host && head->minor > 0)
        return -400;
    if (!fields->host)
        head->host = head->authority;
    if (fields->transfer_encoding) {
        /* Both lengths at once, or a coding that 1.0 doesn't know: some proxy on the way may have
         * framed this request otherwise (RFC 9112 6.1, 6.3). */
        if (head->has_length || head->minor == 0)
            return -400;
        if (fields->other_coding)
            return -501;
        head->chunked = true;
    }
    head->keep_alive = !fields->close && (head->minor > 0 || fields->keep_alive);
    head->upgrade = fields->upgrade && fields->upgrade_token;
    return 0;
}
