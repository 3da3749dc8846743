#include "ct_mapping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_S 86400
/** Days from 0000-03-01 to 1970-01-01. */
#define DAYS_BEFORE_1970 719468
#define NANOS_PER_SECOND 1000000000
/** Integers below this are exact. */
#define EXACT_BELOW 9007199254740992.0

static void put_text(ct_writer *w, const char *text) {
    ct_put(w, text, strlen(text));
}

/** Writes a first byte, and a big-endian number of `size` bytes. */
static void put_headed(ct_writer *w, uint8_t head, uint64_t value, unsigned size) {
    ct_put_byte(w, head);
    while (size-- > 0) {
        ct_put_byte(w, (uint8_t)(value >> (8 * size)));
    }
}

static ctm_opened begin(ct_writer *w, uint8_t byte) {
    ctm_opened opened = {w->len, 0};
    ct_put_byte(w, byte);
    return opened;
}

/** Writes what precedes an item or a key. */
static void count_one(ct_writer *w, ctm_opened *opened) {
    if (w->is_json && opened->count > 0) {
        ct_put_byte(w, ',');
    }
    opened->count++;
}

/** Writes the header of a MessagePack map or list: its short form, or one with a length of two
 * or four bytes. */
static void finish(ct_writer *w, const ctm_opened *opened, uint8_t short_form, uint8_t long_form) {
    uint8_t length[4];
    size_t count = opened->count;
    if (w->is_full) {
        return;
    }
    length[0] = (uint8_t)(count >> 24);
    length[1] = (uint8_t)(count >> 16);
    length[2] = (uint8_t)(count >> 8);
    length[3] = (uint8_t)count;
    if (count < 16) {
        w->data[opened->start] = (uint8_t)(short_form | count);
    } else if (count <= UINT16_MAX) {
        w->data[opened->start] = long_form;
        ct_insert(w, opened->start + 1, length + 2, 2);
    } else {
        w->data[opened->start] = (uint8_t)(long_form + 1);
        ct_insert(w, opened->start + 1, length, 4);
    }
}

ctm_opened ctm_open_map(ct_writer *w) {
    return begin(w, '{');
}

void ctm_put_key(ct_writer *w, ctm_opened *map, tw_bytes name) {
    count_one(w, map);
    ctm_put_string(w, name);
    if (w->is_json) {
        ct_put_byte(w, ':');
    }
}

void ctm_close_map(ct_writer *w, const ctm_opened *map) {
    if (w->is_json) {
        ct_put_byte(w, '}');
    } else {
        finish(w, map, 0x80, 0xDE);
    }
}

ctm_opened ctm_open_list(ct_writer *w) {
    return begin(w, '[');
}

void ctm_put_item(ct_writer *w, ctm_opened *list) {
    count_one(w, list);
}

void ctm_close_list(ct_writer *w, const ctm_opened *list) {
    if (w->is_json) {
        ct_put_byte(w, ']');
    } else {
        finish(w, list, 0x90, 0xDC);
    }
}

/** Formats decimal digits with a sign. */
static tw_bytes decimal(char *out, uint64_t magnitude, bool is_negative) {
    char *end = out + 21, *at = end;
    do {
        *--at = (char)('0' + (int)(magnitude % 10));
        magnitude /= 10;
    } while (magnitude > 0);
    if (is_negative) {
        *--at = '-';
    }
    return tw_view(at, (size_t)(end - at));
}

static uint64_t magnitude_of(int64_t value) {
    return value < 0 ? ~(uint64_t)value + 1 : (uint64_t)value;
}

void ctm_put_int_key(ct_writer *w, ctm_opened *map, int64_t key) {
    char digits[21];
    ctm_put_key(w, map, decimal(digits, magnitude_of(key), key < 0));
}

void ctm_put_uint_key(ct_writer *w, ctm_opened *map, uint64_t key) {
    char digits[21];
    ctm_put_key(w, map, decimal(digits, key, false));
}

void ctm_put_null(ct_writer *w) {
    if (w->is_json) {
        put_text(w, "null");
    } else {
        ct_put_byte(w, 0xC0);
    }
}

void ctm_put_bool(ct_writer *w, bool value) {
    if (w->is_json) {
        put_text(w, value ? "true" : "false");
    } else {
        ct_put_byte(w, value ? 0xC3 : 0xC2);
    }
}

void ctm_put_int(ct_writer *w, int64_t value) {
    char digits[21];
    tw_bytes text;
    if (w->is_json) {
        text = decimal(digits, magnitude_of(value), value < 0);
        ct_put(w, text.data, text.len);
    } else if (value >= 0) {
        ctm_put_uint(w, (uint64_t)value);
    } else if (value >= -32) {
        ct_put_byte(w, (uint8_t)value);
    } else if (value >= INT8_MIN) {
        put_headed(w, 0xD0, (uint64_t)value, 1);
    } else if (value >= INT16_MIN) {
        put_headed(w, 0xD1, (uint64_t)value, 2);
    } else if (value >= INT32_MIN) {
        put_headed(w, 0xD2, (uint64_t)value, 4);
    } else {
        put_headed(w, 0xD3, (uint64_t)value, 8);
    }
}

