/* Extended authentication (section 4.12), if the configuration has an authenticator. */

/* Builds the method and the next message of this side: the first one if there is no challenge. */
static tw_result gather_authentication(const tw_authenticator *a, const tw_bytes *challenge, tw_properties *properties) {
    tw_writer writer = tw_writer_on(a->space.data, a->space.size);
    tw_memory rest;
    tw_result len;
    tw_put_text(&writer, TW_AUTHENTICATION_METHOD, tw_str(a->method));
    if (writer.error < 0 || writer.size - writer.len < 3) {
        return TW_BUFFER_TOO_SMALL;
    }
    /* Identifier and length are written in front of the data. */
    rest = tw_lend(writer.data + writer.len + 3, writer.size - writer.len - 3);
    len = challenge == NULL ? a->begin(a->context, rest) : a->respond(a->context, *challenge, rest);
    if (len < 0) {
        return len;
    }
    if ((uint32_t)len > TW_MAX_FIELD_BYTES) {
        return TW_FIELD_TOO_LONG;
    }
    if (len > 0) {
        writer.data[writer.len] = TW_AUTHENTICATION_DATA;
        store_u16(writer.data + writer.len + 1, (unsigned)len);
        writer.len += 3 + (size_t)len;
    }
    *properties = tw_written(&writer);
    return 0;
}

/* Whether the server repeats the method [MQTT-4.12.0-5]; returns its data. */
static bool find_authentication(const tw_authenticator *a, tw_properties properties, tw_bytes *data) {
    tw_property property;
    size_t len = strlen(a->method);
    if (!tw_find_property(properties, TW_AUTHENTICATION_METHOD, &property) || property.text.len != len ||
        memcmp(property.text.data, a->method, len) != 0) {
        return false;
    }
    *data = tw_view(NULL, 0);
    if (tw_find_property(properties, TW_AUTHENTICATION_DATA, &property)) {
        *data = property.text;
    }
    return true;
}

/* Passes the server's last message to the authenticator. */
static tw_result finish_authentication(const tw_authenticator *a, tw_properties properties) {
    tw_bytes data;
    if (!find_authentication(a, properties, &data)) {
        return TW_UNEXPECTED_PACKET;
    }
    return a->finish(a->context, data);
}

/* Sends the pending AUTH in the authenticator's space, once there is room. */
static void flush_auth(tw_client *c) {
    if (c->auth_len > 0 && transmit_notice(c, TW_AUTH, (tw_reason)c->auth_reason,
                                           tw_view(c->config.authenticator->space.data, c->auth_len)) == 0) {
        c->auth_len = 0;
    }
}

static tw_result send_auth(tw_client *c, tw_reason reason, const tw_bytes *challenge) {
    tw_properties properties;
    tw_result result = gather_authentication(c->config.authenticator, challenge, &properties);
    if (result < 0) {
        return result;
    }
    /* Five bytes for the header, the reason and lengths. A packet that can never be sent must not wait. */
    if (properties.len + 10 > c->config.transmit.size || properties.len + 10 > c->server_max_packet_bytes) {
        return TW_BUFFER_TOO_SMALL;
    }
    c->auth_len = (uint32_t)properties.len;
    c->auth_reason = (uint8_t)reason;
    flush_auth(c);
    return 0;
}

static bool handle_auth(tw_client *c, const tw_notice *notice, tw_event *event) {
    const tw_authenticator *a = c->config.authenticator;
    tw_result result = TW_UNEXPECTED_PACKET;
    tw_bytes data;
    if (a == NULL) {
        event->type = TW_EVENT_AUTH;
        event->reason = notice->reason;
        event->properties = notice->properties;
        return true;
    }
    if (notice->reason == TW_CONTINUE_AUTHENTICATION && (c->state == CONNECTING || c->is_authenticating)) {
        /* [MQTT-4.12.0-3] */
        if (find_authentication(a, notice->properties, &data)) {
            result = send_auth(c, TW_CONTINUE_AUTHENTICATION, &data);
        }
        return result < 0 ? close_with(c, result, event) : false;
    }
    if (notice->reason == TW_SUCCESS && c->is_authenticating) {
        result = finish_authentication(a, notice->properties);
    }
    if (result < 0) {
        /* [MQTT-4.12.1-2] */
        return close_with(c, result, event);
    }
    c->is_authenticating = false;
    event->type = TW_EVENT_AUTH;
    event->properties = notice->properties;
    return true;
}

tw_result tw_client_reauthenticate(tw_client *client) {
    tw_result result;
    if (client->config.authenticator == NULL || client->is_authenticating) {
        return TW_ARGUMENT;
    }
    if (client->state != CONNECTED) {
        return TW_NOT_CONNECTED;
    }
    /* [MQTT-4.12.1-1] */
    result = send_auth(client, TW_RE_AUTHENTICATE, NULL);
    client->is_authenticating = result == 0;
    return result;
}
