/* For each packet type, a bit for each legal value of the lower four bits of the first byte [MQTT-2.1.3-1]. */
static const uint16_t LEGAL_FLAGS[16] = {
    0, 1, 1, 0x3C3F, 1, 1, 4, 1, 4, 1, 4, 1, 1, 1, 1, 1,
};

/* PUBREL, SUBSCRIBE and UNSUBSCRIBE that MQTT 3.1 sends again: with DUP, which later versions reserve there. */
static bool is_sent_again(unsigned first) {
    return first == 0x6A || first == 0x8A || first == 0xAA;
}

static tw_result decode_body(const uint8_t *input, size_t header_len, size_t len, tw_version version, tw_packet *packet);
static tw_result fault(tw_packet *packet, tw_result error, size_t at);
static tw_result first_byte_fault(tw_packet *packet, unsigned first);

/* Any packet, field by field. */
static TW_APART tw_result decode_any(const uint8_t *input, size_t len, tw_version version, uint32_t max_packet_bytes,
                                     tw_packet *packet) {
    tw_reader r;
    uint32_t remaining_len;
    size_t header_len;
    if (len == 0) {
        return fault(packet, TW_INCOMPLETE, 2);
    }
    if ((LEGAL_FLAGS[input[0] >> 4] >> (input[0] & 0x0F) & 1) == 0 &&
        !(version == TW_V3_1 && is_sent_again(input[0]))) {
        return first_byte_fault(packet, input[0]);
    }
    r = reader_on(input, len, TW_INCOMPLETE);
    r.at++;
    remaining_len = read_varint(&r);
    if (r.error != 0) {
        return fault(packet, r.error, r.error == TW_INCOMPLETE ? len + 1 : 1);
    }
    header_len = (size_t)(r.at - input);
    if (header_len + remaining_len > max_packet_bytes) {
        return fault(packet, TW_PACKET_OVER_LIMIT, 1);
    }
    if (len - header_len < remaining_len) {
        return fault(packet, TW_INCOMPLETE, header_len + remaining_len);
    }
    return decode_body(input, header_len, header_len + remaining_len, version, packet);
}

#if TW_WIDE
/* Besides common messages, most packets are PUBACK, PUBREC, PUBREL or PUBCOMP with only a packet identifier. */
static TW_APART tw_result decode_other(const uint8_t *input, size_t len, tw_version version, uint32_t max_packet_bytes,
                                       tw_packet *packet) {
    unsigned type, packet_id;
    if (len < 4 || input[1] != 2 || max_packet_bytes < 4) {
        return decode_any(input, len, version, max_packet_bytes, packet);
    }
    type = input[0] >> 4;
    packet_id = load_u16(input + 2);
    /* Flags are 2 for PUBREL, otherwise 0. */
    if (type < TW_PUBACK || type > TW_PUBCOMP || (input[0] & 0x0F) != (type == TW_PUBREL ? 2u : 0u) || packet_id == 0) {
        return decode_any(input, len, version, max_packet_bytes, packet);
    }
    packet->type = (tw_packet_type)type;
    packet->as.ack.packet_id = (uint16_t)packet_id;
    packet->as.ack.reason = TW_SUCCESS;
    packet->as.ack.properties = tw_view(NULL, 0);
    return 4;
}

/* The rest of a complete message after its topic, if that is a packet identifier without properties. */
static TW_INLINE tw_result decode_message(const uint8_t *input, size_t len, size_t topic_len, tw_version version,
                                          tw_packet *packet) {
    tw_publish *publish = &packet->as.publish;
    size_t payload_at = 4 + topic_len;
    unsigned packet_id = 0;
    if ((input[0] & 0x06) != 0) {
        payload_at += 2;
        if (payload_at > len || load_u16(input + payload_at - 2) == 0) {
            return decode_any(input, len, version, TW_MAX_PACKET_BYTES, packet);
        }
        packet_id = load_u16(input + payload_at - 2);
    }
    if (version == TW_V5) {
        payload_at++;
        if (payload_at > len || input[payload_at - 1] != 0) {
            return decode_any(input, len, version, TW_MAX_PACKET_BYTES, packet);
        }
    }
    packet->type = TW_PUBLISH;
    publish->topic.data = input + 4;
    publish->topic.len = topic_len;
    publish->payload.data = input + payload_at;
    publish->payload.len = len - payload_at;
    publish->properties.data = NULL;
    publish->properties.len = 0;
    publish->packet_id = (uint16_t)packet_id;
    publish->qos = (tw_qos)(input[0] >> 1 & 3);
    publish->retain = (input[0] & 1) != 0;
    publish->dup = (input[0] & 8) != 0;
    publish->has_alias = false;
    return (tw_result)len;
}

