#include "ct_payload.h"

#include <string.h>

/** Room for the properties of a message or a subscription: a content type. */
#define CT_PROPERTIES_BYTES 64

ct_writer ct_writer_on(tw_memory out, bool is_json) {
    ct_writer writer;
    writer.data = out.data;
    writer.size = out.size;
    writer.len = 0;
    writer.is_full = false;
    writer.is_json = is_json;
    return writer;
}

tw_result ct_finish(const ct_writer *writer) {
    if (writer->is_full || writer->len > INT32_MAX) {
        return TW_BUFFER_TOO_SMALL;
    }
    return (tw_result)writer->len;
}

void ct_put(ct_writer *writer, const void *bytes, size_t count) {
    if (writer->is_full || count > writer->size - writer->len) {
        writer->is_full = true;
        return;
    }
    if (count > 0) {
        memcpy(writer->data + writer->len, bytes, count);
    }
    writer->len += count;
}

void ct_put_byte(ct_writer *writer, uint8_t byte) {
    ct_put(writer, &byte, 1);
}

void ct_insert(ct_writer *writer, size_t at, const uint8_t *bytes, size_t count) {
    if (writer->is_full || count > writer->size - writer->len) {
        writer->is_full = true;
        return;
    }
    memmove(writer->data + at + count, writer->data + at, writer->len - at);
    memcpy(writer->data + at, bytes, count);
    writer->len += count;
}

ct_reader ct_reader_on(tw_bytes payload, tw_memory scratch, bool is_json) {
    ct_reader reader;
    memset(&reader, 0, sizeof reader);
    reader.data = payload.data;
    reader.end = payload.len;
    reader.scratch = scratch.data;
    reader.scratch_size = scratch.size;
    reader.is_json = is_json;
    return reader;
}

void ct_fail(ct_reader *reader, tw_result error) {
    if (reader->error == 0) {
        reader->error = error;
    }
    reader->at = 0;
    reader->end = 0;
}

void *ct_alloc(ct_reader *reader, size_t count, size_t size) {
    const size_t alignment = 8;
    uintptr_t address = (uintptr_t)reader->scratch + reader->scratch_used;
    size_t padding = (size_t)((alignment - address % alignment) % alignment);
    size_t room = reader->scratch_size - reader->scratch_used;
    uint8_t *memory;
    if (reader->error != 0 || count == 0) {
        return NULL;
    }
    if (padding > room || count > (room - padding) / size) {
        ct_fail(reader, CT_SCRATCH_FULL);
        return NULL;
    }
    memory = reader->scratch + reader->scratch_used + padding;
    memset(memory, 0, count * size);
    reader->scratch_used += padding + count * size;
    return memory;
}

void *ct_grow(ct_reader *reader, const void *old, size_t had, size_t count, size_t size) {
    void *memory = ct_alloc(reader, had + count, size);
    if (memory != NULL && had > 0) {
        memcpy(memory, old, had * size);
    }
    return memory;
}

bool ct_is_utf8(const uint8_t *text, size_t len) {
    size_t at = 0;
    while (at < len) {
        uint8_t first = text[at];
        size_t more = first < 0x80 ? 0 : first < 0xC2 ? 9 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : first < 0xF5 ? 3 : 9;
        size_t place;
        if (more > 3 || more >= len - at) {
            return false;
        }
        for (place = 1; place <= more; place++) {
            if ((text[at + place] & 0xC0) != 0x80) {
                return false;
            }
        }
        /* Overlong forms, surrogates, and code points above U+10FFFF. */
        if ((first == 0xE0 && text[at + 1] < 0xA0) || (first == 0xED && text[at + 1] > 0x9F) ||
            (first == 0xF0 && text[at + 1] < 0x90) || (first == 0xF4 && text[at + 1] > 0x8F)) {
            return false;
        }
        at += 1 + more;
    }
    return true;
}

bool ct_same(tw_bytes bytes, const char *text) {
    size_t len = strlen(text);
    return bytes.len == len && (len == 0 || memcmp(bytes.data, text, len) == 0);
}

uint64_t ct_double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

uint32_t ct_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

bool ct_put_level(ct_writer *writer, tw_bytes level, bool rest) {
    size_t at;
    for (at = 0; at < level.len; at++) {
        uint8_t byte = level.data[at];
        if (byte == '+' || byte == '#' || byte == 0 || (byte == '/' && !rest)) {
            return false;
        }
    }
    ct_put(writer, level.data, level.len);
    return true;
}

bool ct_next_level(tw_bytes *rest, tw_bytes *level) {
    const uint8_t *slash;
    if (rest->data == NULL) {
        return false;
    }
    slash = rest->len == 0 ? NULL : (const uint8_t *)memchr(rest->data, '/', rest->len);
    if (slash == NULL) {
        *level = *rest;
        *rest = tw_view(NULL, 0);
    } else {
        *level = tw_view(rest->data, (size_t)(slash - rest->data));
        *rest = tw_view(slash + 1, rest->len - level->len - 1);
    }
    return true;
}

tw_result ct_publish(tw_client *client, tw_publish *message, const char *content_type, bool is_text, uint16_t *packet_id) {
    uint8_t memory[CT_PROPERTIES_BYTES];
    tw_writer properties = tw_writer_on(memory, sizeof memory);
    tw_result result;
    if (is_text) {
        tw_put_number(&properties, TW_PAYLOAD_FORMAT_INDICATOR, 1);
    }
    tw_put_text(&properties, TW_CONTENT_TYPE, tw_str(content_type));
    message->properties = tw_written(&properties);
    result = tw_client_publish(client, message, packet_id);
    message->properties = tw_view(NULL, 0);
    return result == TW_NOT_IN_VERSION ? tw_client_publish(client, message, packet_id) : result;
}

tw_result ct_subscribe(tw_client *client, const char *filter, tw_qos qos, const char *accept, uint16_t *packet_id) {
    uint8_t memory[CT_PROPERTIES_BYTES];
    tw_writer properties = tw_writer_on(memory, sizeof memory);
    tw_subscription subscription = tw_filter(tw_str(filter), qos);
    tw_result result;
    if (accept != NULL) {
        tw_put_user_property(&properties, tw_str("accept"), tw_str(accept));
    }
    result = tw_client_subscribe(client, &subscription, 1, tw_written(&properties), packet_id);
    if (result == TW_NOT_IN_VERSION) {
        result = tw_client_subscribe(client, &subscription, 1, tw_view(NULL, 0), packet_id);
    }
    return result;
}

bool ct_is_not_transcoded(const tw_publish *message) {
    tw_properties rest = message->properties;
    tw_property property;
    while (tw_next_property(&rest, &property)) {
        if (property.id == TW_USER_PROPERTY && ct_same(property.name, "tautwire-transcoding-error")) {
            return true;
        }
    }
    return false;
}
