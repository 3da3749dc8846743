static tw_reader reader_on(const uint8_t *data, size_t len, tw_error past_end) {
    tw_reader r;
    r.at = data;
    r.end = data + len;
    r.start = data;
    r.past_end = past_end;
    r.error = 0;
    r.error_at = 0;
    return r;
}

static TW_COLD void refuse(tw_reader *r, tw_result error, const uint8_t *at) {
    if (r->error == 0) {
        r->error = error;
        r->error_at = (size_t)(at - r->start);
    }
    r->at = r->end;
}

/* Big-endian, `width` bytes. */
static uint32_t read_number(tw_reader *r, size_t width) {
    uint32_t value = 0;
    if ((size_t)(r->end - r->at) < width) {
        refuse(r, r->past_end, r->at);
        return 0;
    }
    while (width-- > 0) {
        value = value << 8 | *r->at++;
    }
    return value;
}

static uint32_t read_varint(tw_reader *r) {
    const uint8_t *at = r->at;
    uint32_t value = 0;
    unsigned shift;
    for (shift = 0; shift < 28; shift += 7) {
        uint8_t byte;
        if (at == r->end) {
            refuse(r, r->past_end, r->at);
            return 0;
        }
        byte = *at++;
        value |= (uint32_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            /* [MQTT-1.5.5-1] */
            if (byte == 0 && shift > 0) {
                refuse(r, TW_VARINT_NOT_MINIMAL, r->at);
                return 0;
            }
            r->at = at;
            return value;
        }
    }
    refuse(r, TW_VARINT_TOO_LONG, r->at);
    return 0;
}

static tw_bytes read_binary(tw_reader *r) {
    size_t left = (size_t)(r->end - r->at);
    tw_bytes field;
    field.data = r->at;
    field.len = 0;
    if (left < 2 || left - 2 < load_u16(r->at)) {
        refuse(r, r->past_end, r->at);
        return field;
    }
    field.data = r->at + 2;
    field.len = load_u16(r->at);
    r->at = field.data + field.len;
    return field;
}

static tw_bytes read_text(tw_reader *r) {
    tw_bytes text = read_binary(r);
    size_t at = 0;
    tw_result wrong = check_text(text, &at);
    if (wrong != 0) {
        refuse(r, wrong, text.data + at);
    }
    return text;
}

static uint16_t read_packet_id(tw_reader *r) {
    const uint8_t *at = r->at;
    uint16_t packet_id = (uint16_t)read_number(r, 2);
    if (packet_id == 0) {
        /* [MQTT-2.2.1-3] */
        refuse(r, TW_PACKET_ID_ZERO, at);
    }
    return packet_id;
}

static tw_reason read_reason(tw_reader *r, tw_packet_type type) {
    const uint8_t *at = r->at;
    unsigned code = read_number(r, 1);
    if (!is_reason_of(type, code)) {
        refuse(r, TW_REASON_CODE_UNKNOWN, at);
        return TW_UNSPECIFIED_ERROR;
    }
    return (tw_reason)code;
}
