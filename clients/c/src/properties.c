enum { NO_PROPERTY, ONE_BYTE, TWO_BYTES, FOUR_BYTES, VARINT, TEXT, BINARY, TEXT_PAIR };

/* The packets in which a property is allowed (section 2.2.2.2). */
#define IN(type) (1u << (type))
#define IN_WILL IN(TW_WILL_CONTEXT)
#define IN_MESSAGES (IN(TW_PUBLISH) | IN_WILL)
#define IN_HANDSHAKE (IN(TW_CONNECT) | IN(TW_CONNACK))
#define IN_ANSWERS                                                                                             \
    (IN(TW_CONNACK) | IN(TW_PUBACK) | IN(TW_PUBREC) | IN(TW_PUBREL) | IN(TW_PUBCOMP) | IN(TW_SUBACK) |         \
     IN(TW_UNSUBACK) | IN(TW_DISCONNECT) | IN(TW_AUTH))
#define IN_ALL (IN_ANSWERS | IN_MESSAGES | IN(TW_CONNECT) | IN(TW_SUBSCRIBE) | IN(TW_UNSUBSCRIBE))

/* A row for each identifier from 0x00 to 0x2A. */
#define LAST_PROPERTY 0x2Au

static const uint16_t PLACES[LAST_PROPERTY + 1] = {
    0, IN_MESSAGES, IN_MESSAGES, IN_MESSAGES, 0, 0, 0, 0,
    IN_MESSAGES, IN_MESSAGES, 0, IN(TW_PUBLISH) | IN(TW_SUBSCRIBE), 0, 0, 0, 0,
    0, IN_HANDSHAKE | IN(TW_DISCONNECT), IN(TW_CONNACK), IN(TW_CONNACK), 0, IN_HANDSHAKE | IN(TW_AUTH),
    IN_HANDSHAKE | IN(TW_AUTH), IN(TW_CONNECT),
    IN_WILL, IN(TW_CONNECT), IN(TW_CONNACK), 0, IN(TW_CONNACK) | IN(TW_DISCONNECT), 0, 0, IN_ANSWERS,
    0, IN_HANDSHAKE, IN_HANDSHAKE, IN(TW_PUBLISH), IN(TW_CONNACK), IN(TW_CONNACK), IN_ALL, IN_HANDSHAKE,
    IN(TW_CONNACK), IN(TW_CONNACK), IN(TW_CONNACK),
};

/* The type of the value, and above it the bit that says whether the property has been seen. */
#define ROW(seen_bit, type) (uint8_t)((seen_bit) << 3 | (type))
static const uint8_t KINDS[LAST_PROPERTY + 1] = {
    NO_PROPERTY, ROW(0, ONE_BYTE), ROW(1, FOUR_BYTES), ROW(2, TEXT),
    NO_PROPERTY, NO_PROPERTY, NO_PROPERTY, NO_PROPERTY,
    ROW(3, TEXT), ROW(4, BINARY), NO_PROPERTY, ROW(5, VARINT),
    NO_PROPERTY, NO_PROPERTY, NO_PROPERTY, NO_PROPERTY,
    NO_PROPERTY, ROW(6, FOUR_BYTES), ROW(7, TEXT), ROW(8, TWO_BYTES),
    NO_PROPERTY, ROW(9, TEXT), ROW(10, BINARY), ROW(11, ONE_BYTE),
    ROW(12, FOUR_BYTES), ROW(13, ONE_BYTE), ROW(14, TEXT), NO_PROPERTY,
    ROW(15, TEXT), NO_PROPERTY, NO_PROPERTY, ROW(16, TEXT),
    NO_PROPERTY, ROW(17, TWO_BYTES), ROW(18, TWO_BYTES), ROW(19, TWO_BYTES),
    ROW(20, ONE_BYTE), ROW(21, ONE_BYTE), ROW(22, TEXT_PAIR), ROW(23, FOUR_BYTES),
    ROW(24, ONE_BYTE), ROW(25, ONE_BYTE), ROW(26, ONE_BYTE),
};

static unsigned type_of(unsigned id) {
    return id <= LAST_PROPERTY ? KINDS[id] & 7u : (unsigned)NO_PROPERTY;
}

static TW_INLINE uint32_t seen_bit(unsigned id) {
    return (uint32_t)1 << (KINDS[id] >> 3);
}

static TW_INLINE bool has_seen(uint32_t seen, tw_property_id id) {
    return (seen & seen_bit(id)) != 0;
}

