/* The output of a packet body. Without `data` the body is measured and validated; the second time it is only
   written. */
typedef struct tw_out {
    uint8_t *data;
    size_t len;
    tw_result error;
} tw_out;

static void out_body(tw_out *o, const tw_packet *packet, tw_version version);

static unsigned first_byte_of(const tw_packet *packet) {
    unsigned first = (unsigned)packet->type << 4;
    switch (packet->type) {
    case TW_PUBLISH:
        return first | (unsigned)packet->as.publish.dup << 3 | (unsigned)packet->as.publish.qos << 1 |
               (unsigned)packet->as.publish.retain;
    case TW_PUBREL:
    case TW_SUBSCRIBE:
    case TW_UNSUBSCRIBE: return first | 2;
    default: return first;
    }
}

/* Returns the length of the body, or what is wrong with the packet. */
static tw_result measure(const tw_packet *packet, tw_version version) {
    tw_out o = {NULL, 0, 0};
    if (packet->type == TW_CONNECT) {
        version = packet->as.connect.version;
    }
    if (packet->type < TW_CONNECT || packet->type > TW_AUTH ||
        (version != TW_V5 && version != TW_V3_1_1 && version != TW_V3_1)) {
        return TW_ARGUMENT;
    }
    out_body(&o, packet, version);
    if (o.error == 0 && o.len > TW_MAX_VARINT) {
        return TW_PACKET_OVER_LIMIT;
    }
    return o.error != 0 ? o.error : (tw_result)o.len;
}

tw_result tw_encoded_len(const tw_packet *packet, tw_version version) {
    tw_result body_len = measure(packet, version);
    return body_len < 0 ? body_len : 1 + (tw_result)varint_len((uint32_t)body_len) + body_len;
}

tw_result tw_encode(const tw_packet *packet, tw_version version, uint8_t *out, size_t size) {
    tw_result body_len = measure(packet, version);
    tw_out o = {out, 1, 0};
    if (body_len < 0) {
        return body_len;
    }
    if (1 + varint_len((uint32_t)body_len) + (size_t)body_len > size) {
        return TW_BUFFER_TOO_SMALL;
    }
    out[0] = (uint8_t)first_byte_of(packet);
    o.len += store_varint(out + 1, (uint32_t)body_len);
    out_body(&o, packet, version);
    return (tw_result)o.len;
}

static void fail(tw_out *o, tw_result error) {
    if (o->error == 0) {
        o->error = error;
    }
}

static bool is_checking(const tw_out *o) {
    return o->data == NULL;
}

static void out_bytes(tw_out *o, tw_bytes bytes) {
    if (o->data != NULL && bytes.len > 0) {
        memcpy(o->data + o->len, bytes.data, bytes.len);
    }
    o->len += bytes.len;
}

static void out_u8(tw_out *o, unsigned value) {
    if (o->data != NULL) {
        o->data[o->len] = (uint8_t)value;
    }
    o->len++;
}

static void out_u16(tw_out *o, unsigned value) {
    out_u8(o, value >> 8);
    out_u8(o, value & 0xFF);
}

static void out_binary(tw_out *o, tw_bytes bytes) {
    if (bytes.len > TW_MAX_FIELD_BYTES) {
        fail(o, TW_FIELD_TOO_LONG);
    }
    out_u16(o, (unsigned)bytes.len & 0xFFFF);
    out_bytes(o, bytes);
}

static void out_text(tw_out *o, tw_bytes text) {
    size_t at;
    if (is_checking(o)) {
        fail(o, check_text(text, &at));
    }
    out_binary(o, text);
}

static void out_packet_id(tw_out *o, uint16_t packet_id) {
    if (packet_id == 0) {
        fail(o, TW_PACKET_ID_ZERO);
    }
    out_u16(o, packet_id);
}

/* Returns which properties are present. */
static uint32_t out_properties(tw_out *o, tw_properties properties, unsigned context, tw_version version) {
    uint32_t seen = 0;
    if (version != TW_V5) {
        if (properties.len > 0) {
            fail(o, TW_NOT_IN_VERSION);
        }
        return 0;
    }
    if (is_checking(o)) {
        fail(o, check_properties(properties, context, &seen));
        o->len += varint_len((uint32_t)properties.len);
    } else {
        o->len += store_varint(o->data + o->len, (uint32_t)properties.len);
    }
    out_bytes(o, properties);
    return seen;
}