void ctm_put_uint(ct_writer *w, uint64_t value) {
    char digits[21];
    tw_bytes text;
    if (w->is_json) {
        text = decimal(digits, value, false);
        ct_put(w, text.data, text.len);
    } else if (value < 0x80) {
        ct_put_byte(w, (uint8_t)value);
    } else if (value <= UINT8_MAX) {
        put_headed(w, 0xCC, value, 1);
    } else if (value <= UINT16_MAX) {
        put_headed(w, 0xCD, value, 2);
    } else if (value <= UINT32_MAX) {
        put_headed(w, 0xCE, value, 4);
    } else {
        put_headed(w, 0xCF, value, 8);
    }
}

void ctm_put_wide_int(ct_writer *w, int64_t value) {
    char digits[21];
    if (w->is_json) {
        ctm_put_string(w, decimal(digits, magnitude_of(value), value < 0));
    } else {
        ctm_put_int(w, value);
    }
}

void ctm_put_wide_uint(ct_writer *w, uint64_t value) {
    char digits[21];
    if (w->is_json) {
        ctm_put_string(w, decimal(digits, value, false));
    } else {
        ctm_put_uint(w, value);
    }
}

/** Writes a JSON number; `digits` is a number of digits that is certainly enough. */
static void put_number(ct_writer *w, double value, bool is_float, int least, int digits) {
    char text[40];
    if (value != value) {
        put_text(w, "\"NaN\"");
    } else if (value - value != 0) {
        put_text(w, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    } else {
        int enough = least;
        for (;; enough++) {
            (void)snprintf(text, sizeof text, "%.*g", enough, value);
            if (enough >= digits || (is_float ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)) {
                break;
            }
        }
        put_text(w, text);
    }
}

void ctm_put_float(ct_writer *w, float value) {
    if (w->is_json) {
        put_number(w, (double)value, true, 6, 9);
    } else {
        ctm_put_double(w, (double)value);
    }
}

void ctm_put_double(ct_writer *w, double value) {
    bool is_small = value > -EXACT_BELOW && value < EXACT_BELOW;
    if (w->is_json) {
        put_number(w, value, false, 15, 17);
    } else if (is_small && (double)(int64_t)value == value && ct_double_bits(value) != (uint64_t)1 << 63) {
        /* An integer is shorter. */
        ctm_put_int(w, (int64_t)value);
    } else {
        put_headed(w, 0xCB, ct_double_bits(value), 8);
    }
}

static void put_json_string(ct_writer *w, tw_bytes value) {
    static const char escapes[] = "\b\t\n\f\r";
    static const char letters[] = "btnfr";
    static const char hexadecimal[] = "0123456789abcdef";
    size_t at;
    ct_put_byte(w, '"');
    for (at = 0; at < value.len; at++) {
        uint8_t byte = value.data[at];
        const char *escape = byte == 0 ? NULL : strchr(escapes, byte);
        if (byte == '"' || byte == '\\') {
            ct_put_byte(w, '\\');
            ct_put_byte(w, byte);
        } else if (escape != NULL) {
            ct_put_byte(w, '\\');
            ct_put_byte(w, (uint8_t)letters[escape - escapes]);
        } else if (byte < ' ') {
            put_text(w, "\\u00");
            ct_put_byte(w, (uint8_t)hexadecimal[byte >> 4]);
            ct_put_byte(w, (uint8_t)hexadecimal[byte & 15]);
        } else {
            ct_put_byte(w, byte);
        }
    }
    ct_put_byte(w, '"');
}

void ctm_put_string(ct_writer *w, tw_bytes value) {
    if (w->is_json) {
        put_json_string(w, value);
        return;
    }
    if (value.len < 32) {
        ct_put_byte(w, (uint8_t)(0xA0 | value.len));
    } else if (value.len <= UINT8_MAX) {
        put_headed(w, 0xD9, value.len, 1);
    } else if (value.len <= UINT16_MAX) {
        put_headed(w, 0xDA, value.len, 2);
    } else {
        put_headed(w, 0xDB, value.len, 4);
    }
    ct_put(w, value.data, value.len);
}

static void put_base64(ct_writer *w, tw_bytes value) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t at, place;
    ct_put_byte(w, '"');
    for (at = 0; at < value.len; at += 3) {
        size_t left = value.len - at;
        uint32_t bits = (uint32_t)value.data[at] << 16;
        bits |= left > 1 ? (uint32_t)value.data[at + 1] << 8 : 0;
        bits |= left > 2 ? (uint32_t)value.data[at + 2] : 0;
        for (place = 0; place < 4; place++) {
            ct_put_byte(w, place <= left ? (uint8_t)alphabet[bits >> (18 - 6 * place) & 63] : (uint8_t)'=');
        }
    }
    ct_put_byte(w, '"');
}

