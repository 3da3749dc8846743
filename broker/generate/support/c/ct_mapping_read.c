#include "ct_mapping.h"

#include <stdlib.h>
#include <string.h>

/** The longest number in JSON. */
#define NUMBER_MAX_BYTES 100

typedef enum number_kind { NO_NUMBER, SIGNED, UNSIGNED, FRACTION } number_kind;

/** A parsed number. `whole` is a magnitude, or two's complement if it is SIGNED. */
typedef struct number {
    number_kind kind;
    uint64_t whole;
    double fraction;
} number;

static void invalid(ct_reader *r) {
    ct_fail(r, CT_PAYLOAD_INVALID);
}

/** The next byte, in JSON after skipping spaces. 0xC1, which is valid in neither format, at the
 * end. */
static uint8_t peek(ct_reader *r) {
    while (r->at < r->end) {
        uint8_t byte = r->data[r->at];
        if (!r->is_json || (byte != ' ' && byte != '\t' && byte != '\n' && byte != '\r')) {
            return byte;
        }
        r->at++;
    }
    return 0xC1;
}

static bool take(ct_reader *r, uint8_t byte) {
    if (peek(r) != byte) {
        return false;
    }
    r->at++;
    return true;
}

static bool word(ct_reader *r, const char *text) {
    size_t len = strlen(text);
    (void)peek(r);
    if (len > r->end - r->at || memcmp(r->data + r->at, text, len) != 0) {
        return false;
    }
    r->at += len;
    return true;
}

static tw_bytes view(ct_reader *r, uint64_t count) {
    if (count > r->end - r->at) {
        invalid(r);
        return tw_view(NULL, 0);
    }
    r->at += (size_t)count;
    return tw_view(r->data + r->at - (size_t)count, (size_t)count);
}

/** The big-endian number of `size` bytes after the first byte. */
static uint64_t big(ct_reader *r, unsigned size) {
    tw_bytes bytes;
    uint64_t value = 0;
    size_t at;
    r->at++;
    bytes = view(r, size);
    for (at = 0; at < bytes.len; at++) {
        value = value << 8 | bytes.data[at];
    }
    return value;
}

static ctm_sequence begin(ct_reader *r, uint8_t bracket, uint8_t short_form, uint8_t long_form, size_t each) {
    ctm_sequence sequence = {0, true};
    uint8_t first = peek(r);
    uint64_t count = 0;
    if (++r->depth > CT_DEPTH_MAX) {
        invalid(r);
        return sequence;
    }
    if (r->is_json) {
        if (!take(r, bracket)) {
            invalid(r);
        }
        return sequence;
    }
    if ((first & 0xF0) == short_form) {
        r->at++;
        count = first & 0x0F;
    } else if (first == long_form) {
        count = big(r, 2);
    } else if (first == long_form + 1) {
        count = big(r, 4);
    } else {
        invalid(r);
    }
    if (count > (r->end - r->at) / each) {
        invalid(r);
        count = 0;
    }
    sequence.left = (size_t)count;
    return sequence;
}

/** Whether another key or item follows. */
static bool goes_on(ct_reader *r, ctm_sequence *sequence, uint8_t end) {
    bool is_over;
    if (r->error != 0) {
        return false;
    }
    is_over = r->is_json ? take(r, end) : sequence->left == 0;
    if (is_over) {
        r->depth--;
        return false;
    }
    if (r->is_json && !sequence->is_first && !take(r, ',')) {
        invalid(r);
    }
    sequence->is_first = false;
    sequence->left -= r->is_json ? 0 : 1;
    return r->error == 0;
}

ctm_sequence ctm_map(ct_reader *r) {
    return begin(r, '{', 0x80, 0xDE, 2);
}

ctm_sequence ctm_list(ct_reader *r) {
    return begin(r, '[', 0x90, 0xDC, 1);
}

bool ctm_item(ct_reader *r, ctm_sequence *list) {
    return goes_on(r, list, ']');
}

