/* The longest answer to a packet: PUBACK with a reason code. */
#define ANSWER_BYTES 5u
#define MIN_TRANSMIT_BYTES 16u

static tw_result begin_connect(tw_client *c, tw_packet *packet);

tw_client_config tw_client_defaults(void) {
    tw_client_config config;
    memset(&config, 0, sizeof config);
    config.connect.version = TW_V5;
    config.connect.clean_start = true;
    config.connect.keep_alive_s = 60;
    config.session_expiry_s = TW_SESSION_EXPIRY_DEFAULT;
    config.connect_timeout_ms = TW_CONNECT_TIMEOUT_DEFAULT_MS;
    config.response_timeout_ms = TW_RESPONSE_TIMEOUT_DEFAULT_MS;
    config.max_in_flight = 0xFFFF;
    return config;
}

tw_result tw_client_init(tw_client *client, const tw_client_config *config) {
    tw_packet packet;
    tw_result result;
    memset(client, 0, sizeof *client);
    client->config = *config;
    client->next_packet_id = 1;
    empty_outbox(client);
    if (config->transmit.size < MIN_TRANSMIT_BYTES || config->receive.size < MIN_TRANSMIT_BYTES) {
        return TW_BUFFER_TOO_SMALL;
    }
    if (config->max_in_flight == 0 || config->connect_timeout_ms == 0 || config->response_timeout_ms == 0 ||
        (!TW_SUBSCRIPTIONS && config->subscriptions.size > 0) || (!TW_STORE && config->store != NULL)) {
        return TW_ARGUMENT;
    }
    result = begin_connect(client, &packet);
    return result < 0 ? result : load_store(client);
}

static size_t append(uint8_t *to, size_t at, tw_bytes bytes) {
    if (bytes.len > 0) {
        memcpy(to + at, bytes.data, bytes.len);
    }
    return at + bytes.len;
}

/* A session without a client identifier cannot be resumed, so it need not outlive its connection. */
static uint32_t session_expiry_s(const tw_client_config *config) {
    if (config->session_expiry_s != TW_SESSION_EXPIRY_DEFAULT) {
        return config->session_expiry_s;
    }
    return config->connect.client_id.len > 0 ? TW_SESSION_EXPIRY_DEFAULT_S : 0;
}

/* Our own properties precede those of the configuration. They are built in the receive buffer, which is still empty. */
static tw_result gather_properties(tw_client *c, tw_properties *properties) {
    const tw_client_config *config = &c->config;
    tw_properties extra = config->connect.properties, authentication = {NULL, 0};
    tw_writer writer = tw_writer_on(config->receive.data, config->receive.size);
    uint32_t expiry_s = session_expiry_s(config);
    if (expiry_s > 0) {
        tw_put_number(&writer, TW_SESSION_EXPIRY_INTERVAL, expiry_s);
    }
    if (config->incoming_count > 0) {
        tw_put_number(&writer, TW_RECEIVE_MAXIMUM, config->incoming_count);
    }
    if (config->receive.size < TW_MAX_PACKET_BYTES) {
        tw_put_number(&writer, TW_MAXIMUM_PACKET_SIZE, (uint32_t)config->receive.size);
    }
    if (config->authenticator != NULL) {
        tw_result result = gather_authentication(config->authenticator, NULL, &authentication);
        if (result < 0) {
            return result;
        }
    }
    if (writer.size - writer.len < authentication.len || writer.size - writer.len - authentication.len < extra.len) {
        return TW_BUFFER_TOO_SMALL;
    }
    writer.len = append(writer.data, writer.len, authentication);
    *properties = tw_view(writer.data, append(writer.data, writer.len, extra));
    return 0;
}

