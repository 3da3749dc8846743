#include "ct_protobuf.h"

#include <string.h>

#define NUMBER_MAX_BYTES 10

static size_t number(uint8_t *out, uint64_t value) {
    size_t len = 0;
    while (value >= 0x80) {
        out[len++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    out[len++] = (uint8_t)value;
    return len;
}

void ctp_put_uint64(ct_writer *w, uint64_t value) {
    uint8_t bytes[NUMBER_MAX_BYTES];
    ct_put(w, bytes, number(bytes, value));
}

void ctp_put_sint64(ct_writer *w, int64_t value) {
    ctp_put_uint64(w, value < 0 ? ~((uint64_t)value << 1) : (uint64_t)value << 1);
}

void ctp_put_sint32(ct_writer *w, int32_t value) {
    ctp_put_uint64(w, value < 0 ? (uint32_t)~((uint32_t)value << 1) : (uint32_t)value << 1);
}

void ctp_put_fixed32(ct_writer *w, uint32_t value) {
    uint8_t bytes[4];
    size_t at;
    for (at = 0; at < sizeof bytes; at++) {
        bytes[at] = (uint8_t)(value >> (8 * at));
    }
    ct_put(w, bytes, sizeof bytes);
}

void ctp_put_fixed64(ct_writer *w, uint64_t value) {
    ctp_put_fixed32(w, (uint32_t)value);
    ctp_put_fixed32(w, (uint32_t)(value >> 32));
}

void ctp_put_bytes(ct_writer *w, tw_bytes value) {
    ctp_put_uint64(w, value.len);
    ct_put(w, value.data, value.len);
}

void ctp_put_time(ct_writer *w, int64_t seconds, int32_t nanos) {
    size_t start = ctp_open(w);
    if (seconds != 0) {
        ctp_put_tag(w, 8);
        ctp_put_int64(w, seconds);
    }
    if (nanos != 0) {
        ctp_put_tag(w, 16);
        ctp_put_int32(w, nanos);
    }
    ctp_close(w, start);
}

size_t ctp_open(ct_writer *w) {
    ct_put_byte(w, 0);
    return w->len;
}

void ctp_close(ct_writer *w, size_t start) {
    uint8_t bytes[NUMBER_MAX_BYTES];
    size_t count;
    if (w->is_full) {
        return;
    }
    count = number(bytes, w->len - start);
    w->data[start - 1] = bytes[0];
    if (count > 1) {
        ct_insert(w, start, bytes + 1, count - 1);
    }
}

/** The bytes of the payload; NULL if there are fewer. */
static const uint8_t *take(ct_reader *r, uint64_t count) {
    static const uint8_t nothing[1] = {0};
    if (r->error != 0 || count > r->end - r->at) {
        ct_fail(r, CT_PAYLOAD_INVALID);
        return NULL;
    }
    r->at += (size_t)count;
    return count == 0 ? nothing : r->data + r->at - (size_t)count;
}

uint32_t ctp_tag(ct_reader *r) {
    uint64_t tag;
    if (r->error != 0 || r->at >= r->end) {
        return 0;
    }
    tag = ctp_uint64(r);
    if (tag > UINT32_MAX || tag < 8) {
        ct_fail(r, CT_PAYLOAD_INVALID);
    }
    return r->error != 0 ? 0 : (uint32_t)tag;
}

void ctp_skip(ct_reader *r, uint32_t tag) {
    switch (tag & 7) {
    case 0: (void)ctp_uint64(r); break;
    case 1: (void)take(r, 8); break;
    case 2: (void)ctp_bytes(r); break;
    case 5: (void)take(r, 4); break;
    default: ct_fail(r, CT_PAYLOAD_INVALID); break;
    }
}

void ctp_unknown(ct_reader *r, uint32_t tag, const uint32_t *numbers, size_t count) {
    size_t at;
    for (at = 0; at < count; at++) {
        if (numbers[at] == tag >> 3) {
            ct_fail(r, CT_PAYLOAD_INVALID);
        }
    }
    ctp_skip(r, tag);
}

uint64_t ctp_uint64(ct_reader *r) {
    uint64_t value = 0;
    unsigned place;
    for (place = 0; place < NUMBER_MAX_BYTES && r->at < r->end; place++) {
        uint8_t byte = r->data[r->at++];
        if (place == NUMBER_MAX_BYTES - 1 && byte > 1) {
            break;
        }
        value |= (uint64_t)(byte & 0x7F) << (7 * place);
        if (byte < 0x80) {
            return value;
        }
    }
    ct_fail(r, CT_PAYLOAD_INVALID);
    return 0;
}

int64_t ctp_sint64(ct_reader *r) {
    uint64_t value = ctp_uint64(r);
    return (int64_t)((value & 1) != 0 ? ~(value >> 1) : value >> 1);
}

int32_t ctp_sint32(ct_reader *r) {
    uint32_t value = ctp_uint32(r);
    return (int32_t)((value & 1) != 0 ? ~(value >> 1) : value >> 1);
}

uint32_t ctp_fixed32(ct_reader *r) {
    const uint8_t *bytes = take(r, 4);
    if (bytes == NULL) {
        return 0;
    }
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

uint64_t ctp_fixed64(ct_reader *r) {
    uint64_t low = ctp_fixed32(r);
    return low | (uint64_t)ctp_fixed32(r) << 32;
}

float ctp_float(ct_reader *r) {
    uint32_t bits = ctp_fixed32(r);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double ctp_double(ct_reader *r) {
    uint64_t bits = ctp_fixed64(r);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

tw_bytes ctp_bytes(ct_reader *r) {
    uint64_t len = ctp_uint64(r);
    const uint8_t *bytes = take(r, len);
    return tw_view(bytes, bytes == NULL ? 0 : (size_t)len);
}

tw_bytes ctp_string(ct_reader *r) {
    tw_bytes text = ctp_bytes(r);
    if (!ct_is_utf8(text.data, text.len)) {
        ct_fail(r, CT_PAYLOAD_INVALID);
    }
    return text;
}

ct_timestamp ctp_timestamp(ct_reader *r) {
    static const uint32_t numbers[] = {1, 2};
    ct_timestamp time = {0, 0};
    size_t outer = ctp_enter(r);
    uint32_t tag;
    while ((tag = ctp_tag(r)) != 0) {
        switch (tag) {
        case 8: time.seconds = ctp_int64(r); break;
        case 16: time.nanos = ctp_int32(r); break;
        default: ctp_unknown(r, tag, numbers, 2); break;
        }
    }
    ctp_leave(r, outer);
    return time;
}

ct_duration ctp_duration(ct_reader *r) {
    ct_timestamp time = ctp_timestamp(r);
    ct_duration duration = {time.seconds, time.nanos};
    return duration;
}

size_t ctp_enter(ct_reader *r) {
    size_t outer = r->end;
    tw_bytes inner = ctp_bytes(r);
    if (++r->depth >= CT_DEPTH_MAX) {
        ct_fail(r, CT_PAYLOAD_INVALID);
    }
    if (r->error == 0) {
        r->end = r->at;
        r->at -= inner.len;
    }
    return outer;
}

void ctp_leave(ct_reader *r, size_t outer) {
    r->depth--;
    if (r->error == 0) {
        r->at = r->end;
        r->end = outer;
    }
}

size_t ctp_count_packed(ct_reader *r, size_t size) {
    tw_bytes list = ctp_bytes(r);
    size_t count = 0, at;
    if (size > 0) {
        return list.len / size;
    }
    for (at = 0; at < list.len; at++) {
        count += list.data[at] < 0x80 ? 1 : 0;
    }
    return count;
}
