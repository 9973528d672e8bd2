#include "http/date.h"

#include "http/chars.h"

#include <stddef.h>

enum { DAY = 86400 };

static const char days[] = "SunMonTueWedThuFriSat";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

typedef struct civil {
    int64_t year;
    int month, day, hour, minute, second; /* month and day from 1 */
} civil;

/* Days since 1970-01-01 in the Gregorian calendar, counted in years that begin with March so that
 * the leap day comes last. year >= 0. */
static int64_t days_of_date(int64_t year, int month, int day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t leap_days = y >= 0 ? y / 4 - y / 100 + y / 400 : -1;
    int64_t month_days = (153 * ((month + 9) % 12) + 2) / 5;
    return y * 365 + leap_days + month_days + day - 1 - 719468;
}

static civil civil_of_seconds(int64_t seconds)
{
    int64_t date = seconds / DAY, rest = seconds % DAY;
    if (rest < 0) {
        rest += DAY;
        date--;
    }
    int64_t year = 1970 + date / 365;
    while (days_of_date(year, 1, 1) > date)
        year--;
    while (days_of_date(year + 1, 1, 1) <= date)
        year++;
    int month = 12;
    while (days_of_date(year, month, 1) > date)
        month--;
    return (civil){year,
                   month,
                   (int)(date - days_of_date(year, month, 1)) + 1,
                   (int)(rest / 3600),
                   (int)(rest / 60 % 60),
                   (int)(rest % 60)};
}

static char *put_two(char *out, int n)
{
    out[0] = (char)('0' + n / 10);
    out[1] = (char)('0' + n % 10);
    return out + 2;
}

static char *put_text(char *out, const char *text, size_t len)
{
    memcpy(out, text, len);
    return out + len;
}

void dz_date_format(char out[DZ_DATE_LEN], int64_t seconds)
{
    static const int64_t first = INT64_C(-62167219200), last = INT64_C(253402300799);
    seconds = seconds < first ? first : seconds > last ? last : seconds;
    civil t = civil_of_seconds(seconds);
    int64_t weekday = ((days_of_date(t.year, t.month, t.day) + 4) % 7 + 7) % 7;
    out = put_text(out, days + 3 * weekday, 3);
    out = put_text(out, ", ", 2);
    out = put_two(out, t.day);
    *out++ = ' ';
    out = put_text(out, months + (ptrdiff_t)3 * (t.month - 1), 3);
    *out++ = ' ';
    out = put_two(out, (int)(t.year / 100));
    out = put_two(out, (int)(t.year % 100));
    *out++ = ' ';
    out = put_two(out, t.hour);
    *out++ = ':';
    out = put_two(out, t.minute);
    *out++ = ':';
    out = put_two(out, t.second);
    put_text(out, " GMT", 4);
}

/* Reads by pattern: 'D' a digit of the day, 'Y' 'h' 'm' 's' likewise, '_' a digit or space of the
 * day, "@@@" the month's name, 'w' a letter of a weekday, anything else itself. */
static bool read_pattern(dz_slice text, const char *pattern, civil *t)
{
    if (text.len != strlen(pattern))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i], p = pattern[i];
        if (p == '@') {
            t->month = 0;
            for (int m = 0; m < 12 && t->month == 0; m++)
                if (memcmp(text.ptr + i, months + (ptrdiff_t)3 * m, 3) == 0)
                    t->month = m + 1;
            if (t->month == 0)
                return false;
            i += 2;
            continue;
        }
        if (p == 'w') {
            if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')))
                return false;
            continue;
        }
        int digit = c - '0';
        bool is_digit = dz_char_digit(c);
        if (p == 'D' && is_digit)
            t->day = t->day * 10 + digit;
        else if (p == '_' && (is_digit || c == ' '))
            t->day = is_digit ? digit : 0;
        else if (p == 'Y' && is_digit)
            t->year = t->year * 10 + digit;
        else if (p == 'h' && is_digit)
            t->hour = t->hour * 10 + digit;
        else if (p == 'm' && is_digit)
            t->minute = t->minute * 10 + digit;
        else if (p == 's' && is_digit)
            t->second = t->second * 10 + digit;
        else if (p != c || strchr("D_Yhms", p))
            return false;
    }
    return true;
}

static bool civil_valid(const civil *t)
{
    static const int month_days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = t->year % 4 == 0 && (t->year % 100 != 0 || t->year % 400 == 0);
    if (t->day < 1 || t->day > month_days[t->month - 1] || (t->month == 2 && t->day == 29 && !leap))
        return false;
    return t->hour < 24 && t->minute < 60 && t->second <= 60; /* 60: a leap second */
}

static bool weekday_known(dz_slice text)
{
    for (int i = 0; i < 7; i++)
        if (text.len > 3 && memcmp(text.ptr, days + (ptrdiff_t)3 * i, 3) == 0)
            return true;
    return false;
}

/* "Sunday, 06-Nov-94 08:49:37 GMT": the only form whose beginning has no fixed length. */
static bool read_rfc850(dz_slice text, int64_t now, civil *t)
{
    const char *comma = memchr(text.ptr, ',', text.len);
    if (!comma)
        return false;
    size_t name = (size_t)(comma - text.ptr);
    for (size_t i = 0; i < name; i++)
        if (dz_char_digit(text.ptr[i]))
            return false;
    if (name < 6 || name > 9 ||
        !read_pattern(dz_slice_make(comma, text.len - name), ", DD-@@@-YY hh:mm:ss GMT", t))
        return false;
    int64_t this_year = civil_of_seconds(now).year;
    t->year += this_year - this_year % 100;
    if (t->year > this_year + 50)
        t->year -= 100;
    else if (t->year <= this_year - 50)
        t->year += 100;
    return true;
}

bool dz_date_parse(dz_slice text, int64_t now, int64_t *seconds)
{
    if (!weekday_known(text))
        return false;
    civil imf = {0}, asctime = {0}, rfc850 = {0}, t;
    if (read_pattern(text, "www, DD @@@ YYYY hh:mm:ss GMT", &imf))
        t = imf;
    else if (read_pattern(text, "www @@@ _D hh:mm:ss YYYY", &asctime))
        t = asctime;
    else if (read_rfc850(text, now, &rfc850))
        t = rfc850;
    else
        return false;
    if (!civil_valid(&t))
        return false;
    *seconds = days_of_date(t.year, t.month, t.day) * DAY + t.hour * INT64_C(3600) +
               t.minute * INT64_C(60) + t.second;
    return true;
}

dz_slice dz_date_line(dz_date_cache *cache, int64_t now)
{
    if (!cache->filled || cache->second != now) {
        char *out = put_text(cache->line, "Date: ", 6);
        dz_date_format(out, now);
        put_text(out + DZ_DATE_LEN, "\r\n", 2);
        cache->second = now;
        cache->filled = true;
    }
    return dz_slice_make(cache->line, sizeof cache->line);
}
