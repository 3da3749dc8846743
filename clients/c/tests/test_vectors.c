/* Every shared vector, in both directions. */
#include "check.h"
#include "vectors.h"

/* Allocated blobs remain until their vector is done. */
static void *kept[4096];
static size_t kept_count;

static void *keep(size_t size) {
    void *memory = malloc(size > 0 ? size : 1);
    if (memory == NULL || kept_count == sizeof kept / sizeof kept[0]) {
        abort();
    }
    kept[kept_count++] = memory;
    return memory;
}

static void drop_all(void) {
    while (kept_count > 0) {
        free(kept[--kept_count]);
    }
}

/* An absent blob has no data. */
static tw_bytes bytes_of(const blob *b) {
    tw_bytes bytes = {NULL, 0};
    uint8_t *to;
    size_t i, n;
    if (!b->is_there) {
        return bytes;
    }
    for (i = 0; i < b->count; i++) {
        bytes.len += (size_t)b->parts[i].len * b->parts[i].count;
    }
    to = (uint8_t *)keep(bytes.len);
    bytes.data = to;
    for (i = 0; i < b->count; i++) {
        for (n = 0; n < b->parts[i].count; n++) {
            memcpy(to, VECTOR_POOL + b->parts[i].at, b->parts[i].len);
            to += b->parts[i].len;
        }
    }
    return bytes;
}