/* Writes CONNECT to the transmit buffer, which is empty. */
static tw_result begin_connect(tw_client *c, tw_packet *packet) {
    tw_connect *connect = &packet->as.connect;
    tw_property alias;
    tw_result result;
    packet->type = TW_CONNECT;
    *connect = c->config.connect;
    if (connect->version == TW_V5) {
        /* The client does not support topic aliases of the server. */
        if (tw_find_property(connect->properties, TW_TOPIC_ALIAS_MAXIMUM, &alias)) {
            return TW_ARGUMENT;
        }
        result = gather_properties(c, &connect->properties);
        if (result < 0) {
            return result;
        }
        /* A session survives its first connection if the server keeps it and it has a name. */
        if (c->has_session && session_expiry_s(&c->config) > 0) {
            connect->clean_start = false;
        }
    } else if (c->config.authenticator != NULL) {
        return TW_NOT_IN_VERSION;
    }
    if (connect->client_id.len == 0) {
        connect->clean_start = true;
    }
    c->asked_clean = connect->clean_start;
    return tw_encode(packet, connect->version, c->config.transmit.data, c->config.transmit.size);
}

tw_result tw_client_open(tw_client *client, uint32_t now_ms) {
    tw_packet packet;
    tw_result len;
    tw_client_close(client);
    len = begin_connect(client, &packet);
    if (len < 0) {
        return len;
    }
    client->transmit_end = (size_t)len;
    client->state = CONNECTING;
    client->server_max_packet_bytes = TW_MAX_PACKET_BYTES;
    client->asked_at_ms = now_ms;
    client->sent_at_ms = now_ms;
    client->heard_at_ms = now_ms;
    return 0;
}

void tw_client_close(tw_client *client) {
    client->state = IDLE;
    client->receive_start = 0;
    client->receive_end = 0;
    client->transmit_start = 0;
    client->transmit_end = 0;
    (void)settle_incoming(client);
    client->is_waiting_for_pong = false;
    client->owes_ping = false;
    client->has_sent = false;
    client->has_heard = false;
    client->is_authenticating = false;
    client->auth_len = 0;
    client->has_store_failed = false;
    rewind_outbox(client);
}

bool tw_client_is_connected(const tw_client *client) {
    return client->state == CONNECTED;
}

bool tw_client_is_idle(const tw_client *client) {
    return client->records == 0 && client->ack_type == 0 && client->transmit_start == client->transmit_end;
}

tw_memory tw_client_space(tw_client *client) {
    tw_memory receive = client->config.receive;
    size_t held = client->receive_end - client->receive_start;
    if (client->state == IDLE || client->state == CLOSING) {
        return tw_lend(receive.data, 0);
    }
    if (client->receive_start > 0) {
        if (held > 0) {
            memmove(receive.data, receive.data + client->receive_start, held);
        }
        client->receive_start = 0;
        client->receive_end = held;
    }
    return tw_lend(receive.data + held, receive.size - held);
}

void tw_client_received(tw_client *client, size_t count) {
    client->receive_end += count;
    client->has_heard = client->has_heard || count > 0;
}

tw_bytes tw_client_output(const tw_client *client) {
    return tw_view(client->config.transmit.data + client->transmit_start, client->transmit_end - client->transmit_start);
}

void tw_client_sent(tw_client *client, size_t count) {
    client->transmit_start += count;
    client->has_sent = client->has_sent || count > 0;
    if (client->transmit_start == client->transmit_end) {
        client->transmit_start = 0;
        client->transmit_end = 0;
    }
}

/* Moves pending output to the start of the transmit buffer. */
static void compact_transmit(tw_client *c) {
    size_t held = c->transmit_end - c->transmit_start;
    memmove(c->config.transmit.data, c->config.transmit.data + c->transmit_start, held);
    c->transmit_start = 0;
    c->transmit_end = held;
}