/** The raw text of a string, if one is next: in JSON with its escapes. */
static bool raw_text(ct_reader *r, tw_bytes *text, bool *is_escaped) {
    uint8_t first = peek(r);
    size_t start;
    *is_escaped = false;
    if (!r->is_json) {
        if ((first & 0xE0) == 0xA0) {
            r->at++;
            *text = view(r, first & 0x1F);
        } else if (first >= 0xD9 && first <= 0xDB) {
            *text = view(r, big(r, 1u << (first - 0xD9)));
        } else {
            return false;
        }
    } else {
        if (first != '"') {
            return false;
        }
        start = ++r->at;
        while (r->at < r->end && r->data[r->at] >= ' ' && r->data[r->at] != '"') {
            bool is_escape = r->data[r->at] == '\\';
            *is_escaped = *is_escaped || is_escape;
            r->at += is_escape && r->end - r->at > 1 ? 2 : 1;
        }
        *text = tw_view(r->data + start, r->at - start);
        if (r->at >= r->end || r->data[r->at] != '"') {
            invalid(r);
        }
        r->at++;
    }
    if (r->error != 0 || !ct_is_utf8(text->data, text->len)) {
        invalid(r);
        *text = tw_view(NULL, 0);
    }
    return true;
}

static int hexadecimal(const uint8_t *digits, size_t left) {
    int value = 0;
    size_t at;
    for (at = 0; at < 4; at++) {
        uint8_t digit = at < left ? digits[at] : (uint8_t)'x';
        uint8_t letter = (uint8_t)(digit | 0x20);
        if (digit >= '0' && digit <= '9') {
            value = value << 4 | (digit - '0');
        } else if (letter >= 'a' && letter <= 'f') {
            value = value << 4 | (letter - 'a' + 10);
        } else {
            return -1;
        }
    }
    return value;
}

static size_t put_character(uint8_t *out, uint32_t code) {
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (uint8_t)(0xC0 | code >> 6);
        out[1] = (uint8_t)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (uint8_t)(0xE0 | code >> 12);
        out[1] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | code >> 18);
    out[1] = (uint8_t)(0x80 | (code >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (code & 0x3F));
    return 4;
}

/** Decodes escapes into the scratch memory. The result is never longer than the text. */
static tw_bytes unescaped(ct_reader *r, tw_bytes text) {
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    uint8_t *out = (uint8_t *)ct_alloc(r, text.len, 1);
    size_t at = 0, len = 0;
    while (out != NULL && at < text.len) {
        uint8_t byte = text.data[at++];
        const char *letter;
        if (byte != '\\') {
            out[len++] = byte;
            continue;
        }
        byte = at < text.len ? text.data[at++] : 0;
        letter = byte == 0 ? NULL : strchr(letters, byte);
        if (letter != NULL) {
            out[len++] = (uint8_t)meanings[letter - letters];
        } else {
            int code = byte == 'u' ? hexadecimal(text.data + at, text.len - at) : -1;
            at += 4;
            if (code >= 0xD800 && code < 0xDC00 && text.len - at >= 6 && text.data[at] == '\\' && text.data[at + 1] == 'u') {
                int second = hexadecimal(text.data + at + 2, text.len - at - 2);
                code = second >= 0xDC00 && second < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00) : -1;
                at += 6;
            }
            if (code < 0 || (code >= 0xD800 && code < 0xE000)) {
                invalid(r);
                return tw_view(NULL, 0);
            }
            len += put_character(out + len, (uint32_t)code);
        }
    }
    return tw_view(out, len);
}

static bool text(ct_reader *r, tw_bytes *found) {
    bool is_escaped;
    if (!raw_text(r, found, &is_escaped)) {
        return false;
    }
    if (is_escaped) {
        *found = unescaped(r, *found);
    }
    return true;
}

bool ctm_key(ct_reader *r, ctm_sequence *map, tw_bytes *key) {
    if (!goes_on(r, map, '}')) {
        return false;
    }
    if (!text(r, key) || (r->is_json && !take(r, ':'))) {
        invalid(r);
    }
    return r->error == 0;
}

size_t ctm_count(const ct_reader *r, ctm_sequence sequence, bool is_map) {
    ct_reader ahead = *r;
    size_t count = 0;
    if (!r->is_json) {
        return sequence.left;
    }
    while (goes_on(&ahead, &sequence, is_map ? '}' : ']')) {
        if (is_map) {
            ctm_skip(&ahead);
            if (!take(&ahead, ':')) {
                invalid(&ahead);
            }
        }
        ctm_skip(&ahead);
        count++;
    }
    return count;
}

bool ctm_null(ct_reader *r) {
    return r->error == 0 && (r->is_json ? word(r, "null") : take(r, 0xC0));
}

bool ctm_bool(ct_reader *r) {
    if (r->is_json ? word(r, "true") : take(r, 0xC3)) {
        return true;
    }
    if (!(r->is_json ? word(r, "false") : take(r, 0xC2))) {
        invalid(r);
    }
    return false;
}