static bool same(tw_bytes a, tw_bytes b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool same_blob(tw_bytes bytes, const blob *b) {
    return same(bytes, bytes_of(b));
}

static void compare_properties(const char *id, tw_properties got, const vector_packet *want) {
    tw_property property;
    size_t i = 0;
    while (tw_next_property(&got, &property)) {
        const vector_property *p = &want->properties[i];
        if (i == want->property_count) {
            break;
        }
        CHECK(property.id == p->id && property.number == p->number && same_blob(property.name, &p->name) &&
                  same_blob(property.text, &p->text),
              "%s: property %d", id, (int)i);
        i++;
    }
    CHECK(i == want->property_count && got.len == 0, "%s: %d properties", id, (int)i);
}

static void compare_connect(const char *id, const tw_connect *got, const vector_packet *want, tw_version version) {
    CHECK(got->version == version, "%s", id);
    CHECK(got->clean_start == want->clean_start && got->keep_alive_s == want->keep_alive_s, "%s", id);
    CHECK(same_blob(got->client_id, &want->client_id), "%s", id);
    CHECK((got->user_name.data != NULL) == want->user_name.is_there && same_blob(got->user_name, &want->user_name),
          "%s", id);
    CHECK((got->password.data != NULL) == want->password.is_there && same_blob(got->password, &want->password), "%s",
          id);
    compare_properties(id, got->properties, want);
    CHECK(got->has_will == (want->will != NULL), "%s", id);
    if (got->has_will && want->will != NULL) {
        CHECK(same_blob(got->will.topic, &want->will->topic), "%s", id);
        CHECK(same_blob(got->will.payload, &want->will->payload), "%s", id);
        CHECK((int)got->will.qos == want->will->qos && got->will.retain == want->will->retain, "%s", id);
        compare_properties(id, got->will.properties, want->will);
    }
}

static void compare_subscribe(const char *id, const tw_subscribe *got, const vector_packet *want, bool with_options) {
    tw_bytes rest = got->wire;
    tw_subscription s;
    size_t i = 0;
    CHECK(got->count == want->request_count, "%s", id);
    while (i < want->request_count && tw_next_subscription(&rest, with_options, &s)) {
        const vector_request *r = &want->requests[i++];
        CHECK(same_blob(s.filter, &r->filter) && (int)s.qos == r->qos && s.no_local == r->no_local &&
                  s.retain_as_published == r->retain_as_published && (int)s.retain_handling == r->retain_handling,
              "%s: request %d", id, (int)i);
    }
    CHECK(i == want->request_count && rest.len == 0, "%s", id);
}

static void compare(const char *id, const tw_packet *got, const vector_packet *want, tw_version version) {
    tw_properties none = {NULL, 0};
    CHECK((int)got->type == want->type, "%s: type %d", id, (int)got->type);
    switch (got->type) {
    case TW_CONNECT: compare_connect(id, &got->as.connect, want, version); break;
    case TW_CONNACK:
        CHECK(got->as.connack.session_present == want->session_present, "%s", id);
        CHECK((int)got->as.connack.reason == want->reason, "%s", id);
        compare_properties(id, got->as.connack.properties, want);
        break;
    case TW_PUBLISH:
        CHECK(same_blob(got->as.publish.topic, &want->topic), "%s", id);
        CHECK(same_blob(got->as.publish.payload, &want->payload), "%s", id);
        CHECK(got->as.publish.packet_id == want->packet_id && (int)got->as.publish.qos == want->qos, "%s", id);
        CHECK(got->as.publish.dup == want->dup && got->as.publish.retain == want->retain, "%s", id);
        compare_properties(id, got->as.publish.properties, want);
        break;
    case TW_PUBACK:
    case TW_PUBREC:
    case TW_PUBREL:
    case TW_PUBCOMP:
        CHECK(got->as.ack.packet_id == want->packet_id && (int)got->as.ack.reason == want->reason, "%s", id);
        compare_properties(id, got->as.ack.properties, want);
        break;
    case TW_SUBSCRIBE:
    case TW_UNSUBSCRIBE:
        CHECK(got->as.subscribe.packet_id == want->packet_id, "%s", id);
        compare_properties(id, got->as.subscribe.properties, want);
        compare_subscribe(id, &got->as.subscribe, want, got->type == TW_SUBSCRIBE);
        break;
    case TW_SUBACK:
    case TW_UNSUBACK:
        CHECK(got->as.suback.packet_id == want->packet_id, "%s", id);
        CHECK(same_blob(got->as.suback.reasons, &want->reasons), "%s", id);
        compare_properties(id, got->as.suback.properties, want);
        break;
    case TW_DISCONNECT:
    case TW_AUTH:
        CHECK((int)got->as.notice.reason == want->reason, "%s", id);
        compare_properties(id, got->as.notice.properties, want);
        break;
    default: compare_properties(id, none, want); break;
    }
}

static tw_properties build_properties(const char *id, const vector_packet *from) {
    size_t size = 0, i;
    tw_writer writer;
    for (i = 0; i < from->property_count; i++) {
        size += 9 + bytes_of(&from->properties[i].name).len + bytes_of(&from->properties[i].text).len;
    }
    writer = tw_writer_on(keep(size), size);
    for (i = 0; i < from->property_count; i++) {
        const vector_property *p = &from->properties[i];
        if (p->name.is_there) {
            tw_put_user_property(&writer, bytes_of(&p->name), bytes_of(&p->text));
        } else if (p->text.is_there) {
            tw_put_text(&writer, p->id, bytes_of(&p->text));
        } else {
            tw_put_number(&writer, p->id, p->number);
        }
    }
    CHECK(writer.error == 0, "%s: %s", id, tw_error_name(writer.error));
    return tw_written(&writer);
}

static void build_connect(const char *id, tw_connect *connect, const vector_packet *from, tw_version version) {
    connect->version = version;
    connect->clean_start = from->clean_start;
    connect->keep_alive_s = from->keep_alive_s;
    connect->client_id = bytes_of(&from->client_id);
    connect->user_name = bytes_of(&from->user_name);
    connect->password = bytes_of(&from->password);
    connect->properties = build_properties(id, from);
    connect->has_will = from->will != NULL;
    if (from->will != NULL) {
        connect->will.topic = bytes_of(&from->will->topic);
        connect->will.payload = bytes_of(&from->will->payload);
        connect->will.qos = (tw_qos)from->will->qos;
        connect->will.retain = from->will->retain;
        connect->will.properties = build_properties(id, from->will);
    }
}

static void build_subscribe(const char *id, tw_subscribe *subscribe, const vector_packet *from) {
    tw_subscription *list = (tw_subscription *)keep(from->request_count * sizeof *list);
    size_t i;
    for (i = 0; i < from->request_count; i++) {
        list[i] = tw_filter(bytes_of(&from->requests[i].filter), (tw_qos)from->requests[i].qos);
        list[i].no_local = from->requests[i].no_local;
        list[i].retain_as_published = from->requests[i].retain_as_published;
        list[i].retain_handling = (tw_retain_handling)from->requests[i].retain_handling;
    }
    subscribe->packet_id = from->packet_id;
    subscribe->properties = build_properties(id, from);
    subscribe->list = list;
    subscribe->count = from->request_count;
}

/* Builds the packet like a user of the library. */
static void build(const char *id, tw_packet *packet, const vector_packet *from, tw_version version) {
    memset(packet, 0, sizeof *packet);
    packet->type = (tw_packet_type)from->type;
    switch (packet->type) {
    case TW_CONNECT: build_connect(id, &packet->as.connect, from, version); break;
    case TW_CONNACK:
        packet->as.connack.session_present = from->session_present;
        packet->as.connack.reason = (tw_reason)from->reason;
        packet->as.connack.properties = build_properties(id, from);
        break;
    case TW_PUBLISH:
        packet->as.publish = tw_message(bytes_of(&from->topic), bytes_of(&from->payload), (tw_qos)from->qos);
        packet->as.publish.properties = build_properties(id, from);
        packet->as.publish.packet_id = from->packet_id;
        packet->as.publish.dup = from->dup;
        packet->as.publish.retain = from->retain;
        break;
    case TW_PUBACK:
    case TW_PUBREC:
    case TW_PUBREL:
    case TW_PUBCOMP:
        packet->as.ack.packet_id = from->packet_id;
        packet->as.ack.reason = (tw_reason)from->reason;
        packet->as.ack.properties = build_properties(id, from);
        break;
    case TW_SUBSCRIBE:
    case TW_UNSUBSCRIBE: build_subscribe(id, &packet->as.subscribe, from); break;
    case TW_SUBACK:
    case TW_UNSUBACK:
        packet->as.suback.packet_id = from->packet_id;
        packet->as.suback.properties = build_properties(id, from);
        packet->as.suback.reasons = bytes_of(&from->reasons);
        break;
    case TW_DISCONNECT:
    case TW_AUTH:
        packet->as.notice.reason = (tw_reason)from->reason;
        packet->as.notice.properties = build_properties(id, from);
        break;
    default: break;
    }
}

/* A server has to decode it, to refuse it; a client must not send it before 5.0 [MQTT-3.1.3-7]. */
static bool may_be_sent(const tw_packet *packet, tw_version version) {
    const tw_connect *connect = &packet->as.connect;
    return packet->type != TW_CONNECT || version == TW_V5 || connect->clean_start || connect->client_id.len > 0;
}

static void encode_and_compare(const vector *v, const tw_packet *packet, tw_bytes input, const char *how) {
    uint8_t *out = (uint8_t *)keep(input.len + 16);
    tw_result len = tw_encoded_len(packet, v->version);
    tw_result written = tw_encode(packet, v->version, out, input.len + 16);
    if (!may_be_sent(packet, v->version)) {
        CHECK(len == TW_CLIENT_ID_MISSING && written == len, "%s %s: %s", v->id, how, tw_error_name(written));
        return;
    }
    CHECK(len == written && written > 0, "%s %s: %s", v->id, how, tw_error_name(written));
    if (written <= 0) {
        return;
    }
    CHECK(tw_encode(packet, v->version, out, (size_t)written - 1) == TW_BUFFER_TOO_SMALL, "%s %s", v->id, how);
    if (v->encode) {
        CHECK(same(tw_view(out, (size_t)written), input), "%s %s: other bytes", v->id, how);
    } else {
        tw_packet again;
        CHECK((size_t)written <= input.len, "%s %s: longer than the vector", v->id, how);
        CHECK(tw_decode(out, (size_t)written, v->version, TW_MAX_PACKET_BYTES, &again) == written, "%s %s", v->id, how);
        compare(v->id, &again, v->packet, v->version);
    }
    if (packet->type == TW_PUBLISH) {
        uint8_t *hot = (uint8_t *)keep((size_t)written);
        CHECK(tw_encode_publish(&packet->as.publish, v->version, hot, (size_t)written) == written &&
                  memcmp(hot, out, (size_t)written) == 0,
              "%s %s: the quick way writes something else", v->id, how);
        CHECK(tw_encode_publish(&packet->as.publish, v->version, hot, (size_t)written - 1) == TW_BUFFER_TOO_SMALL, "%s",
              v->id);
    }
}

/* Short prefixes get memory of their own, so that the sanitizer detects reads past their end. */
static void check_prefixes(const vector *v, tw_bytes input) {
    size_t len;
    for (len = 0; len < input.len; len++) {
        tw_packet packet;
        uint8_t *cut = len <= 2048 ? (uint8_t *)malloc(len > 0 ? len : 1) : NULL;
        tw_result result;
        if (cut != NULL) {
            memcpy(cut, input.data, len);
        }
        result = tw_decode(cut != NULL ? cut : input.data, len, v->version, v->max_packet_bytes, &packet);
        free(cut);
        CHECK(result == TW_INCOMPLETE && packet.at > len && packet.at <= input.len, "%s: %d bytes: %s", v->id, (int)len,
              tw_error_name(result));
    }
}

static void run(const vector *v) {
    tw_bytes input = bytes_of(&v->input), rest = bytes_of(&v->rest);
    uint8_t *whole = (uint8_t *)keep(input.len + rest.len);
    tw_packet packet, built;
    tw_result result;
    memcpy(whole, input.data, input.len);
    if (rest.len > 0) {
        memcpy(whole + input.len, rest.data, rest.len);
    }
    result = tw_decode(whole, input.len + rest.len, v->version, v->max_packet_bytes, &packet);
    CHECK(tw_fault(result) == v->verdict, "%s: %s", v->id, tw_error_name(result));
    if (result < 0) {
        CHECK(v->verdict == TW_FAULT_INCOMPLETE || (int)tw_reason_for(result) == v->reason, "%s: reason 0x%02x", v->id,
              (unsigned)tw_reason_for(result));
        CHECK(result == TW_INCOMPLETE || packet.at <= input.len + rest.len, "%s: offset %d", v->id, (int)packet.at);
        if (v->verdict == TW_FAULT_TOO_LARGE) {
            size_t len = 1;
            while (tw_decode(whole, len, v->version, v->max_packet_bytes, &packet) == TW_INCOMPLETE) {
                len++;
            }
            CHECK(len <= 5 && (len == 1 || whole[len - 1] < 0x80), "%s: refused after %d bytes", v->id, (int)len);
        }
        return;
    }
    CHECK((size_t)result == input.len, "%s: %d bytes used", v->id, (int)result);
    if (v->packet == NULL) {
        return;
    }
    compare(v->id, &packet, v->packet, v->version);
    encode_and_compare(v, &packet, input, "decoded");
    build(v->id, &built, v->packet, v->version);
    encode_and_compare(v, &built, input, "built");
    check_prefixes(v, input);
}

int main(void) {
    size_t i;
    for (i = 0; i < PACKET_VECTOR_COUNT; i++) {
        run(&PACKET_VECTORS[i]);
        drop_all();
    }
    for (i = 0; i < NAME_VECTOR_COUNT; i++) {
        tw_result result = tw_check_topic(bytes_of(&NAME_VECTORS[i].text), NULL);
        CHECK(strcmp(tw_error_name(result), NAME_VECTORS[i].cause) == 0, "%s: %s", NAME_VECTORS[i].id, tw_error_name(result));
        drop_all();
    }
    for (i = 0; i < FILTER_VECTOR_COUNT; i++) {
        tw_result result = tw_check_filter(bytes_of(&FILTER_VECTORS[i].text), NULL);
        CHECK(strcmp(tw_error_name(result), FILTER_VECTORS[i].cause) == 0, "%s: %s", FILTER_VECTORS[i].id, tw_error_name(result));
        drop_all();
    }
    for (i = 0; i < MATCHING_VECTOR_COUNT; i++) {
        const topic_vector *v = &MATCHING_VECTORS[i];
        CHECK(tw_topic_matches(bytes_of(&v->text), bytes_of(&v->topic)) == v->answer, "%s", v->id);
        drop_all();
    }
    printf("%d packets, %d topics\n", (int)PACKET_VECTOR_COUNT,
           (int)(NAME_VECTOR_COUNT + FILTER_VECTOR_COUNT + MATCHING_VECTOR_COUNT));
    return finish("vectors");
}