/* Returns room for `len` bytes at the end of the transmit buffer; NULL if there is none now. */
static uint8_t *transmit_room(tw_client *c, size_t len) {
    if (c->config.transmit.size - c->transmit_end < len) {
        compact_transmit(c);
        if (c->config.transmit.size - c->transmit_end < len) {
            c->counters.transmit_full++;
            return NULL;
        }
    }
    return c->config.transmit.data + c->transmit_end;
}

static tw_result encode_packet(const tw_client *c, const tw_packet *packet, uint8_t *out, size_t size) {
    tw_version version = c->config.connect.version;
    return packet->type == TW_PUBLISH ? tw_encode_publish(&packet->as.publish, version, out, size)
                                      : tw_encode(packet, version, out, size);
}

/* Writes a packet to the transmit buffer, whose last `kept` bytes stay free. */
static tw_result transmit_packet(tw_client *c, const tw_packet *packet, size_t kept) {
    size_t size = c->config.transmit.size - kept;
    for (;;) {
        tw_result len = TW_BUFFER_TOO_SMALL;
        if (c->transmit_end < size) {
            len = encode_packet(c, packet, c->config.transmit.data + c->transmit_end, size - c->transmit_end);
        }
        if (len > 0) {
            if ((size_t)len > c->server_max_packet_bytes) {
                return TW_OVER_MAXIMUM_PACKET_SIZE;
            }
            c->transmit_end += (size_t)len;
            return 0;
        }
        if (len != TW_BUFFER_TOO_SMALL) {
            return len;
        }
        if (c->transmit_start == 0) {
            if (c->transmit_end == 0) {
                return TW_BUFFER_TOO_SMALL;
            }
            c->counters.transmit_full++;
            return TW_OUTPUT_FULL;
        }
        compact_transmit(c);
    }
}

/* Writes an acknowledgement, or a packet without a packet identifier (0). False if there is no room. */
static bool put_short(tw_client *c, tw_packet_type type, uint16_t packet_id, tw_reason reason) {
    uint8_t *to = transmit_room(c, ANSWER_BYTES);
    size_t len = 2;
    if (to == NULL) {
        return false;
    }
    to[0] = (uint8_t)((unsigned)type << 4 | (type == TW_PUBREL ? 2u : 0u));
    if (packet_id != 0) {
        store_u16(to + 2, packet_id);
        len = 4;
    }
    if (reason != TW_SUCCESS && c->config.connect.version == TW_V5) {
        to[len++] = (uint8_t)reason;
    }
    to[1] = (uint8_t)(len - 2);
    c->transmit_end += len;
    return true;
}

static bool check_time(tw_client *c, uint32_t now_ms, tw_event *event) {
    if (tw_client_wait_ms(c, now_ms) > 0) {
        return false;
    }
    if (c->state == CONNECTING || c->is_waiting_for_pong) {
        c->counters.timeouts++;
        /* Nobody will read the pending output. */
        c->transmit_start = 0;
        c->transmit_end = 0;
        return close_with(c, c->state == CONNECTING ? TW_CONNECT_TIMEOUT : TW_PING_TIMEOUT, event);
    }
    /* [MQTT-3.1.2-20] */
    c->owes_ping = true;
    c->is_waiting_for_pong = true;
    c->asked_at_ms = now_ms;
    return false;
}

static uint32_t left_ms(uint32_t now_ms, uint32_t since_ms, uint32_t span_ms) {
    uint32_t passed = now_ms - since_ms;
    return passed >= span_ms ? 0 : span_ms - passed;
}

uint32_t tw_client_wait_ms(const tw_client *client, uint32_t now_ms) {
    if (client->state == CONNECTING) {
        return left_ms(now_ms, client->asked_at_ms, client->config.connect_timeout_ms);
    }
    if (client->state != CONNECTED) {
        return UINT32_MAX;
    }
    if (client->is_waiting_for_pong || client->keep_alive_s > 0) {
        /* Received packets show that the connection is alive, even if PINGRESP is still to come. Otherwise silence in either direction
         * causes a ping, with a quarter of the time left for its way to the server. */
        bool has_asked = client->is_waiting_for_pong;
        uint32_t span_ms = has_asked ? client->config.response_timeout_ms : (uint32_t)client->keep_alive_s * 750;
        uint32_t since_said = left_ms(now_ms, has_asked ? client->asked_at_ms : client->sent_at_ms, span_ms);
        uint32_t since_heard = left_ms(now_ms, client->heard_at_ms, span_ms);
        return has_asked == (since_said > since_heard) ? since_said : since_heard;
    }
    return UINT32_MAX;
}

