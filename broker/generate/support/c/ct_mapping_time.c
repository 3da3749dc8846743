#include "ct_mapping.h"

#define DAY_S 86400
/** Days from 0000-03-01 to 1970-01-01. */
#define DAYS_BEFORE_1970 719468

/** `count` digits of the text; -1 if there are other characters. */
static int64_t digits_at(tw_bytes text, size_t at, size_t count) {
    int64_t value = 0;
    for (; count > 0; count--, at++) {
        if (at >= text.len || text.data[at] < '0' || text.data[at] > '9') {
            return -1;
        }
        value = value * 10 + (text.data[at] - '0');
    }
    return value;
}

/** Nanoseconds after a decimal point at `at`, which is advanced to their end; -1 if there are no
 * digits, or more than nine. */
static int32_t fraction_at(tw_bytes text, size_t *at) {
    int32_t nanos = 0;
    size_t place;
    if (*at >= text.len || text.data[*at] != '.') {
        return 0;
    }
    ++*at;
    for (place = 0; place < 9; place++) {
        bool is_digit = *at < text.len && text.data[*at] >= '0' && text.data[*at] <= '9';
        if (!is_digit && place == 0) {
            return -1;
        }
        nanos = nanos * 10 + (is_digit ? text.data[*at] - '0' : 0);
        *at += is_digit ? 1 : 0;
    }
    return nanos;
}

bool ctm_parse_timestamp(tw_bytes text, ct_timestamp *time) {
    static const int8_t days_of[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year = digits_at(text, 0, 4), month = digits_at(text, 5, 2), day = digits_at(text, 8, 2);
    int64_t hour = digits_at(text, 11, 2), minute = digits_at(text, 14, 2), second = digits_at(text, 17, 2);
    int64_t zone_hours, zone_minutes, offset_s = 0, days, last;
    size_t at = 19;
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (text.len < 20 || text.data[4] != '-' || text.data[7] != '-' || (text.data[10] | 0x20) != 't' ||
        text.data[13] != ':' || text.data[16] != ':') {
        return false;
    }
    if (year < 0 || month < 1 || month > 12 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
        second > 59) {
        return false;
    }
    last = month == 2 && is_leap ? 29 : days_of[month - 1];
    time->nanos = fraction_at(text, &at);
    if (day < 1 || day > last || time->nanos < 0 || at >= text.len) {
        return false;
    }
    if (text.data[at] == '+' || text.data[at] == '-') {
        zone_hours = digits_at(text, at + 1, 2);
        zone_minutes = digits_at(text, at + 4, 2);
        if (text.len != at + 6 || text.data[at + 3] != ':' || zone_hours < 0 || zone_hours > 23 || zone_minutes < 0 ||
            zone_minutes > 59) {
            return false;
        }
        offset_s = (zone_hours * 3600 + zone_minutes * 60) * (text.data[at] == '-' ? -1 : 1);
    } else if ((text.data[at] | 0x20) != 'z' || text.len != at + 1) {
        return false;
    }
    year -= month <= 2 ? 1 : 0;
    days = year * 365 + (year + 400) / 4 - 100 - (year + 400) / 100 + 4 + (year + 400) / 400 - 1;
    days += (153 * ((month + 9) % 12) + 2) / 5 + day - 1 - DAYS_BEFORE_1970;
    time->seconds = days * DAY_S + hour * 3600 + minute * 60 + second - offset_s;
    return true;
}

bool ctm_parse_duration(tw_bytes text, ct_duration *duration) {
    size_t at = text.len > 0 && text.data[0] == '-' ? 1 : 0, start = at;
    int sign = at == 1 ? -1 : 1;
    while (at < text.len && text.data[at] >= '0' && text.data[at] <= '9' && at - start < 12) {
        at++;
    }
    duration->seconds = digits_at(text, start, at - start) * sign;
    duration->nanos = at == start ? -1 : fraction_at(text, &at);
    if (duration->nanos < 0 || at + 1 != text.len || text.data[at] != 's') {
        return false;
    }
    duration->nanos *= sign;
    return true;
}
