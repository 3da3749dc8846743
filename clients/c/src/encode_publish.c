static TW_APART tw_result encode_any_publish(const tw_publish *publish, tw_version version, uint8_t *out, size_t size) {
    tw_packet packet;
    packet.type = TW_PUBLISH;
    packet.as.publish = *publish;
    return tw_encode(&packet, version, out, size);
}

#if TW_WIDE
/* An inlined copy: for short data a call costs more, also for the registers that the caller saves. The last step overlaps. */
static TW_INLINE void copy(uint8_t *to, const uint8_t *from, size_t len) {
    size_t at;
    if (len >= 32 && len <= 64) {
        memcpy(to, from, 32);
        memcpy(to + len - 32, from + len - 32, 32);
    } else if (len >= 16) {
        for (at = 0; at + 16 < len; at += 16) {
            memcpy(to + at, from + at, 16);
        }
        memcpy(to + len - 16, from + len - 16, 16);
    } else if (len >= 8) {
        memcpy(to, from, 8);
        memcpy(to + len - 8, from + len - 8, 8);
    } else if (len >= 4) {
        memcpy(to, from, 4);
        memcpy(to + len - 4, from + len - 4, 4);
    } else if (len > 0) {
        /* The first, the middle and the last of at most three. */
        to[0] = from[0];
        to[len >> 1] = from[len >> 1];
        to[len - 1] = from[len - 1];
    }
}

/* The end of a long message. Returns `answer`: a tail call needs no saved registers. */
static TW_APART tw_result copy_long(uint8_t *to, const uint8_t *from, size_t len, tw_result answer) {
    memcpy(to, from, len);
    return answer;
}

/* The common case: a message without properties, of less than 8 KB, with a short ordinary topic, that fits. */
static TW_APART tw_result encode_common_publish(const tw_publish *publish, tw_version version, uint8_t *out, size_t size) {
    const size_t topic_len = publish->topic.len, payload_len = publish->payload.len;
    const unsigned qos = (unsigned)publish->qos;
    const bool is_v5 = version == TW_V5;
    size_t remaining_len, len;
    uint8_t *at = out;
    if ((topic_len >> 8 | payload_len >> 13) != 0 || topic_len == 0 || publish->properties.len > 0 ||
        (qos - 1 < 2 ? publish->packet_id == 0 : qos != 0 || publish->dup)) {
        return encode_any_publish(publish, version, out, size);
    }
    remaining_len = 2 + topic_len + (qos != 0 ? 2u : 0u) + (is_v5 ? 1u : 0u) + payload_len;
    len = remaining_len + (remaining_len < 0x80 ? 2 : 3);
    if (len > size) {
        return encode_any_publish(publish, version, out, size);
    }
    *at++ = (uint8_t)(TW_PUBLISH << 4 | (unsigned)publish->dup << 3 | qos << 1 | (unsigned)publish->retain);
    if (remaining_len < 0x80) {
        *at++ = (uint8_t)remaining_len;
    } else {
        *at++ = (uint8_t)(remaining_len | 0x80);
        *at++ = (uint8_t)(remaining_len >> 7);
    }
    store_u16(at, (unsigned)publish->topic.len);
    at += 2;
    copy(at, publish->topic.data, topic_len);
    if (!is_plain_topic(publish->topic.data, topic_len)) {
        return encode_any_publish(publish, version, out, size);
    }
    at += topic_len;
    if (qos != 0) {
        store_u16(at, publish->packet_id);
        at += 2;
    }
    if (is_v5) {
        *at++ = 0;
    }
    if (payload_len > 64) {
        return copy_long(at, publish->payload.data, payload_len, (tw_result)len);
    }
    copy(at, publish->payload.data, payload_len);
    return (tw_result)len;
}

/* The most common case: QoS 1 or 2, a topic of 16 to 32 bytes and up to 64 bytes of payload, whose length fits in a byte. The checked
   parts of the topic are then stored, and the only call is at the end, so hardly any register is saved. */
tw_result tw_encode_publish(const tw_publish *publish, tw_version version, uint8_t *out, size_t size) {
    const size_t topic_len = publish->topic.len, payload_len = publish->payload.len;
    const size_t is_v5 = version == TW_V5, len = 6 + topic_len + is_v5 + payload_len;
    const unsigned qos = (unsigned)publish->qos;
    if (topic_len - 16 <= 16 && payload_len - 1 < 64 && publish->properties.len == 0 && qos - 1 < 2 &&
        publish->packet_id != 0 && len <= size) {
        const uint8_t *topic = publish->topic.data;
        const tw_sixteen first = load_sixteen(topic), last = load_sixteen(topic + topic_len - 16);
        if (!has_high_bits(either(suspects(first), suspects(last)))) {
            const unsigned flags = (unsigned)publish->dup << 3 | qos << 1 | (unsigned)publish->retain;
            store_u16(out, TW_PUBLISH << 12 | flags << 8 | (unsigned)(len - 2));
            store_u16(out + 2, (unsigned)topic_len);
            memcpy(out + 4, &first, 16);
            out += topic_len;
            memcpy(out + 4 - 16, &last, 16);
            store_u16(out + 4, publish->packet_id);
            /* The length of the properties. Before 5.0 the payload, of at least one byte, overwrites it. */
            out[6] = 0;
            copy(out + 6 + is_v5, publish->payload.data, payload_len);
            return (tw_result)len;
        }
    }
    return encode_common_publish(publish, version, out, size);
}
#else
tw_result tw_encode_publish(const tw_publish *publish, tw_version version, uint8_t *out, size_t size) {
    return encode_any_publish(publish, version, out, size);
}
#endif