/** Parses a JSON number. */
static number parsed(tw_bytes text) {
    number found = {NO_NUMBER, 0, 0};
    char copy[NUMBER_MAX_BYTES + 1], *end;
    size_t at = text.len > 0 && text.data[0] == '-' ? 1 : 0, digits = at;
    bool is_negative = at == 1;
    uint64_t magnitude = 0;
    if (ct_same(text, "NaN") || ct_same(text, "Infinity") || ct_same(text, "-Infinity")) {
        found.kind = FRACTION;
        found.fraction = ct_same(text, "NaN") ? strtod("NAN", NULL) : strtod(is_negative ? "-INF" : "INF", NULL);
        return found;
    }
    if (text.len > NUMBER_MAX_BYTES) {
        return found;
    }
    while (digits < text.len && text.data[digits] >= '0' && text.data[digits] <= '9') {
        digits++;
    }
    if (digits == at || (digits - at > 1 && text.data[at] == '0')) {
        return found;
    }
    if (digits == text.len) {
        for (; at < digits; at++) {
            unsigned digit = (unsigned)(text.data[at] - '0');
            if (magnitude > (UINT64_MAX - digit) / 10) {
                break;
            }
            magnitude = magnitude * 10 + digit;
        }
        if (at == digits && (!is_negative || magnitude <= (uint64_t)INT64_MAX + 1)) {
            found.kind = is_negative ? SIGNED : UNSIGNED;
            found.whole = is_negative ? ~magnitude + 1 : magnitude;
            return found;
        }
    }
    for (at = digits; at < text.len; at++) {
        if (strchr("+-.0123456789Ee", text.data[at]) == NULL || text.data[at] == 0) {
            return found;
        }
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    found.fraction = strtod(copy, &end);
    found.kind = *end == '\0' && found.fraction - found.fraction == 0 ? FRACTION : NO_NUMBER;
    return found;
}

static number json_number(ct_reader *r) {
    tw_bytes digits;
    size_t start;
    if (peek(r) == '"') {
        (void)text(r, &digits);
        return parsed(digits);
    }
    start = r->at;
    while (r->at < r->end && r->data[r->at] != 0 && strchr("+-.0123456789Ee", r->data[r->at]) != NULL) {
        r->at++;
    }
    return parsed(tw_view(r->data + start, r->at - start));
}

static number any_number(ct_reader *r) {
    number found = {NO_NUMBER, 0, 0};
    uint8_t first = peek(r);
    if (r->is_json) {
        return json_number(r);
    }
    if (first < 0x80 || first >= 0xE0) {
        r->at++;
        found.kind = first < 0x80 ? UNSIGNED : SIGNED;
        found.whole = first < 0x80 ? first : ~(uint64_t)0xFF | first;
    } else if (first == 0xCA) {
        uint32_t bits = (uint32_t)big(r, 4);
        float value;
        memcpy(&value, &bits, sizeof value);
        found.kind = FRACTION;
        found.fraction = (double)value;
    } else if (first == 0xCB) {
        uint64_t bits = big(r, 8);
        memcpy(&found.fraction, &bits, sizeof found.fraction);
        found.kind = FRACTION;
    } else if (first >= 0xCC && first <= 0xCF) {
        found.kind = UNSIGNED;
        found.whole = big(r, 1u << (first - 0xCC));
    } else if (first >= 0xD0 && first <= 0xD3) {
        unsigned bits = 8u << (first - 0xD0);
        uint64_t sign = (uint64_t)1 << (bits - 1);
        found.kind = SIGNED;
        found.whole = big(r, bits / 8);
        found.whole = (found.whole ^ sign) - sign;
        found.kind = found.whole >> 63 != 0 ? SIGNED : UNSIGNED;
    }
    return found;
}

/** A number without a fraction is an integer, in any notation. */
static number whole_number(ct_reader *r) {
    number found = any_number(r);
    if (found.kind == FRACTION) {
        found.kind = NO_NUMBER;
        if (found.fraction >= 0 && found.fraction < 18446744073709551616.0 &&
            (double)(uint64_t)found.fraction == found.fraction) {
            found.kind = UNSIGNED;
            found.whole = (uint64_t)found.fraction;
        } else if (found.fraction < 0 && found.fraction >= -9223372036854775808.0 &&
                   (double)(int64_t)found.fraction == found.fraction) {
            found.kind = SIGNED;
            found.whole = (uint64_t)(int64_t)found.fraction;
        }
    }
    if (found.kind == NO_NUMBER) {
        invalid(r);
    }
    return found;
}

static int64_t signed_number(ct_reader *r, number found, int64_t least, int64_t most) {
    int64_t value = (int64_t)found.whole;
    if ((found.kind == UNSIGNED && found.whole > (uint64_t)INT64_MAX) || value < least || value > most) {
        invalid(r);
        return 0;
    }
    return value;
}

static uint64_t unsigned_number(ct_reader *r, number found, uint64_t most) {
    if ((found.kind == SIGNED && found.whole != 0) || found.whole > most) {
        invalid(r);
        return 0;
    }
    return found.whole;
}

int32_t ctm_int32(ct_reader *r) {
    return (int32_t)signed_number(r, whole_number(r), INT32_MIN, INT32_MAX);
}

int64_t ctm_int64(ct_reader *r) {
    return signed_number(r, whole_number(r), INT64_MIN, INT64_MAX);
}

uint32_t ctm_uint32(ct_reader *r) {
    return (uint32_t)unsigned_number(r, whole_number(r), UINT32_MAX);
}

uint64_t ctm_uint64(ct_reader *r) {
    return unsigned_number(r, whole_number(r), UINT64_MAX);
}

double ctm_double(ct_reader *r) {
    number found = any_number(r);
    switch (found.kind) {
    case FRACTION: return found.fraction;
    case SIGNED: return (double)(int64_t)found.whole;
    case UNSIGNED: return (double)found.whole;
    case NO_NUMBER: break;
    }
    invalid(r);
    return 0;
}

float ctm_float(ct_reader *r) {
    return (float)ctm_double(r);
}

tw_bytes ctm_string(ct_reader *r) {
    tw_bytes found = tw_view(NULL, 0);
    if (!text(r, &found)) {
        invalid(r);
    }
    return found;
}

static tw_bytes base64(ct_reader *r, tw_bytes digits) {
    uint8_t *out;
    size_t at, len = 0;
    uint32_t bits = 0;
    unsigned count = 0;
    while (digits.len > 0 && digits.data[digits.len - 1] == '=') {
        digits.len--;
    }
    out = (uint8_t *)ct_alloc(r, digits.len / 4 * 3 + 3, 1);
    for (at = 0; out != NULL && at < digits.len; at++) {
        uint8_t digit = digits.data[at];
        uint32_t value = digit >= 'A' && digit <= 'Z'   ? (uint32_t)(digit - 'A')
                         : digit >= 'a' && digit <= 'z' ? (uint32_t)(digit - 'a' + 26)
                         : digit >= '0' && digit <= '9' ? (uint32_t)(digit - '0' + 52)
                         : digit == '+' || digit == '-' ? 62
                         : digit == '/' || digit == '_' ? 63
                                                        : 64;
        if (value == 64) {
            invalid(r);
            return tw_view(NULL, 0);
        }
        bits = bits << 6 | value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            out[len++] = (uint8_t)(bits >> count);
        }
    }
    return tw_view(out, len);
}