void ctm_put_bytes(ct_writer *w, tw_bytes value) {
    if (w->is_json) {
        put_base64(w, value);
        return;
    }
    if (value.len <= UINT8_MAX) {
        put_headed(w, 0xC4, value.len, 1);
    } else if (value.len <= UINT16_MAX) {
        put_headed(w, 0xC5, value.len, 2);
    } else {
        put_headed(w, 0xC6, value.len, 4);
    }
    ct_put(w, value.data, value.len);
}

/** Writes a number with at least `width` digits. */
static char *put_digits(char *at, uint32_t value, unsigned width) {
    unsigned place;
    for (place = width; place-- > 0;) {
        at[place] = (char)('0' + (int)(value % 10));
        value /= 10;
    }
    return at + width;
}

/** Writes three, six or nine digits, the fewest that are enough. */
static char *put_fraction(char *at, uint32_t nanos) {
    if (nanos == 0) {
        return at;
    }
    *at++ = '.';
    if (nanos % 1000000 == 0) {
        return put_digits(at, nanos / 1000000, 3);
    }
    return nanos % 1000 == 0 ? put_digits(at, nanos / 1000, 6) : put_digits(at, nanos, 9);
}

static void put_moment(ct_writer *w, ct_timestamp value) {
    char text[40], *at = text;
    int64_t days = value.seconds / DAY_S, second = value.seconds % DAY_S, era, day, year, day_of_year, month;
    if (second < 0) {
        second += DAY_S;
        days--;
    }
    days += DAYS_BEFORE_1970;
    era = (days >= 0 ? days : days - 146096) / 146097;
    day = days - era * 146097;
    year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day_of_year = day - (365 * year + year / 4 - year / 100);
    month = (5 * day_of_year + 2) / 153;
    day = day_of_year - (153 * month + 2) / 5 + 1;
    month += month < 10 ? 3 : -9;
    year += era * 400 + (month <= 2 ? 1 : 0);
    if (year < 0 || year > 9999) {
        /* It has no representation: the broker refuses the result. */
        ctm_put_null(w);
        return;
    }
    *at++ = '"';
    at = put_digits(at, (uint32_t)year, 4);
    *at++ = '-';
    at = put_digits(at, (uint32_t)month, 2);
    *at++ = '-';
    at = put_digits(at, (uint32_t)day, 2);
    *at++ = 'T';
    at = put_digits(at, (uint32_t)(second / 3600), 2);
    *at++ = ':';
    at = put_digits(at, (uint32_t)(second / 60 % 60), 2);
    *at++ = ':';
    at = put_digits(at, (uint32_t)(second % 60), 2);
    at = put_fraction(at, (uint32_t)value.nanos % NANOS_PER_SECOND);
    *at++ = 'Z';
    *at++ = '"';
    ct_put(w, text, (size_t)(at - text));
}

void ctm_put_timestamp(ct_writer *w, ct_timestamp value) {
    uint64_t seconds = (uint64_t)value.seconds, nanos = (uint32_t)value.nanos;
    if (w->is_json) {
        put_moment(w, value);
    } else if (seconds >> 34 != 0) {
        put_headed(w, 0xC7, 0x0CFF, 2);
        put_headed(w, (uint8_t)(nanos >> 24), nanos & 0xFFFFFF, 3);
        put_headed(w, (uint8_t)(seconds >> 56), seconds, 7);
    } else if (nanos != 0 || seconds >> 32 != 0) {
        put_headed(w, 0xD7, 0xFF, 1);
        put_headed(w, (uint8_t)(nanos >> 22), nanos << 34 | seconds, 7);
    } else {
        put_headed(w, 0xD6, 0xFF, 1);
        put_headed(w, (uint8_t)(seconds >> 24), seconds, 3);
    }
}

void ctm_put_duration(ct_writer *w, ct_duration value) {
    char text[48], digits[21], *at = text;
    bool is_negative = value.seconds < 0 || value.nanos < 0;
    tw_bytes seconds = decimal(digits, magnitude_of(value.seconds), is_negative);
    memcpy(at, seconds.data, seconds.len);
    at = put_fraction(at + seconds.len, (uint32_t)magnitude_of(value.nanos) % NANOS_PER_SECOND);
    *at++ = 's';
    ctm_put_string(w, tw_view(text, (size_t)(at - text)));
}

void ctm_put_raw(ct_writer *w, ct_raw value) {
    if (value.len == 0) {
        ctm_put_null(w);
    } else {
        ct_put(w, value.data, value.len);
    }
}

void ctm_put_enum(ct_writer *w, int32_t number, const ctm_name *names, size_t count) {
    size_t at;
    for (at = 0; at < count; at++) {
        if (names[at].number == number) {
            ctm_put_string(w, tw_str(names[at].name));
            return;
        }
    }
    ctm_put_int(w, number);
}
