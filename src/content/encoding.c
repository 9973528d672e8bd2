#include "content/encoding.h"

#include "http/negotiate.h"
#include "http/split.h"

dz_slice dz_coding_name(dz_coding coding)
{
    switch (coding) {
    case DZ_CODING_GZIP:
        return DZ_LIT("gzip");
    case DZ_CODING_BR:
        return DZ_LIT("br");
    case DZ_CODING_IDENTITY:
        break;
    }
    return DZ_LIT("");
}

static bool mentions(dz_slice field, dz_slice coding)
{
    while (field.ptr) {
        dz_slice entry, name;
        dz_split_take(&field, ',', &entry);
        dz_split_take(&entry, ';', &name);
        if (dz_slice_equal_nocase(name, coding))
            return true;
    }
    return false;
}

/* Identity is acceptable unless refused, but a client that names codings prefers them to it, unless
 * it names it, too. */
static int identity_weight(dz_slice field)
{
    return mentions(field, DZ_LIT("identity")) ? dz_accept_encoding(field, DZ_LIT("identity")) : 0;
}

static int weight(dz_slice field, dz_coding coding)
{
    dz_slice name = dz_coding_name(coding);
    /* x-gzip is an old name of gzip (RFC 9110 8.4.1.3). */
    if (coding == DZ_CODING_GZIP && !mentions(field, name) && mentions(field, DZ_LIT("x-gzip")))
        name = DZ_LIT("x-gzip");
    return dz_accept_encoding(field, name);
}

dz_coding dz_coding_choose(dz_slice field, unsigned available)
{
    static const dz_coding preferred[] = {DZ_CODING_BR, DZ_CODING_GZIP};
    dz_coding best = DZ_CODING_IDENTITY;
    if (field.len == 0)
        return best;
    int least = identity_weight(field), best_weight = 0;
    for (size_t i = 0; i < sizeof preferred / sizeof preferred[0]; i++) {
        if (!(available & 1U << preferred[i]))
            continue;
        int mine = weight(field, preferred[i]);
        if (mine > best_weight && mine >= least) {
            best = preferred[i];
            best_weight = mine;
        }
    }
    return best;
}