tw_bytes ctm_bytes(ct_reader *r) {
    uint8_t first = peek(r);
    if (r->is_json) {
        return base64(r, ctm_string(r));
    }
    if (first < 0xC4 || first > 0xC6) {
        invalid(r);
        return tw_view(NULL, 0);
    }
    return view(r, big(r, 1u << (first - 0xC4)));
}

static ct_timestamp moment(ct_reader *r, int64_t seconds, uint64_t nanos) {
    ct_timestamp time = {seconds, 0};
    if (nanos > 999999999) {
        invalid(r);
        return time;
    }
    time.nanos = (int32_t)nanos;
    return time;
}

ct_timestamp ctm_timestamp(ct_reader *r) {
    ct_timestamp time = {0, 0};
    uint8_t first = peek(r);
    size_t left = r->end - r->at;
    uint64_t both;
    if (!r->is_json && first >= 0xC7 && left > 2) {
        const uint8_t *head = r->data + r->at;
        if (first == 0xD6 && head[1] == 0xFF) {
            r->at++;
            time.seconds = (int64_t)big(r, 4);
            return time;
        }
        if (first == 0xD7 && head[1] == 0xFF) {
            r->at++;
            both = big(r, 8);
            return moment(r, (int64_t)(both & 0x3FFFFFFFFu), both >> 34);
        }
        if (first == 0xC7 && head[1] == 12 && head[2] == 0xFF) {
            r->at += 2;
            both = big(r, 4);
            r->at--;
            return moment(r, (int64_t)big(r, 8), both);
        }
    }
    if (!ctm_parse_timestamp(ctm_string(r), &time)) {
        invalid(r);
    }
    return time;
}

