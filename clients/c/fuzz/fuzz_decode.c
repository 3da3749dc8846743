/* The decoder: an accepted packet can be encoded, is then no longer than before, and decodes to the same
   bytes again. */
#include <stdlib.h>

#include "fuzz.h"

static void must(bool condition) {
    if (!condition) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const tw_version VERSIONS[] = {TW_V3_1, TW_V3_1_1, TW_V5};
    tw_packet packet, again;
    tw_version version;
    tw_result used, len, second_len;
    uint8_t *out, *second;
    if (size == 0) {
        return 0;
    }
    version = VERSIONS[data[0] % 3];
    data++;
    size--;
    used = tw_decode(data, size, version, TW_MAX_PACKET_BYTES, &packet);
    if (used < 0) {
        must(used == TW_INCOMPLETE ? packet.at > size : packet.at <= size);
        must(tw_fault(used) <= TW_FAULT_TOO_LARGE && tw_fault(used) != TW_FAULT_NONE);
        return 0;
    }
    must(used >= 2 && (size_t)used <= size);
    len = tw_encoded_len(&packet, version);
    if (len == TW_CLIENT_ID_MISSING) {
        /* It is decoded so that it can be refused, but never encoded [MQTT-3.1.3-7]. */
        must(packet.type == TW_CONNECT && packet.as.connect.version != TW_V5);
        return 0;
    }
    must(len > 0 && len <= used);
    out = (uint8_t *)malloc((size_t)len);
    second = (uint8_t *)malloc((size_t)len);
    must(out != NULL && second != NULL);
    must(tw_encode(&packet, version, out, (size_t)len) == len);
    must(tw_encode(&packet, version, out, (size_t)len - 1) == TW_BUFFER_TOO_SMALL);
    must(tw_encode(&packet, version, out, (size_t)len) == len);
    must(tw_decode(out, (size_t)len, version, (uint32_t)len, &again) == len && again.type == packet.type);
    second_len = tw_encode(&again, version, second, (size_t)len);
    must(second_len == len && memcmp(out, second, (size_t)len) == 0);
    if (packet.type == TW_PUBLISH) {
        must(tw_encode_publish(&packet.as.publish, version, second, (size_t)len) == len);
        must(memcmp(out, second, (size_t)len) == 0);
        must(packet.as.publish.topic.len == 0 || tw_check_topic(packet.as.publish.topic, NULL) == 0);
    }
    free(out);
    free(second);
    return 0;
}
