/* Owns: dates of HTTP. May include: nothing. */
#include "base/date.h"

#include <string.h>

static inline void put_two(char *out, unsigned n) {
    out[0] = (char)('0' + n / 10);
    out[1] = (char)('0' + n % 10);
}

static const char weekdays[] = "SunMonTueWedThuFriSat";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

/* The range of a four-digit year: 0000-01-01T00:00:00 to 9999-12-31T23:59:59. */
#define DATE_MIN INT64_C(-62167219200)
#define DATE_MAX INT64_C(253402300799)

void uvhttp__date_write(char out[UVHTTP__DATE_SIZE], int64_t unix_seconds) {
    if (unix_seconds < DATE_MIN) unix_seconds = DATE_MIN;
    if (unix_seconds > DATE_MAX) unix_seconds = DATE_MAX;
    uint64_t since_min = (uint64_t)(unix_seconds - DATE_MIN);
    unsigned second = (unsigned)(since_min % 86400);
    unsigned days = (unsigned)(since_min / 86400); /* since 0000-01-01, a Saturday */
    unsigned weekday = (days + 6) % 7;             /* 0 is Sunday */
    /* Years are counted from 1 March, so that a leap day is the last day of its year. Day 0 is 0000-03-01, which is day
     * 60 of `days`; one era of 400 years is added to stay above zero. */
    unsigned day = days + 146097 - 60;
    unsigned era = day / 146097, day_of_era = day % 146097;
    unsigned year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned march_month = (5 * day_of_year + 2) / 153; /* 0 is March; months from March on take 153 days per five */
    unsigned day_of_month = day_of_year - (153 * march_month + 2) / 5 + 1;
    unsigned month = march_month < 10 ? march_month + 2 : march_month - 10; /* 0 is January */
    unsigned year = year_of_era + era * 400 + (month < 2) - 400;

    memcpy(out, &weekdays[(size_t)weekday * 3], 3);
    memcpy(out + 3, ", ", 2);
    put_two(out + 5, day_of_month);
    out[7] = ' ';
    memcpy(out + 8, &months[(size_t)month * 3], 3);
    out[11] = ' ';
    put_two(out + 12, year / 100);
    put_two(out + 14, year % 100);
    out[16] = ' ';
    put_two(out + 17, second / 3600);
    out[19] = ':';
    put_two(out + 20, second / 60 % 60);
    out[22] = ':';
    put_two(out + 23, second % 60);
    memcpy(out + 25, " GMT", 4);
}

/* --- reading --- */

typedef struct date {
    unsigned year, month, day, hour, minute, second; /* month and day from 1 */
} date_t;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool take_number(uvhttp_str_t *rest, size_t digits, unsigned *number) {
    if (rest->size < digits) return false;
    *number = 0;
    for (size_t i = 0; i < digits; i++) {
        if (!is_digit(rest->data[i])) return false;
        *number = *number * 10 + (unsigned)(rest->data[i] - '0');
    }
    *rest = (uvhttp_str_t){rest->data + digits, rest->size - digits};
    return true;
}

static bool take_text(uvhttp_str_t *rest, const char *text) {
    size_t size = strlen(text);
    if (rest->size < size || memcmp(rest->data, text, size) != 0) return false;
    *rest = (uvhttp_str_t){rest->data + size, rest->size - size};
    return true;
}

/* Names are case-sensitive (RFC 9110 section 5.6.7). */
static bool take_name(uvhttp_str_t *rest, const char *names, size_t count, unsigned *index) {
    for (*index = 0; rest->size >= 3 && *index < count; ++*index) {
        if (memcmp(rest->data, names + (size_t)*index * 3, 3) != 0) continue;
        *rest = (uvhttp_str_t){rest->data + 3, rest->size - 3};
        return true;
    }
    return false;
}

