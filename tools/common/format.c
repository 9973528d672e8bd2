#include "common/format.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static dz_text print(const char *format, ...) __attribute__((format(printf, 1, 2)));

static dz_text print(const char *format, ...)
{
    dz_text out;
    va_list args;
    va_start(args, format);
    vsnprintf(out.text, sizeof out.text, format, args);
    va_end(args);
    return out;
}

dz_text dz_format_count(uint64_t n)
{
    char digits[24];
    size_t len = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    dz_text out;
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out.text[at++] = ',';
        out.text[at++] = digits[i];
    }
    out.text[at] = '\0';
    return out;
}

/* As few decimals as three significant digits need. */
static int decimals(double value)
{
    return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

dz_text dz_format_short(double n)
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    size_t unit = 0;
    while (n >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        n /= 1000;
        unit++;
    }
    if (unit == 0)
        return print("%.*f", n == floor(n) ? 0 : decimals(n), n);
    return print("%.*f%s", n < 9.95 ? 1 : 0, n, units[unit]);
}

dz_text dz_format_number(double n)
{
    if (!(n >= 0 && n < 1e15))
        return print("%.6g", n);
    double hundredths = round(n * 100);
    uint64_t whole = (uint64_t)(hundredths / 100);
    unsigned rest = (unsigned)(hundredths - (double)whole * 100);
    dz_text text = dz_format_count(whole);
    if (rest == 0)
        return text;
    return rest % 10 == 0 ? print("%s.%u", text.text, rest / 10)
                          : print("%s.%02u", text.text, rest);
}

dz_text dz_format_bytes(double n)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    while (n >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        n /= 1000;
        unit++;
    }
    return print("%.*f %s", unit == 0 ? 0 : decimals(n), n, units[unit]);
}

dz_text dz_format_duration(uint64_t ns)
{
    double value = (double)ns;
    if (ns < 1000)
        return print("%u ns", (unsigned)ns);
    if (value < 999.5e3)
        return print("%.*f us", decimals(value / 1e3), value / 1e3);
    if (value < 999.5e6)
        return print("%.*f ms", decimals(value / 1e6), value / 1e6);
    if (value < 99.5e9 && ns % 1000000000u == 0)
        return print("%u s", (unsigned)(ns / 1000000000u));
    if (value < 99.5e9)
        return print("%.*f s", decimals(value / 1e9), value / 1e9);
    uint64_t seconds = (ns + 500000000u) / 1000000000u;
    if (seconds < 3600)
        return print("%um%02us", (unsigned)(seconds / 60), (unsigned)(seconds % 60));
    return print("%lluh%02um", (unsigned long long)(seconds / 3600), (unsigned)(seconds / 60 % 60));
}

dz_text dz_format_ms(uint64_t ns)
{
    double ms = (double)ns / 1e6;
    return print("%.*f", ms < 0.9995 ? 3 : ms < 99.995 ? 2 : 1, ms);
}

dz_text dz_format_time(uint64_t unix_ns)
{
    time_t seconds = (time_t)(unix_ns / 1000000000u);
    struct tm parts;
    char text[24];
    if (!gmtime_r(&seconds, &parts))
        return print("?");
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    return print("%s.%03uZ", text, (unsigned)(unix_ns / 1000000u % 1000u));
}
