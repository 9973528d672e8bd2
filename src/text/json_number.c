#include "text/json_write.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

size_t dz_json_put_uint(char *to, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    memcpy(to, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

size_t dz_json_put_int(char *to, int64_t value)
{
    if (value >= 0)
        return dz_json_put_uint(to, (uint64_t)value);
    *to = '-';
    return 1 + dz_json_put_uint(to + 1, 0 - (uint64_t)value);
}

/* A decimal number: 0.d1d2d3... x 10^point. */
typedef struct decimal {
    char digits[20];
    int count, point;
} decimal;

static void strip_zeros(decimal *number)
{
    while (number->count > 1 && number->digits[number->count - 1] == '0')
        number->count--;
}

/* Numbers people write, such as 12.34: when n is below 2^51 and n / 10^k is the value, n's digits
 * are the shortest, for both n and 10^k are exact and a division is correctly rounded. */
static bool find_short(decimal *number, double value)
{
    static const double powers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
    for (int k = 0; k < (int)(sizeof powers / sizeof powers[0]); k++) {
        double scaled = value * powers[k];
        if (scaled >= 0x1p51)
            return false;
        int64_t n = (int64_t)(scaled + 0.5);
        if ((double)n / powers[k] != value)
            continue;
        number->count = (int)dz_json_put_uint(number->digits, (uint64_t)n);
        number->point = number->count - k;
        strip_zeros(number);
        return true;
    }
    return false;
}

/* Rounds the value to `precision` digits by printf; true when they read back as the value. Takes
 * only the digits, for the character between them depends on the locale. */
static bool find_digits(decimal *number, double value, int precision)
{
    char text[40];
    int len = snprintf(text, sizeof text, "%.*e", precision - 1, value);
    number->count = 0;
    int i = 0;
    for (; i < len && text[i] != 'e'; i++)
        if (text[i] >= '0' && text[i] <= '9')
            number->digits[number->count++] = text[i];
    number->point = (int)strtol(text + i + 1, NULL, 10) + 1;
    strip_zeros(number);
    return strtod(text, NULL) == value;
}

/* A power of two has a neighbour below that is only half as far away as the one above. Then the 16
 * digits nearest to it may fail to read back while those next above do. */
static bool find_digits_above(decimal *number, double value)
{
    int exponent;
    if (frexp(value, &exponent) != 0.5)
        return false;
    find_digits(number, value, 16);
    if (number->count < 16 || number->digits[15] == '9')
        return false;
    number->digits[15]++;
    char text[40];
    snprintf(text, sizeof text, "%.16se%d", number->digits, number->point - 16);
    return strtod(text, NULL) == value;
}

/* `value` is finite and positive. */
static void find_shortest(decimal *number, double value)
{
    if (find_short(number, value))
        return;
    /* 15 digits survive the way to a double and back (DBL_DIG), so a number that 15 or fewer
     * describe is found at 15; below the smallest normal number that does not hold. */
    for (int precision = value < DBL_MIN ? 1 : DBL_DIG; precision <= 16; precision++)
        if (find_digits(number, value, precision))
            return;
    if (!find_digits_above(number, value))
        find_digits(number, value, 17);
}

static size_t put_repeated(char *to, char c, int count)
{
    if (count <= 0)
        return 0;
    memset(to, c, (size_t)count);
    return (size_t)count;
}

/* Exponents as ECMA-262's Number::toString has them: plain from 1e-7 to 1e21. */
static size_t put_decimal(char *to, const decimal *number)
{
    const char *digits = number->digits;
    size_t count = (size_t)number->count, len = 0;
    int point = number->point;
    if (point > 21 || point < -5) {
        to[len++] = digits[0];
        if (count > 1) {
            to[len++] = '.';
            memcpy(to + len, digits + 1, count - 1);
            len += count - 1;
        }
        to[len++] = 'e';
        if (point > 0)
            to[len++] = '+';
        return len + dz_json_put_int(to + len, point - 1);
    }
    if (point <= 0) {
        to[len++] = '0';
        to[len++] = '.';
        len += put_repeated(to + len, '0', -point);
        memcpy(to + len, digits, count);
        return len + count;
    }
    size_t whole = (size_t)point < count ? (size_t)point : count;
    memcpy(to, digits, whole);
    len = whole + put_repeated(to + whole, '0', point - (int)count);
    if (whole == count)
        return len;
    to[len++] = '.';
    memcpy(to + len, digits + whole, count - whole);
    return len + count - whole;
}

size_t dz_json_put_double(char *to, double value)
{
    if (!isfinite(value)) {
        static const char null[4] = {'n', 'u', 'l', 'l'};
        memcpy(to, null, sizeof null);
        return sizeof null;
    }
    size_t sign = 0;
    if (signbit(value))
        to[sign++] = '-';
    if (value == 0) {
        to[sign] = '0';
        return sign + 1;
    }
    decimal number = {.count = 0};
    find_shortest(&number, fabs(value));
    return sign + put_decimal(to + sign, &number);
}