ct_duration ctm_duration(ct_reader *r) {
    ct_duration duration = {0, 0};
    if (!ctm_parse_duration(ctm_string(r), &duration)) {
        invalid(r);
    }
    return duration;
}

ct_raw ctm_raw(ct_reader *r) {
    size_t start;
    (void)peek(r);
    start = r->at;
    ctm_skip(r);
    return r->error != 0 ? tw_view(NULL, 0) : tw_view(r->data + start, r->at - start);
}

int32_t ctm_enum(ct_reader *r, const ctm_name *names, size_t count, bool is_closed) {
    tw_bytes found;
    size_t at;
    if (!text(r, &found)) {
        if (is_closed) {
            invalid(r);
            return 0;
        }
        return ctm_int32(r);
    }
    for (at = 0; at < count; at++) {
        if (ct_same(found, names[at].name)) {
            return names[at].number;
        }
    }
    invalid(r);
    return 0;
}

static number key_number(ct_reader *r, tw_bytes key) {
    number found = parsed(key);
    if (found.kind == FRACTION || found.kind == NO_NUMBER) {
        invalid(r);
    }
    return found;
}

int64_t ctm_int_key(ct_reader *r, tw_bytes key, int64_t least, int64_t most) {
    return signed_number(r, key_number(r, key), least, most);
}

uint64_t ctm_uint_key(ct_reader *r, tw_bytes key, uint64_t most) {
    return unsigned_number(r, key_number(r, key), most);
}

bool ctm_bool_key(ct_reader *r, tw_bytes key) {
    if (!ct_same(key, "true") && !ct_same(key, "false")) {
        invalid(r);
    }
    return ct_same(key, "true");
}

static void skip_json(ct_reader *r) {
    tw_bytes ignored;
    bool is_escaped;
    ctm_sequence sequence;
    switch (peek(r)) {
    case '{':
        sequence = ctm_map(r);
        while (goes_on(r, &sequence, '}')) {
            if (!raw_text(r, &ignored, &is_escaped) || !take(r, ':')) {
                invalid(r);
            }
            ctm_skip(r);
        }
        break;
    case '[':
        sequence = ctm_list(r);
        while (ctm_item(r, &sequence)) {
            ctm_skip(r);
        }
        break;
    case '"': (void)raw_text(r, &ignored, &is_escaped); break;
    case 't':
    case 'f': (void)ctm_bool(r); break;
    case 'n':
        if (!ctm_null(r)) {
            invalid(r);
        }
        break;
    default: (void)ctm_double(r); break;
    }
}

void ctm_skip(ct_reader *r) {
    uint8_t first = peek(r);
    tw_bytes ignored;
    bool is_escaped;
    ctm_sequence sequence;
    if (r->error != 0) {
        return;
    }
    if (r->is_json) {
        skip_json(r);
    } else if ((first & 0xF0) == 0x80 || first == 0xDE || first == 0xDF) {
        sequence = ctm_map(r);
        while (goes_on(r, &sequence, 0)) {
            ctm_skip(r);
            ctm_skip(r);
        }
    } else if ((first & 0xF0) == 0x90 || first == 0xDC || first == 0xDD) {
        sequence = ctm_list(r);
        while (ctm_item(r, &sequence)) {
            ctm_skip(r);
        }
    } else if (first == 0xC0 || first == 0xC2 || first == 0xC3) {
        r->at++;
    } else if (first >= 0xC4 && first <= 0xC6) {
        (void)ctm_bytes(r);
    } else if (first >= 0xC7 && first <= 0xC9) {
        (void)view(r, big(r, 1u << (first - 0xC7)) + 1);
    } else if (first >= 0xD4 && first <= 0xD8) {
        r->at++;
        (void)view(r, 1 + ((uint64_t)1 << (first - 0xD4)));
    } else if (!raw_text(r, &ignored, &is_escaped)) {
        (void)ctm_double(r);
    }
}

void ctm_end(ct_reader *r) {
    if (r->error == 0 && (peek(r), r->at < r->end)) {
        invalid(r);
    }
}