/* A topic of any length: checking short topics needs registers that the common case need not save. */
static TW_APART tw_result decode_message_of(const uint8_t *input, size_t len, tw_version version, tw_packet *packet) {
    const size_t topic_len = load_u16(input + 2);
    if (4 + topic_len > len || topic_len == 0 || !is_plain_topic(input + 4, topic_len)) {
        return decode_any(input, len, version, TW_MAX_PACKET_BYTES, packet);
    }
    return decode_message(input, len, topic_len, version, packet);
}

/*
 * The common case: a complete message without properties, of less than 128 bytes after its fixed header, with an
 * ordinary topic. Others are decoded elsewhere: calls in the middle of it would cost time.
 */
tw_result tw_decode(const uint8_t *input, size_t len, tw_version version, uint32_t max_packet_bytes, tw_packet *packet) {
    size_t topic_len;
    /* The bits of LEGAL_FLAGS for PUBLISH. */
    if (len < 5 || input[1] >= 0x80 || input[0] >> 4 != TW_PUBLISH || (0x3C3Fu >> (input[0] & 0x0F) & 1) == 0 ||
        len < 2u + input[1] || max_packet_bytes < 2u + input[1]) {
        return decode_other(input, len, version, max_packet_bytes, packet);
    }
    /* It is complete and within the limit. Dropping both arguments frees registers for the rest. */
    len = 2u + input[1];
    topic_len = load_u16(input + 2);
    if (topic_len < 16 || topic_len > 32 || 4 + topic_len > len) {
        return decode_message_of(input, len, version, packet);
    }
    if (!is_plain_in_two(input + 4, topic_len)) {
        return decode_any(input, len, version, TW_MAX_PACKET_BYTES, packet);
    }
    return decode_message(input, len, topic_len, version, packet);
}
#else
tw_result tw_decode(const uint8_t *input, size_t len, tw_version version, uint32_t max_packet_bytes, tw_packet *packet) {
    return decode_any(input, len, version, max_packet_bytes, packet);
}
#endif

static TW_COLD tw_result fault(tw_packet *packet, tw_result error, size_t at) {
    packet->at = at;
    return error;
}

static TW_COLD tw_result first_byte_fault(tw_packet *packet, unsigned first) {
    unsigned type = first >> 4;
    return fault(packet,
                 type == 0                ? TW_PACKET_TYPE_RESERVED
                 : type != TW_PUBLISH     ? TW_FLAGS_RESERVED
                 : (first & 0x06) == 0x06 ? TW_PUBLISH_QOS_THREE
                                          : TW_DUP_WITH_QOS_ZERO,
                 0);
}

static void read_publish(tw_reader *r, unsigned first, tw_version version, tw_publish *publish);
static void read_connect(tw_reader *r, tw_connect *connect);
static void read_connack(tw_reader *r, tw_version version, tw_connack *connack);
static void read_ack(tw_reader *r, tw_packet_type type, tw_version version, tw_ack *ack);
static void read_subscribe(tw_reader *r, tw_packet_type type, tw_version version, tw_subscribe *subscribe);
static void read_suback(tw_reader *r, tw_packet_type type, tw_version version, tw_suback *suback);
static tw_properties read_tail(tw_reader *r, tw_packet_type type, tw_version version, tw_reason *reason);
static void read_auth(tw_reader *r, tw_version version, tw_notice *notice);

