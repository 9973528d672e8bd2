#include "http/chars.h"

#define DIGIT(c) ((c) >= '0' && (c) <= '9')
#define ALPHA(c) (((c) >= 'A' && (c) <= 'Z') || ((c) >= 'a' && (c) <= 'z'))
#define HEX(c)   (DIGIT(c) || ((c) >= 'A' && (c) <= 'F') || ((c) >= 'a' && (c) <= 'f'))
#define VCHAR(c) ((c) > 0x20 && (c) < 0x7f)

/* RFC 9110 5.6.2 */
#define TOKEN(c)                                                                                   \
    (DIGIT(c) || ALPHA(c) || (c) == '!' || (c) == '#' || (c) == '$' || (c) == '%' || (c) == '&' || \
     (c) == '\'' || (c) == '*' || (c) == '+' || (c) == '-' || (c) == '.' || (c) == '^' ||          \
     (c) == '_' || (c) == '`' || (c) == '|' || (c) == '~')

/* RFC 3986 allows less, but browsers send [ ] { } | ^ ` unescaped (the sets of the WHATWG URL
 * standard), so these pass. A fragment never reaches a server, and bytes above ASCII must come
 * percent-encoded. A backslash in a path is one that some other program takes for a slash. */
#define QUERY(c) (VCHAR(c) && (c) != '"' && (c) != '<' && (c) != '>' && (c) != '#')
#define PATH(c)  (QUERY(c) && (c) != '?' && (c) != '\\')

/* RFC 3986 3.2.2 without the comma: that is how two joined Host fields would look. */
#define HOST(c)                                                                                    \
    (DIGIT(c) || ALPHA(c) || (c) == '-' || (c) == '.' || (c) == '_' || (c) == '~' || (c) == '%' || \
     (c) == '!' || (c) == '$' || (c) == '&' || (c) == '\'' || (c) == '(' || (c) == ')' ||          \
     (c) == '*' || (c) == '+' || (c) == ';' || (c) == '=')

#define COOKIE(c) (VCHAR(c) && (c) != '"' && (c) != ',' && (c) != ';' && (c) != '\\')

#define CLASSES(c)                                                                                 \
    (uint8_t)((TOKEN(c) ? DZ_CHAR_TOKEN : 0) | (PATH(c) ? DZ_CHAR_PATH : 0) |                      \
              (QUERY(c) ? DZ_CHAR_QUERY : 0) | (HOST(c) ? DZ_CHAR_HOST : 0) |                      \
              (HEX(c) || (c) == ':' || (c) == '.' ? DZ_CHAR_IP : 0) |                              \
              (COOKIE(c) ? DZ_CHAR_COOKIE : 0))
#define FOUR(c)    CLASSES(c), CLASSES((c) + 1), CLASSES((c) + 2), CLASSES((c) + 3)
#define SIXTEEN(c) FOUR(c), FOUR((c) + 4), FOUR((c) + 8), FOUR((c) + 12)
#define ROWS(c)    SIXTEEN(c), SIXTEEN((c) + 16), SIXTEEN((c) + 32), SIXTEEN((c) + 48)

const uint8_t dz_chars[256] = {ROWS(0), ROWS(64), ROWS(128), ROWS(192)};