bool tw_client_next(tw_client *client, uint32_t now_ms, tw_event *event) {
    tw_version version = client->config.connect.version;
    tw_memory receive = client->config.receive;
    tw_packet packet;
    memset(event, 0, sizeof *event);
    if (client->has_sent) {
        client->has_sent = false;
        client->sent_at_ms = now_ms;
    }
    if (client->has_heard) {
        client->has_heard = false;
        client->heard_at_ms = now_ms;
    }
    flush_ack(client);
    flush_auth(client);
    if (check_time(client, now_ms, event)) {
        return true;
    }
    if (client->owes_ping && put_short(client, TW_PINGREQ, 0, TW_SUCCESS)) {
        client->owes_ping = false;
    }
    while (client->state == CONNECTING || client->state == CONNECTED) {
        tw_result used;
        pump(client);
        if (has_store_failed(client)) {
            return close_with(client, TW_STORE_FAILED, event);
        }
        if (take_settled(client, event)) {
            return true;
        }
        /* Handle a packet only if there is room for its answer. */
        if (client->receive_start == client->receive_end || transmit_room(client, ANSWER_BYTES) == NULL) {
            return false;
        }
        used = tw_decode(receive.data + client->receive_start, client->receive_end - client->receive_start, version,
                         receive.size >= UINT32_MAX ? UINT32_MAX : (uint32_t)receive.size, &packet);
        if (used == TW_INCOMPLETE) {
            return false;
        }
        if (used < 0) {
            if (client->state == CONNECTING && used != TW_PACKET_OVER_LIMIT) {
                const uint8_t *input = receive.data + client->receive_start;
                /* A server without MQTT 5.0 refuses in the form of 3.1.1: a CONNACK of two bytes, the second not 0. */
                if (version == TW_V5 && input[0] == 0x20 && input[1] == 2 && input[3] != 0) {
                    version = TW_V3_1_1;
                    continue;
                }
                used = TW_HANDSHAKE_FAILED;
            }
            return close_with(client, used, event);
        }
        client->receive_start += (size_t)used;
        if (handle_packet(client, &packet, event)) {
            return true;
        }
    }
    return false;
}

/* Returns why this client cannot send a message; 0 if it can. */
static tw_result check_message(const tw_client *c, const tw_publish *message) {
    tw_property alias;
    if ((unsigned)message->qos > 2 || tw_find_property(message->properties, TW_TOPIC_ALIAS, &alias)) {
        return TW_ARGUMENT;
    }
    if (message->topic.len == 0) {
        return TW_TOPIC_MISSING;
    }
    if (c->state == CONNECTED) {
        unsigned first = (unsigned)TW_PUBLISH << 4 | (unsigned)message->qos << 1 | (unsigned)message->retain;
        return server_refusal(c, first, 0);
    }
    return message->qos == TW_AT_MOST_ONCE ? TW_NOT_CONNECTED : 0;
}

tw_result tw_client_publish(tw_client *client, const tw_publish *message, uint16_t *packet_id) {
    tw_packet packet;
    tw_result result = check_message(client, message);
    if (packet_id != NULL) {
        *packet_id = 0;
    }
    if (result < 0) {
        return result;
    }
    packet.type = TW_PUBLISH;
    packet.as.publish = *message;
    packet.as.publish.dup = false;
    if (message->qos == TW_AT_MOST_ONCE) {
        /* Room for an answer is reserved, so that our own messages do not block received packets. */
        return transmit_packet(client, &packet, ANSWER_BYTES);
    }
    packet.as.publish.packet_id = client->next_packet_id;
    result = put_record(client, &packet, packet_id);
    pump(client);
    return result;
}