static tw_result decode_body(const uint8_t *input, size_t header_len, size_t len, tw_version version,
                             tw_packet *packet) {
    tw_reader r = reader_on(input + header_len, len - header_len, TW_FIELD_PAST_END);
    packet->type = (tw_packet_type)(input[0] >> 4);
    switch (packet->type) {
    case TW_CONNECT: read_connect(&r, &packet->as.connect); break;
    case TW_CONNACK: read_connack(&r, version, &packet->as.connack); break;
    case TW_PUBLISH: read_publish(&r, input[0], version, &packet->as.publish); break;
    case TW_PUBACK:
    case TW_PUBREC:
    case TW_PUBREL:
    case TW_PUBCOMP: read_ack(&r, packet->type, version, &packet->as.ack); break;
    case TW_SUBSCRIBE:
    case TW_UNSUBSCRIBE: read_subscribe(&r, packet->type, version, &packet->as.subscribe); break;
    case TW_SUBACK:
    case TW_UNSUBACK: read_suback(&r, packet->type, version, &packet->as.suback); break;
    case TW_DISCONNECT:
        packet->as.notice.properties = read_tail(&r, TW_DISCONNECT, version, &packet->as.notice.reason);
        break;
    case TW_AUTH: read_auth(&r, version, &packet->as.notice); break;
    default: break;
    }
    /* Bytes after the last field are an error. */
    if (r.at < r.end) {
        refuse(&r, TW_TRAILING_BYTES, r.at);
    }
    return r.error != 0 ? fault(packet, r.error, header_len + r.error_at) : (tw_result)len;
}

static tw_properties properties_if_v5(tw_reader *r, unsigned context, tw_version version, uint32_t *seen) {
    tw_properties none = {NULL, 0};
    *seen = 0;
    return version == TW_V5 ? read_properties(r, context, seen) : none;
}

static tw_version read_version(tw_reader *r) {
    tw_bytes name = read_text(r);
    bool is_3_1 = name.len == 6 && memcmp(name.data, "MQIsdp", 6) == 0;
    const uint8_t *at = r->at;
    unsigned level;
    if (!is_3_1 && (name.len != 4 || memcmp(name.data, "MQTT", 4) != 0)) {
        /* [MQTT-3.1.2-1] */
        refuse(r, TW_PROTOCOL_NAME_UNKNOWN, r->start);
    }
    level = read_number(r, 1);
    if (is_3_1 ? level != TW_V3_1 : level != TW_V3_1_1 && level != TW_V5) {
        refuse(r, TW_PROTOCOL_LEVEL_UNSUPPORTED, at);
    }
    return (tw_version)level;
}

static tw_result connect_flags_fault(unsigned flags, tw_version version) {
    if ((flags & 0x01) != 0) {
        return TW_CONNECT_FLAG_RESERVED;
    }
    /* [MQTT-3.1.2-11] */
    if ((flags & 0x04) == 0 && (flags & 0x38) != 0) {
        return TW_WILL_FLAGS_WITHOUT_WILL;
    }
    if ((flags & 0x18) == 0x18) {
        return TW_WILL_QOS_THREE;
    }
    return version != TW_V5 && (flags & 0xC0) == 0x40 ? TW_PASSWORD_WITHOUT_USER_NAME : 0;
}

static void read_will(tw_reader *r, unsigned flags, tw_version version, tw_will *will) {
    uint32_t seen;
    size_t at;
    will->properties = properties_if_v5(r, TW_WILL_CONTEXT, version, &seen);
    will->topic = read_binary(r);
    at = well_formed_len(will->topic);
    if (at < will->topic.len) {
        refuse(r, TW_UTF8_INVALID, will->topic.data + at);
    }
    at = find_null_or_wildcard(will->topic, true);
    if (at < will->topic.len || at == 0) {
        bool is_null = at < will->topic.len && will->topic.data[at] == 0;
        refuse(r, is_null ? TW_UTF8_NULL : TW_WILL_TOPIC_INVALID, will->topic.data + at);
    }
    will->payload = read_binary(r);
    will->qos = (tw_qos)(flags >> 3 & 3);
    will->retain = (flags & 0x20) != 0;
}

