/* The reason codes that a packet may carry (section 2.4): a bit for each of 0x00 to 0x1F, 0x80 to 0x9F, and 0xA0 to
   0xA2. */
typedef struct reason_set {
    uint32_t from_00;
    uint32_t from_80;
    uint32_t from_a0;
} reason_set;

enum { FOR_CONNACK, FOR_PUBLISH, FOR_RELEASE, FOR_SUBACK, FOR_UNSUBACK, FOR_DISCONNECT, FOR_AUTH };

static const reason_set REASON_SETS[] = {
    {0x00000001u, 0xBEA117FFu, 0u},
    {0x00010001u, 0x02830089u, 0u},
    {0x00000001u, 0x00040000u, 0u},
    {0x00000007u, 0x40828089u, 6u},
    {0x00020001u, 0x00028089u, 0u},
    {0x00000011u, 0xFFF9EA8Fu, 7u},
    {0x03000001u, 0x00000000u, 0u},
};

/* The set of each packet type from CONNACK on. */
static const uint8_t SET_OF[] = {
    FOR_CONNACK, 0, FOR_PUBLISH, FOR_PUBLISH, FOR_RELEASE, FOR_RELEASE, 0, FOR_SUBACK, 0, FOR_UNSUBACK, 0, 0,
    FOR_DISCONNECT, FOR_AUTH,
};

static bool is_reason_of(tw_packet_type type, unsigned code) {
    const reason_set *set = &REASON_SETS[SET_OF[type - TW_CONNACK]];
    uint32_t codes = code < 0x20 ? set->from_00 : code < 0x80 ? 0 : code < 0xA0 ? set->from_80 : set->from_a0;
    return code < 0xC0 && (codes >> (code & 0x1F) & 1) != 0;
}

/* The CONNACK return codes 1 to 5 of 3.1.1, by index. */
static const uint8_t V3_REASONS[] = {0x00, 0x84, 0x85, 0x88, 0x86, 0x87};

static bool reason_from_v3(unsigned code, tw_reason *reason) {
    if (code >= sizeof V3_REASONS) {
        return false;
    }
    *reason = (tw_reason)V3_REASONS[code];
    return true;
}

static bool reason_to_v3(tw_reason reason, uint8_t *code) {
    uint8_t i;
    for (i = 0; i < sizeof V3_REASONS; i++) {
        if (V3_REASONS[i] == (unsigned)reason) {
            *code = i;
            return true;
        }
    }
    return false;
}

tw_fault_class tw_fault(tw_result result) {
    if (result >= 0) {
        return TW_FAULT_NONE;
    }
    if (result == TW_INCOMPLETE) {
        return TW_FAULT_INCOMPLETE;
    }
    if (result > TW_PACKET_ID_ZERO) {
        return TW_FAULT_MALFORMED;
    }
    if (result > TW_PACKET_OVER_LIMIT) {
        return TW_FAULT_PROTOCOL_ERROR;
    }
    if (result > TW_BUFFER_TOO_SMALL) {
        return TW_FAULT_TOO_LARGE;
    }
    return result > TW_CONNECTION_LOST   ? TW_FAULT_USE
           : result > TW_PUBLISH_REFUSED ? TW_FAULT_CONNECTION
                                         : TW_FAULT_OUTCOME;
}

tw_reason tw_reason_for(tw_result result) {
    switch (tw_fault(result)) {
    case TW_FAULT_NONE: return TW_SUCCESS;
    case TW_FAULT_INCOMPLETE:
    case TW_FAULT_MALFORMED: return TW_MALFORMED_PACKET;
    case TW_FAULT_TOO_LARGE: return TW_PACKET_TOO_LARGE;
    case TW_FAULT_USE:
    case TW_FAULT_OUTCOME: return TW_IMPLEMENTATION_SPECIFIC_ERROR;
    case TW_FAULT_CONNECTION:
        if (result <= TW_AUTHENTICATION_FAILED) {
            return TW_NOT_AUTHORIZED;
        }
        return result == TW_PING_TIMEOUT ? TW_KEEP_ALIVE_TIMEOUT : TW_UNSPECIFIED_ERROR;
    default: break;
    }
    switch (result) {
    case TW_PROTOCOL_NAME_UNKNOWN:
    case TW_PROTOCOL_LEVEL_UNSUPPORTED: return TW_UNSUPPORTED_PROTOCOL_VERSION;
    case TW_TOPIC_FILTER_EMPTY:
    case TW_TOPIC_FILTER_MULTI_LEVEL:
    case TW_TOPIC_FILTER_WILDCARD:
    case TW_SHARE_NAME_INVALID:
    case TW_SHARE_FILTER_MISSING: return TW_TOPIC_FILTER_INVALID;
    case TW_RESPONSE_TOPIC_INVALID:
    case TW_WILL_TOPIC_INVALID:
    case TW_TOPIC_WILDCARD: return TW_TOPIC_NAME_INVALID;
    case TW_TOPIC_ALIAS_ZERO:
    case TW_UNEXPECTED_TOPIC_ALIAS: return TW_TOPIC_ALIAS_INVALID;
    case TW_TOO_MANY_INCOMING: return TW_RECEIVE_MAXIMUM_EXCEEDED;
    default: return TW_PROTOCOL_ERROR;
    }
}