/* Reason code and properties at the end of a packet, both of which may be omitted. */
static void out_tail(tw_out *o, tw_reason reason, tw_properties properties, unsigned type, tw_version version) {
    if (!is_reason_of((tw_packet_type)type, (unsigned)reason)) {
        fail(o, TW_REASON_CODE_UNKNOWN);
    }
    if (reason == TW_SUCCESS && properties.len == 0) {
        return;
    }
    if (version != TW_V5) {
        fail(o, TW_NOT_IN_VERSION);
        return;
    }
    out_u8(o, (unsigned)reason);
    if (properties.len > 0) {
        out_properties(o, properties, type, version);
    }
}

static void out_topic(tw_out *o, tw_bytes topic, tw_result if_empty, tw_result if_wildcard) {
    if (topic.len == 0) {
        fail(o, if_empty);
    } else if (is_checking(o) && find_null_or_wildcard(topic, false) < topic.len) {
        fail(o, if_wildcard);
    }
    out_text(o, topic);
}

static void out_connect(tw_out *o, const tw_connect *connect) {
    tw_version version = connect->version;
    bool has_user_name = connect->user_name.data != NULL, has_password = connect->password.data != NULL;
    const tw_will *will = &connect->will;
    unsigned flags = (unsigned)connect->clean_start << 1 | (unsigned)has_password << 6 | (unsigned)has_user_name << 7;
    if (version != TW_V5 && has_password && !has_user_name) {
        fail(o, TW_PASSWORD_WITHOUT_USER_NAME);
    }
    if (version != TW_V5 && !connect->clean_start && connect->client_id.len == 0) {
        fail(o, TW_CLIENT_ID_MISSING); /* [MQTT-3.1.3-7] of 3.1.1 */
    }
    if (connect->has_will) {
        if ((unsigned)will->qos > 2) {
            fail(o, TW_WILL_QOS_THREE);
        }
        flags |= 0x04 | (unsigned)will->qos << 3 | (unsigned)will->retain << 5;
    }
    out_binary(o, version == TW_V3_1 ? tw_view("MQIsdp", 6) : tw_view("MQTT", 4));
    out_u8(o, (unsigned)version);
    out_u8(o, flags & 0xFF);
    out_u16(o, connect->keep_alive_s);
    out_properties(o, connect->properties, TW_CONNECT, version);
    out_text(o, connect->client_id);
    if (connect->has_will) {
        out_properties(o, will->properties, TW_WILL_CONTEXT, version);
        out_topic(o, will->topic, TW_WILL_TOPIC_INVALID, TW_WILL_TOPIC_INVALID);
        out_binary(o, will->payload);
    }
    if (has_user_name) {
        out_text(o, connect->user_name);
    }
    if (has_password) {
        out_binary(o, connect->password);
    }
}

static void out_connack(tw_out *o, const tw_connack *connack, tw_version version) {
    uint8_t code = (uint8_t)connack->reason;
    if (version == TW_V5 ? !is_reason_of(TW_CONNACK, code) : !reason_to_v3(connack->reason, &code)) {
        fail(o, version == TW_V5 ? TW_REASON_CODE_UNKNOWN : TW_NOT_IN_VERSION);
    }
    if (connack->session_present && connack->reason != TW_SUCCESS) {
        fail(o, TW_SESSION_PRESENT_ON_FAILURE);
    }
    out_u8(o, connack->session_present);
    out_u8(o, code);
    out_properties(o, connack->properties, TW_CONNACK, version);
}

static void out_publish(tw_out *o, const tw_publish *publish, tw_version version) {
    uint32_t seen;
    if ((unsigned)publish->qos > 2) {
        fail(o, TW_PUBLISH_QOS_THREE);
    }
    if (publish->qos == TW_AT_MOST_ONCE && publish->dup) {
        fail(o, TW_DUP_WITH_QOS_ZERO);
    }
    out_topic(o, publish->topic, 0, TW_TOPIC_WILDCARD);
    if (publish->qos != TW_AT_MOST_ONCE) {
        out_packet_id(o, publish->packet_id);
    }
    seen = out_properties(o, publish->properties, TW_PUBLISH, version);
    if (is_checking(o) && publish->topic.len == 0 && !has_seen(seen, TW_TOPIC_ALIAS)) {
        fail(o, TW_TOPIC_MISSING);
    }
    out_bytes(o, publish->payload);
}

static uint8_t options_of(const tw_subscription *s) {
    return (uint8_t)((unsigned)s->qos | (unsigned)s->no_local << 2 | (unsigned)s->retain_as_published << 3 |
                     (unsigned)s->retain_handling << 4);
}