static void read_connect(tw_reader *r, tw_connect *connect) {
    const uint8_t *flags_at;
    unsigned flags;
    uint32_t seen;
    tw_result wrong;
    memset(connect, 0, sizeof *connect);
    connect->version = read_version(r);
    flags_at = r->at;
    flags = read_number(r, 1);
    wrong = connect_flags_fault(flags, connect->version);
    if (wrong != 0) {
        refuse(r, wrong, flags_at);
    }
    connect->clean_start = (flags & 0x02) != 0;
    connect->has_will = (flags & 0x04) != 0;
    connect->keep_alive_s = (uint16_t)read_number(r, 2);
    connect->properties = properties_if_v5(r, TW_CONNECT, connect->version, &seen);
    connect->client_id = read_text(r);
    if (connect->has_will) {
        read_will(r, flags, connect->version, &connect->will);
    }
    if ((flags & 0x80) != 0) {
        connect->user_name = read_text(r);
    }
    if ((flags & 0x40) != 0) {
        connect->password = read_binary(r);
    }
}

static void read_connack(tw_reader *r, tw_version version, tw_connack *connack) {
    unsigned flags = read_number(r, 1);
    unsigned code;
    uint32_t seen;
    if (flags > 1) {
        refuse(r, TW_CONNACK_FLAGS_RESERVED, r->start);
    }
    connack->session_present = flags != 0;
    code = read_number(r, 1);
    connack->reason = (tw_reason)code;
    if (version == TW_V5 ? !is_reason_of(TW_CONNACK, code) : !reason_from_v3(code, &connack->reason)) {
        refuse(r, TW_REASON_CODE_UNKNOWN, r->start + 1);
    }
    if (connack->session_present && connack->reason != TW_SUCCESS) {
        /* [MQTT-3.2.2-6] */
        refuse(r, TW_SESSION_PRESENT_ON_FAILURE, r->start);
    }
    connack->properties = properties_if_v5(r, TW_CONNACK, version, &seen);
}

static void read_publish(tw_reader *r, unsigned first, tw_version version, tw_publish *publish) {
    uint32_t seen;
    size_t at = 0;
    tw_result wrong;
    publish->topic = read_binary(r);
    publish->qos = (tw_qos)(first >> 1 & 3);
    publish->retain = (first & 1) != 0;
    publish->dup = (first & 8) != 0;
    publish->packet_id = publish->qos != TW_AT_MOST_ONCE ? read_packet_id(r) : 0;
    publish->properties = properties_if_v5(r, TW_PUBLISH, version, &seen);
    publish->has_alias = has_seen(seen, TW_TOPIC_ALIAS);
    publish->payload = tw_view(r->at, (size_t)(r->end - r->at));
    r->at = r->end;
#if TW_WIDE
    wrong = is_plain_topic(publish->topic.data, publish->topic.len) ? 0 : check_message_topic(publish->topic, &at);
#else
    wrong = check_message_topic(publish->topic, &at);
#endif
    if (wrong != 0) {
        refuse(r, wrong, publish->topic.data + at);
    }
    if (publish->topic.len == 0 && !publish->has_alias) {
        refuse(r, TW_TOPIC_MISSING, r->start);
    }
}

/* Reason code and properties at the end of a packet, both of which may be omitted. */
static tw_properties read_tail(tw_reader *r, tw_packet_type type, tw_version version, tw_reason *reason) {
    tw_properties none = {NULL, 0};
    uint32_t seen;
    *reason = TW_SUCCESS;
    if (version != TW_V5 || r->at == r->end) {
        return none;
    }
    *reason = read_reason(r, type);
    return r->at == r->end ? none : read_properties(r, type, &seen);
}

static void read_ack(tw_reader *r, tw_packet_type type, tw_version version, tw_ack *ack) {
    ack->packet_id = read_packet_id(r);
    ack->properties = read_tail(r, type, version, &ack->reason);
}

static tw_result subscription_options_fault(unsigned options, tw_version version) {
    /* Before MQTT 5.0 all bits except the QoS are reserved, and a QoS of 3 is malformed. */
    if (version != TW_V5) {
        return options > 2 ? TW_SUBSCRIPTION_OPTIONS_RESERVED : 0;
    }
    return (options & 0xC0) != 0          ? TW_SUBSCRIPTION_OPTIONS_RESERVED
           : (options & 0x03) == 0x03     ? TW_SUBSCRIPTION_QOS_THREE
           : (options & 0x30) == 0x30     ? TW_RETAIN_HANDLING_THREE
                                          : 0;
}

