/* What a service reads of a reply. */
#include "redis/resp.h"

dz_reply_kind dz_reply_kind_of(const dz_reply *reply)
{
    return reply->kind;
}

dz_slice dz_reply_text(const dz_reply *reply)
{
    return dz_buf_slice(&reply->text);
}

int64_t dz_reply_integer(const dz_reply *reply)
{
    return reply->integer;
}

double dz_reply_double(const dz_reply *reply)
{
    return reply->kind == DZ_REPLY_DOUBLE ? reply->real : (double)reply->integer;
}

size_t dz_reply_count(const dz_reply *reply)
{
    return reply->count;
}

const dz_reply *dz_reply_first(const dz_reply *reply)
{
    return reply->first;
}

const dz_reply *dz_reply_next(const dz_reply *child)
{
    return child->next;
}
