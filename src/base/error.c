#include <donmaz/error.h>

#include <string.h>

const char *dz_strerror(int code)
{
    switch (code) {
    case 0:
        return "success";
#define X(name, value, text)                                                                       \
    case name:                                                                                     \
        return text;
        DZ_ERRORS(X)
#undef X
    default:
        break;
    }
    const char *text = code < 0 && code > -4096 ? strerrordesc_np(-code) : NULL;
    return text ? text : "unknown error";
}

const char *dz_error_name(int code)
{
    switch (code) {
#define X(name, value, text)                                                                       \
    case name:                                                                                     \
        return #name;
        DZ_ERRORS(X)
#undef X
    default:
        break;
    }
    const char *name = code < 0 && code > -4096 ? strerrorname_np(-code) : NULL;
    return name ? name : "unknown";
}
