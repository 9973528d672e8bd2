#include "redis/command.h"

#define IS_ONE_OF(name, list) is_one_of(name, list, sizeof(list) / sizeof *(list))

static bool is_one_of(dz_slice name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (dz_slice_equal_nocase(name, dz_slice_of(list[i])))
            return true;
    return false;
}

static const char *const streams[] = {"XREAD", "XREADGROUP"};

/* Where `word` is among the arguments; 0: nowhere. */
static size_t find_word(const dz_slice *args, size_t count, const char *word)
{
    for (size_t i = 1; i < count; i++)
        if (dz_slice_equal_nocase(args[i], dz_slice_of(word)))
            return i;
    return 0;
}

bool dz_redis_command_refused(const dz_slice *args, size_t count)
{
    static const char *const names[] = {
        "SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE",
        "MONITOR",   "MULTI",       "EXEC",       "DISCARD",      "WATCH",      "UNWATCH",
        "SELECT",    "AUTH",        "HELLO",      "RESET",        "QUIT",       "CLIENT",
        "SYNC",      "PSYNC",       "REPLCONF",   "ASKING",       "READONLY",   "READWRITE",
        "BLPOP",     "BRPOP",       "BLMOVE",     "BRPOPLPUSH",   "BLMPOP",     "BZPOPMIN",
        "BZPOPMAX",  "BZMPOP",      "WAIT",       "WAITAOF"};
    if (IS_ONE_OF(args[0], names))
        return true;
    /* BLOCK stands before STREAMS; behind it would be a key of that name. */
    size_t block = IS_ONE_OF(args[0], streams) ? find_word(args, count, "BLOCK") : 0;
    return block != 0 && block < find_word(args, count, "STREAMS");
}

bool dz_redis_command_writes_anything(dz_slice name)
{
    static const char *const names[] = {"EVAL",     "EVALSHA",  "FCALL",   "FLUSHALL",
                                        "FLUSHDB",  "SWAPDB",   "DEBUG",   "FUNCTION",
                                        "FAILOVER", "SHUTDOWN", "SLAVEOF", "REPLICAOF"};
    return IS_ONE_OF(name, names);
}

size_t dz_redis_command_key(const dz_slice *args, size_t count)
{
    static const char *const none[] = {
        "PING",      "ECHO",     "INFO",      "TIME",     "DBSIZE",  "CONFIG", "COMMAND",
        "CLUSTER",   "SCRIPT",   "FUNCTION",  "FLUSHALL", "FLUSHDB", "KEYS",   "SCAN",
        "RANDOMKEY", "PUBLISH",  "PUBSUB",    "LASTSAVE", "SAVE",    "BGSAVE", "BGREWRITEAOF",
        "ACL",       "LATENCY",  "SLOWLOG",   "MODULE",   "ROLE",    "SWAPDB", "LOLWUT",
        "DEBUG",     "SHUTDOWN", "REPLICAOF", "SLAVEOF",  "FAILOVER"};
    static const char *const second[] = {"OBJECT",     "MEMORY", "BITOP",  "XGROUP",
                                         "XINFO",      "ZUNION", "ZINTER", "ZDIFF",
                                         "SINTERCARD", "LMPOP",  "ZMPOP",  "ZINTERCARD"};
    static const char *const scripts[] = {"EVAL",       "EVALSHA", "EVAL_RO",
                                          "EVALSHA_RO", "FCALL",   "FCALL_RO"};
    size_t key = 1;
    if (IS_ONE_OF(args[0], none))
        key = 0;
    else if (IS_ONE_OF(args[0], second))
        key = 2;
    else if (IS_ONE_OF(args[0], scripts))
        key = count > 2 && !dz_slice_equal(args[2], DZ_LIT("0")) ? 3 : 0;
    else if (IS_ONE_OF(args[0], streams))
        key = find_word(args, count, "STREAMS") + 1;
    else if (dz_slice_equal_nocase(args[0], DZ_LIT("MIGRATE")))
        key = 3;
    return key < count ? key : 0;
}