/* Returns why a number is invalid for the property; 0 if it is valid. */
static tw_result number_fault(unsigned id, uint32_t value) {
    if (type_of(id) == ONE_BYTE && value > 1) {
        return id == TW_PAYLOAD_FORMAT_INDICATOR ? TW_PAYLOAD_FORMAT_UNKNOWN
               : id == TW_MAXIMUM_QOS            ? TW_MAXIMUM_QOS_OUT_OF_RANGE
                                                 : TW_PROPERTY_NOT_BOOLEAN;
    }
    if (value == 0) {
        switch (id) {
        case TW_SUBSCRIPTION_IDENTIFIER: return TW_SUBSCRIPTION_ID_ZERO;
        case TW_RECEIVE_MAXIMUM: return TW_RECEIVE_MAXIMUM_ZERO;
        case TW_TOPIC_ALIAS: return TW_TOPIC_ALIAS_ZERO;
        case TW_MAXIMUM_PACKET_SIZE: return TW_MAXIMUM_PACKET_SIZE_ZERO;
        default: break;
        }
    }
    return 0;
}

static uint32_t read_property_number(tw_reader *r, unsigned type) {
    static const uint8_t WIDTHS[] = {0, 1, 2, 4};
    return type == VARINT ? read_varint(r) : read_number(r, WIDTHS[type]);
}

static void check_value(tw_reader *r, unsigned id) {
    const uint8_t *at = r->at;
    unsigned type = type_of(id);
    if (type <= VARINT) {
        uint32_t value = read_property_number(r, type);
        tw_result wrong = number_fault(id, value);
        if (wrong != 0) {
            refuse(r, wrong, at);
        }
    } else if (type == BINARY) {
        read_binary(r);
    } else {
        tw_bytes text = read_text(r);
        if (type == TEXT_PAIR) {
            read_text(r);
        } else if (id == TW_RESPONSE_TOPIC) {
            /* [MQTT-3.3.2-14] */
            size_t wildcard = find_null_or_wildcard(text, false);
            if (text.len == 0 || wildcard < text.len) {
                refuse(r, TW_RESPONSE_TOPIC_INVALID, text.data + (text.len == 0 ? 0 : wildcard));
            }
        }
    }
}

/* Validates all properties in `r`, and returns which are present. */
static uint32_t read_all_properties(tw_reader *r, unsigned context) {
    const uint8_t *block = r->at;
    uint32_t seen = 0;
    while (r->at < r->end) {
        const uint8_t *at = r->at;
        /* Every identifier fits in one byte. A longer encoding is as malformed as an unknown identifier. */
        unsigned id = *r->at++;
        if (type_of(id) == NO_PROPERTY) {
            refuse(r, TW_PROPERTY_UNKNOWN, at);
        } else if ((PLACES[id] >> context & 1) == 0) {
            refuse(r, TW_PROPERTY_NOT_ALLOWED, at);
        } else if ((seen & seen_bit(id)) != 0 && id != TW_USER_PROPERTY &&
                   !(id == TW_SUBSCRIPTION_IDENTIFIER && context == TW_PUBLISH)) {
            refuse(r, TW_PROPERTY_REPEATED, at);
        } else {
            seen |= seen_bit(id);
            check_value(r, id);
        }
    }
    if (has_seen(seen, TW_AUTHENTICATION_DATA) && !has_seen(seen, TW_AUTHENTICATION_METHOD)) {
        refuse(r, TW_AUTHENTICATION_DATA_ALONE, block);
    }
    return seen;
}

/* The property length, and the properties of a packet (of the will, for TW_WILL_CONTEXT). */
static tw_properties read_properties(tw_reader *r, unsigned context, uint32_t *seen) {
    const uint8_t *at = r->at;
    uint32_t len = read_varint(r);
    tw_properties block;
    block.data = r->at;
    block.len = 0;
    *seen = 0;
    if (len > (size_t)(r->end - r->at)) {
        refuse(r, TW_PROPERTY_BLOCK_PAST_END, at);
    } else if (len > 0) {
        const uint8_t *end = r->end;
        tw_error past_end = r->past_end;
        block.len = len;
        r->end = r->at + len;
        r->past_end = TW_PROPERTY_PAST_BLOCK;
        *seen = read_all_properties(r, context);
        r->past_end = past_end;
        r->end = end;
        if (r->error != 0) {
            r->at = end;
        }
    }
    return block;
}