static bool take_time(uvhttp_str_t *rest, date_t *date) {
    return take_number(rest, 2, &date->hour) && take_text(rest, ":") && take_number(rest, 2, &date->minute) &&
           take_text(rest, ":") && take_number(rest, 2, &date->second);
}

static bool take_month(uvhttp_str_t *rest, date_t *date) {
    if (!take_name(rest, months, 12, &date->month)) return false;
    date->month++;
    return true;
}

/* "06 Nov 1994 08:49:37 GMT" */
static bool take_imf(uvhttp_str_t rest, date_t *date) {
    return take_number(&rest, 2, &date->day) && take_text(&rest, " ") && take_month(&rest, date) &&
           take_text(&rest, " ") && take_number(&rest, 4, &date->year) && take_text(&rest, " ") &&
           take_time(&rest, date) && take_text(&rest, " GMT") && rest.size == 0;
}

/* "06-Nov-94 08:49:37 GMT". Two digits of a year mean the one that is at most 50 years ahead of now_year. */
static bool take_rfc850(uvhttp_str_t rest, unsigned now_year, date_t *date) {
    bool whole = take_number(&rest, 2, &date->day) && take_text(&rest, "-") && take_month(&rest, date) &&
                 take_text(&rest, "-") && take_number(&rest, 2, &date->year) && take_text(&rest, " ") &&
                 take_time(&rest, date) && take_text(&rest, " GMT") && rest.size == 0;
    date->year += now_year / 100 * 100;
    if (date->year > now_year + 50) date->year -= 100;
    return whole;
}

/* "Nov  6 08:49:37 1994" */
static bool take_asctime(uvhttp_str_t rest, date_t *date) {
    if (!take_month(&rest, date) || !take_text(&rest, " ")) return false;
    if (take_text(&rest, " ") ? !take_number(&rest, 1, &date->day) : !take_number(&rest, 2, &date->day)) return false;
    return take_text(&rest, " ") && take_time(&rest, date) && take_text(&rest, " ") &&
           take_number(&rest, 4, &date->year) && rest.size == 0;
}

static unsigned days_in(unsigned month, unsigned year) {
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (unsigned)(month == 2 && leap);
}

static bool to_seconds(const date_t *date, int64_t *unix_seconds) {
    if (date->day < 1 || date->day > days_in(date->month, date->year)) return false;
    if (date->hour > 23 || date->minute > 59 || date->second > 60) return false; /* 60: a leap second */
    unsigned year = date->year + 400 - (date->month < 3); /* years begin in March; one era more keeps it positive */
    unsigned era = year / 400, year_of_era = year % 400;
    unsigned march_month = (date->month + 9) % 12;
    unsigned day_of_year = (153 * march_month + 2) / 5 + date->day - 1;
    unsigned day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    int64_t days = (int64_t)era * 146097 + day_of_era - 146097 - 719468;
    *unix_seconds = days * 86400 + date->hour * 3600 + date->minute * 60 + date->second;
    return true;
}

bool uvhttp__date_parse(uvhttp_str_t text, int64_t now_unix_seconds, int64_t *unix_seconds) {
    date_t date = {0};
    unsigned weekday;
    uvhttp_str_t rest = text;
    if (!take_name(&rest, weekdays, 7, &weekday)) return false;
    bool read;
    if (take_text(&rest, ", ")) {
        read = take_imf(rest, &date);
    } else if (take_text(&rest, " ")) {
        read = take_asctime(rest, &date);
    } else {
        const char *comma = memchr(rest.data, ',', rest.size < 7 ? rest.size : 7); /* "nesday" is the longest */
        if (!comma) return false;
        rest = (uvhttp_str_t){comma, rest.size - (size_t)(comma - rest.data)};
        unsigned now_year = 1970 + (unsigned)(now_unix_seconds / 31556952);
        read = take_text(&rest, ", ") && take_rfc850(rest, now_year, &date);
    }
    return read && to_seconds(&date, unix_seconds);
}