static void out_subscription(tw_out *o, const tw_subscription *s, bool with_options, tw_version version) {
    unsigned options = options_of(s);
    if (is_checking(o)) {
        fail(o, tw_check_filter(s->filter, NULL));
    }
    out_binary(o, s->filter);
    if (!with_options) {
        return;
    }
    if ((unsigned)s->qos > 2 || (unsigned)s->retain_handling > 2) {
        fail(o, TW_ARGUMENT);
    } else if (version != TW_V5 && options > 2) {
        fail(o, TW_NOT_IN_VERSION);
    } else if (s->no_local && is_shared(s->filter)) {
        fail(o, TW_NO_LOCAL_ON_SHARED);
    }
    out_u8(o, options);
}

static void out_subscribe(tw_out *o, const tw_subscribe *subscribe, tw_packet_type type, tw_version version) {
    bool with_options = type == TW_SUBSCRIBE;
    size_t i;
    out_packet_id(o, subscribe->packet_id);
    out_properties(o, subscribe->properties, type, version);
    if (subscribe->list != NULL) {
        for (i = 0; i < subscribe->count; i++) {
            out_subscription(o, &subscribe->list[i], with_options, version);
        }
    } else if (is_checking(o) && subscribe->wire.len > 0) {
        tw_reader r = reader_on(subscribe->wire.data, subscribe->wire.len, TW_FIELD_PAST_END);
        while (r.at < r.end) {
            (void)read_subscription(&r, with_options, version);
        }
        fail(o, r.error);
        o->len += subscribe->wire.len;
    } else {
        out_bytes(o, subscribe->wire);
    }
    if (subscribe->list != NULL ? subscribe->count == 0 : subscribe->wire.len == 0) {
        fail(o, TW_NO_TOPIC_FILTERS);
    }
}

static void out_suback(tw_out *o, const tw_suback *suback, tw_packet_type type, tw_version version) {
    size_t i;
    out_packet_id(o, suback->packet_id);
    out_properties(o, suback->properties, type, version);
    if (version != TW_V5 && type == TW_UNSUBACK) {
        if (suback->reasons.len > 0) {
            fail(o, TW_NOT_IN_VERSION);
        }
        return;
    }
    if (suback->reasons.len == 0) {
        fail(o, TW_NO_REASON_CODES);
    }
    for (i = 0; i < suback->reasons.len; i++) {
        unsigned code = suback->reasons.data[i];
        if (!is_reason_of(type, code)) {
            fail(o, TW_REASON_CODE_UNKNOWN);
        } else if (version != TW_V5 && code > TW_UNSPECIFIED_ERROR) {
            fail(o, TW_NOT_IN_VERSION);
        }
    }
    out_bytes(o, suback->reasons);
}

static void out_auth(tw_out *o, const tw_notice *auth, tw_version version) {
    uint32_t seen;
    if (version != TW_V5) {
        fail(o, TW_AUTH_BEFORE_V5);
    }
    if (!is_reason_of(TW_AUTH, (unsigned)auth->reason)) {
        fail(o, TW_REASON_CODE_UNKNOWN);
    }
    if (auth->reason == TW_SUCCESS && auth->properties.len == 0) {
        return;
    }
    out_u8(o, (unsigned)auth->reason);
    seen = out_properties(o, auth->properties, TW_AUTH, version);
    if (is_checking(o) && !has_seen(seen, TW_AUTHENTICATION_METHOD)) {
        fail(o, TW_AUTHENTICATION_METHOD_MISSING);
    }
}

static void out_body(tw_out *o, const tw_packet *packet, tw_version version) {
    const tw_ack *ack = &packet->as.ack;
    const tw_notice *notice = &packet->as.notice;
    switch (packet->type) {
    case TW_CONNECT: out_connect(o, &packet->as.connect); break;
    case TW_CONNACK: out_connack(o, &packet->as.connack, version); break;
    case TW_PUBLISH: out_publish(o, &packet->as.publish, version); break;
    case TW_PUBACK:
    case TW_PUBREC:
    case TW_PUBREL:
    case TW_PUBCOMP:
        out_packet_id(o, ack->packet_id);
        out_tail(o, ack->reason, ack->properties, packet->type, version);
        break;
    case TW_SUBSCRIBE:
    case TW_UNSUBSCRIBE: out_subscribe(o, &packet->as.subscribe, packet->type, version); break;
    case TW_SUBACK:
    case TW_UNSUBACK: out_suback(o, &packet->as.suback, packet->type, version); break;
    case TW_DISCONNECT: out_tail(o, notice->reason, notice->properties, packet->type, version); break;
    case TW_AUTH: out_auth(o, notice, version); break;
    default: break;
    }
}