static tw_result check_properties(tw_properties properties, unsigned context, uint32_t *seen) {
    tw_reader r;
    *seen = 0;
    if (properties.len == 0) {
        return 0;
    }
    r = reader_on(properties.data, properties.len, TW_PROPERTY_PAST_BLOCK);
    *seen = read_all_properties(&r, context);
    return r.error;
}

bool tw_next_property(tw_properties *rest, tw_property *property) {
    static const tw_bytes NOTHING = {NULL, 0};
    tw_reader r;
    unsigned type;
    if (rest->len == 0) {
        return false;
    }
    r = reader_on(rest->data, rest->len, TW_PROPERTY_PAST_BLOCK);
    property->id = (tw_property_id)*r.at++;
    property->number = 0;
    property->name = NOTHING;
    property->text = NOTHING;
    type = type_of(property->id);
    if (type == NO_PROPERTY) {
        return false;
    }
    if (type <= VARINT) {
        property->number = read_property_number(&r, type);
    } else {
        if (type == TEXT_PAIR) {
            property->name = read_binary(&r);
        }
        property->text = read_binary(&r);
    }
    rest->data = r.at;
    rest->len = (size_t)(r.end - r.at);
    return r.error == 0;
}

bool tw_find_property(tw_properties properties, tw_property_id id, tw_property *property) {
    while (tw_next_property(&properties, property)) {
        if (property->id == id) {
            return true;
        }
    }
    return false;
}

tw_writer tw_writer_on(void *data, size_t size) {
    tw_writer writer;
    writer.data = (uint8_t *)data;
    writer.size = size;
    writer.len = 0;
    writer.error = 0;
    return writer;
}

static void fail_writing(tw_writer *writer, tw_result error) {
    if (writer->error == 0) {
        writer->error = error;
    }
}

/* Returns room for the identifier and `len` bytes after it; NULL if there is none, or after an error. */
static uint8_t *make_room(tw_writer *writer, tw_property_id id, size_t len) {
    uint8_t *at;
    if (writer->error != 0) {
        return NULL;
    }
    if (writer->size - writer->len < len + 1) {
        writer->error = TW_BUFFER_TOO_SMALL;
        return NULL;
    }
    at = writer->data + writer->len;
    writer->len += len + 1;
    *at = (uint8_t)id;
    return at + 1;
}

void tw_put_number(tw_writer *writer, tw_property_id id, uint32_t value) {
    unsigned type = type_of(id);
    size_t len = type == ONE_BYTE ? 1 : type == TWO_BYTES ? 2 : type == FOUR_BYTES ? 4 : varint_len(value);
    uint8_t *at;
    if (type == NO_PROPERTY || type > VARINT || number_fault(id, value) != 0 || (type == TWO_BYTES && value > 0xFFFF) ||
        (type == VARINT && value > TW_MAX_VARINT)) {
        fail_writing(writer, TW_ARGUMENT);
        return;
    }
    at = make_room(writer, id, len);
    if (at == NULL) {
        return;
    }
    if (type == VARINT) {
        store_varint(at, value);
        return;
    }
    while (len-- > 0) {
        at[len] = (uint8_t)value;
        value >>= 8;
    }
}

static uint8_t *store_field(uint8_t *at, tw_bytes field) {
    store_u16(at, (unsigned)field.len);
    if (field.len > 0) {
        memcpy(at + 2, field.data, field.len);
    }
    return at + 2 + field.len;
}

static void put_fields(tw_writer *writer, tw_property_id id, tw_bytes first, const tw_bytes *second) {
    size_t second_len = second != NULL ? second->len : 0;
    uint8_t *at;
    if (first.len > TW_MAX_FIELD_BYTES || second_len > TW_MAX_FIELD_BYTES) {
        fail_writing(writer, TW_FIELD_TOO_LONG);
        return;
    }
    at = make_room(writer, id, 2 + first.len + (second != NULL ? 2 + second_len : 0));
    if (at != NULL) {
        at = store_field(at, first);
        if (second != NULL) {
            store_field(at, *second);
        }
    }
}

void tw_put_text(tw_writer *writer, tw_property_id id, tw_bytes text) {
    unsigned type = type_of(id);
    if (type != TEXT && type != BINARY) {
        fail_writing(writer, TW_ARGUMENT);
        return;
    }
    put_fields(writer, id, text, NULL);
}

void tw_put_user_property(tw_writer *writer, tw_bytes name, tw_bytes value) {
    put_fields(writer, TW_USER_PROPERTY, name, &value);
}