static tw_subscription read_subscription(tw_reader *r, bool with_options, tw_version version) {
    tw_subscription subscription;
    const uint8_t *at;
    unsigned options = 0;
    size_t wrong_at = 0;
    tw_result wrong;
    subscription.filter = read_text(r);
    wrong = check_filter_levels(subscription.filter, &wrong_at);
    if (wrong != 0) {
        refuse(r, wrong, subscription.filter.data + wrong_at);
    }
    at = r->at;
    if (with_options) {
        options = read_number(r, 1);
        wrong = subscription_options_fault(options, version);
        if (wrong == 0 && (options & 0x04) != 0 && is_shared(subscription.filter)) {
            /* [MQTT-3.8.3-4] */
            wrong = TW_NO_LOCAL_ON_SHARED;
        }
        if (wrong != 0) {
            refuse(r, wrong, at);
        }
    }
    subscription.qos = (tw_qos)(options & 3);
    subscription.no_local = (options & 0x04) != 0;
    subscription.retain_as_published = (options & 0x08) != 0;
    subscription.retain_handling = (tw_retain_handling)(options >> 4 & 3);
    return subscription;
}

static void read_subscribe(tw_reader *r, tw_packet_type type, tw_version version, tw_subscribe *subscribe) {
    uint32_t seen;
    subscribe->packet_id = read_packet_id(r);
    subscribe->properties = properties_if_v5(r, type, version, &seen);
    subscribe->list = NULL;
    subscribe->count = 0;
    subscribe->wire = tw_view(r->at, (size_t)(r->end - r->at));
    while (r->at < r->end) {
        (void)read_subscription(r, type == TW_SUBSCRIBE, version);
        subscribe->count++;
    }
    if (subscribe->count == 0) {
        /* [MQTT-3.8.3-2] */
        refuse(r, TW_NO_TOPIC_FILTERS, r->at);
    }
}

bool tw_next_subscription(tw_bytes *rest, bool with_options, tw_subscription *subscription) {
    tw_reader r;
    if (rest->len == 0) {
        return false;
    }
    r = reader_on(rest->data, rest->len, TW_FIELD_PAST_END);
    *subscription = read_subscription(&r, with_options, TW_V5);
    *rest = tw_view(r.at, (size_t)(r.end - r.at));
    return r.error == 0;
}

static void read_suback(tw_reader *r, tw_packet_type type, tw_version version, tw_suback *suback) {
    uint32_t seen;
    suback->packet_id = read_packet_id(r);
    suback->properties = properties_if_v5(r, type, version, &seen);
    suback->reasons = tw_view(r->at, 0);
    if (version != TW_V5 && type == TW_UNSUBACK) {
        return;
    }
    suback->reasons.len = (size_t)(r->end - r->at);
    if (suback->reasons.len == 0) {
        refuse(r, TW_NO_REASON_CODES, r->at);
    }
    while (r->at < r->end) {
        const uint8_t *at = r->at;
        if (read_reason(r, type) > TW_UNSPECIFIED_ERROR && version != TW_V5) {
            refuse(r, TW_REASON_CODE_UNKNOWN, at);
        }
    }
}

static void read_auth(tw_reader *r, tw_version version, tw_notice *notice) {
    const uint8_t *properties_at;
    uint32_t seen;
    memset(notice, 0, sizeof *notice);
    if (version != TW_V5) {
        refuse(r, TW_AUTH_BEFORE_V5, r->at);
    }
    if (r->at == r->end) {
        return;
    }
    notice->reason = read_reason(r, TW_AUTH);
    properties_at = r->at;
    notice->properties = read_properties(r, TW_AUTH, &seen);
    if (r->at < r->end) {
        refuse(r, TW_TRAILING_BYTES, r->at);
    }
    if ((notice->reason != TW_SUCCESS || notice->properties.len > 0) && !has_seen(seen, TW_AUTHENTICATION_METHOD)) {
        refuse(r, TW_AUTHENTICATION_METHOD_MISSING, properties_at);
    }
}