static TW_APART tw_result change_subscriptions(tw_client *c, tw_packet_type type, const tw_subscription *list, size_t count,
                                               tw_properties properties, uint16_t *packet_id) {
    tw_packet packet;
    tw_result result = 0;
    if (packet_id != NULL) {
        *packet_id = 0;
    }
#if TW_SUBSCRIPTIONS
    if (type == TW_SUBSCRIBE && (result = check_room_to_keep(c, list, count, properties)) < 0) {
        return result;
    }
#endif
    packet.type = type;
    packet.as.subscribe.packet_id = c->next_packet_id;
    packet.as.subscribe.properties = properties;
    packet.as.subscribe.list = list;
    packet.as.subscribe.count = count;
    packet.as.subscribe.wire = tw_view(NULL, 0);
    result = put_record(c, &packet, packet_id);
#if TW_SUBSCRIPTIONS
    if (result == 0) {
        forget_subscriptions(c, list, count);
        if (type == TW_SUBSCRIBE) {
            keep_subscriptions(c, list, count, properties, packet.as.subscribe.packet_id);
        }
    }
#endif
    pump(c);
    return result;
}

tw_result tw_client_subscribe(tw_client *client, const tw_subscription *list, size_t count, tw_properties properties,
                              uint16_t *packet_id) {
    return change_subscriptions(client, TW_SUBSCRIBE, list, count, properties, packet_id);
}

tw_result tw_client_unsubscribe(tw_client *client, const tw_subscription *list, size_t count, tw_properties properties,
                                uint16_t *packet_id) {
    return change_subscriptions(client, TW_UNSUBSCRIBE, list, count, properties, packet_id);
}

tw_result tw_client_reject(tw_client *client, tw_reason reason) {
    if (client->config.connect.version != TW_V5) {
        return TW_NOT_IN_VERSION;
    }
    if (client->ack_type == 0 || !is_reason_of(TW_PUBACK, (unsigned)reason)) {
        return TW_ARGUMENT;
    }
    client->ack_reason = (uint8_t)reason;
    return 0;
}

static tw_result transmit_notice(tw_client *c, tw_packet_type type, tw_reason reason, tw_properties properties) {
    tw_packet packet;
    packet.type = type;
    packet.as.notice.reason = reason;
    packet.as.notice.properties = properties;
    return transmit_packet(c, &packet, 0);
}

tw_result tw_client_auth(tw_client *client, tw_reason reason, tw_properties properties) {
    if (client->state != CONNECTING && client->state != CONNECTED) {
        return TW_NOT_CONNECTED;
    }
    return transmit_notice(client, TW_AUTH, reason, properties);
}

tw_result tw_client_disconnect(tw_client *client, tw_reason reason) {
    /* Session Expiry Interval 0: a session that only bridges reconnections ends here. */
    static const uint8_t NO_SESSION[] = {TW_SESSION_EXPIRY_INTERVAL, 0, 0, 0, 0};
    const tw_client_config *config = &client->config;
    tw_properties properties = {NULL, 0};
    tw_result result;
    if (client->state != CONNECTED) {
        return TW_NOT_CONNECTED;
    }
    if (config->connect.version == TW_V5 && config->session_expiry_s == TW_SESSION_EXPIRY_DEFAULT &&
        session_expiry_s(config) > 0) {
        properties = tw_view(NO_SESSION, sizeof NO_SESSION);
    }
    flush_ack(client);
    result = transmit_notice(client, TW_DISCONNECT, reason, properties);
    if (result == 0) {
        client->state = CLOSING;
    }
    return result;
}
