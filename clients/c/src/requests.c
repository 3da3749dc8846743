#define RANDOM_TEXT_BYTES (1u + 2u * TW_REQUESTER_RANDOM_BYTES)
#define CORRELATION_BYTES 4u
#define ERROR_PROPERTY "error"

static tw_bytes response_topic(const tw_requester *r) {
    return tw_view(r->memory.data, r->topic_len);
}

/* Sets the response topic. Returns whether there is room for it. */
static bool name_topic(tw_requester *r, tw_bytes prefix) {
    static const char DIGITS[] = "0123456789abcdef";
    uint8_t *to = r->memory.data + prefix.len;
    size_t i;
    if (prefix.len > TW_MAX_FIELD_BYTES - RANDOM_TEXT_BYTES || prefix.len + RANDOM_TEXT_BYTES > r->memory.size) {
        return false;
    }
    memcpy(r->memory.data, prefix.data, prefix.len);
    *to++ = '/';
    for (i = 0; i < TW_REQUESTER_RANDOM_BYTES; i++) {
        *to++ = (uint8_t)DIGITS[r->random[i] >> 4];
        *to++ = (uint8_t)DIGITS[r->random[i] & 15];
    }
    r->topic_len = prefix.len + RANDOM_TEXT_BYTES;
    return true;
}

tw_result tw_requester_init(tw_requester *requester, const tw_requester_config *config) {
    memset(requester, 0, sizeof *requester);
    if (config->client->config.connect.version != TW_V5) {
        return TW_NOT_IN_VERSION;
    }
    if (config->count == 0 || config->on_response == NULL) {
        return TW_ARGUMENT;
    }
    requester->client = config->client;
    requester->places = config->places;
    requester->count = config->count;
    requester->memory = config->memory;
    requester->on_response = config->on_response;
    requester->user = config->user;
    memcpy(requester->random, config->random, TW_REQUESTER_RANDOM_BYTES);
    memset(config->places, 0, config->count * sizeof *config->places);
    return name_topic(requester, tw_str(TW_RESPONSE_PREFIX)) ? 0 : (tw_result)TW_BUFFER_TOO_SMALL;
}

static tw_result subscribe_to_responses(tw_requester *r) {
    tw_subscription responses = tw_filter(response_topic(r), TW_AT_LEAST_ONCE);
    tw_properties none = {NULL, 0};
    tw_result result = tw_client_subscribe(r->client, &responses, 1, none, &r->subscribe_id);
    r->is_subscribed = result == 0;
    return result;
}

/* The slot of a request; for number 0, a free one. */
static tw_request *find_place(const tw_requester *r, uint32_t number) {
    uint16_t i;
    for (i = 0; i < r->count; i++) {
        if (r->places[i].number == number) {
            return &r->places[i];
        }
    }
    return NULL;
}

tw_result tw_requester_send(tw_requester *requester, const tw_publish *request, uint32_t now_ms, uint32_t timeout_ms,
                            uint32_t *number) {
    tw_requester *r = requester;
    tw_request *place = find_place(r, 0);
    tw_publish message = *request;
    tw_writer writer = tw_writer_on(r->memory.data + r->topic_len, r->memory.size - r->topic_len);
    uint8_t correlation[CORRELATION_BYTES];
    uint32_t next = r->number == UINT32_MAX ? 1 : r->number + 1;
    tw_result result;
    if (place == NULL) {
        r->full++;
        return TW_REQUESTS_FULL;
    }
    if (request->properties.len > writer.size) {
        return TW_BUFFER_TOO_SMALL;
    }
    writer.len = append(writer.data, 0, request->properties);
    store_u16(correlation, next >> 16);
    store_u16(correlation + 2, next & 0xFFFF);
    tw_put_text(&writer, TW_RESPONSE_TOPIC, response_topic(r));
    tw_put_text(&writer, TW_CORRELATION_DATA, tw_view(correlation, sizeof correlation));
    result = writer.error;
    if (result == 0 && !r->is_subscribed) {
        result = subscribe_to_responses(r);
    }
    if (result < 0) {
        return result;
    }
    message.properties = tw_written(&writer);
    result = tw_client_publish(r->client, &message, &place->packet_id);
    if (result < 0) {
        return result;
    }
    r->number = next;
    place->number = next;
    place->since_ms = now_ms;
    place->timeout_ms = timeout_ms;
    if (number != NULL) {
        *number = next;
    }
    return 0;
}

void tw_requester_cancel(tw_requester *requester, uint32_t number) {
    tw_request *place = number == 0 ? NULL : find_place(requester, number);
    if (place != NULL) {
        place->number = 0;
    }
}

static void end_request(tw_requester *r, tw_request *place, tw_response *response, tw_result error, tw_reason reason) {
    response->number = place->number;
    response->error = error;
    response->reason = reason;
    /* The slot is freed before the callback, which may need it. */
    place->number = 0;
    r->on_response(r->user, r, response);
}

static void take_response(tw_requester *r, const tw_publish *message) {
    tw_request *place = NULL;
    tw_properties rest = message->properties;
    tw_property property;
    tw_response response;
    memset(&response, 0, sizeof response);
    response.payload = message->payload;
    response.properties = message->properties;
    while (tw_next_property(&rest, &property)) {
        if (property.id == TW_CORRELATION_DATA && property.text.len == CORRELATION_BYTES) {
            uint32_t number = (uint32_t)load_u16(property.text.data) << 16 | load_u16(property.text.data + 2);
            place = number == 0 ? NULL : find_place(r, number);
        } else if (property.id == TW_USER_PROPERTY && message->payload.len == 0 &&
                   same_bytes(property.name, tw_str(ERROR_PROPERTY))) {
            response.error = TW_REQUEST_FAILED;
            response.sentence = property.text;
        }
    }
    if (place == NULL) {
        r->late++;
        return;
    }
    end_request(r, place, &response, response.error, TW_SUCCESS);
}

/* Ends the request whose message has `packet_id`, or all requests if it is 0. */
static bool end_requests(tw_requester *r, uint16_t packet_id, tw_result error, tw_reason reason) {
    bool is_one = false;
    uint16_t i;
    for (i = 0; i < r->count; i++) {
        tw_request *place = &r->places[i];
        tw_response response;
        if (place->number == 0 || (packet_id != 0 && place->packet_id != packet_id)) {
            continue;
        }
        is_one = true;
        place->packet_id = 0;
        if (error < 0) {
            memset(&response, 0, sizeof response);
            end_request(r, place, &response, error, reason);
        }
    }
    return is_one;
}

/* A new connection: its Response Information may set another topic, and a new session has no subscriptions. */
static void take_connection(tw_requester *r, const tw_event *event) {
    tw_property information;
    bool is_named = tw_find_property(event->properties, TW_RESPONSE_INFORMATION, &information);
    tw_bytes prefix = is_named ? information.text : tw_str(TW_RESPONSE_PREFIX);
    bool is_same = same_bytes(prefix, tw_view(r->memory.data, r->topic_len - RANDOM_TEXT_BYTES));
    bool was_subscribed = r->is_subscribed;
    if (!is_same && !name_topic(r, prefix)) {
        /* The old name remains usable: the server's Response Information is only a suggestion (section
           3.2.2.3.15). */
        is_same = true;
    }
    /* If the client stores subscriptions, it renews this one itself, before it sends waiting requests. */
    if (!is_same || (!event->session_present && r->client->config.subscriptions.size == 0)) {
        r->is_subscribed = false;
        if (was_subscribed) {
            (void)subscribe_to_responses(r);
        }
    }
}

bool tw_requester_take(tw_requester *requester, const tw_event *event) {
    tw_requester *r = requester;
    bool is_refused = event->error == TW_SUBSCRIBE_REFUSED, is_ours;
    switch (event->type) {
    case TW_EVENT_CONNECTED: take_connection(r, event); return false;
    case TW_EVENT_MESSAGE:
        if (!same_bytes(event->message.topic, response_topic(r))) {
            return false;
        }
        take_response(r, &event->message);
        return true;
    case TW_EVENT_PUBLISHED:
        /* At QoS 1 and 2 the server reports missing subscribers. */
        return event->packet_id != 0 &&
               end_requests(r, event->packet_id,
                            event->error == 0 && event->reason == TW_NO_MATCHING_SUBSCRIBERS ? (tw_result)TW_NO_RESPONDER
                                                                                             : event->error,
                            event->reason);
    case TW_EVENT_SUBSCRIBED:
        is_ours = event->filter.len > 0 ? same_bytes(event->filter, response_topic(r))
                                        : r->subscribe_id != 0 && event->packet_id == r->subscribe_id;
        if (is_ours) {
            r->subscribe_id = 0;
        }
        if (is_ours && is_refused) {
            r->is_subscribed = false;
            (void)end_requests(r, 0, event->error, event->reason);
        }
        return is_ours;
    default: return false;
    }
}

uint32_t tw_requester_turn(tw_requester *requester, uint32_t now_ms) {
    uint32_t least_ms = UINT32_MAX;
    uint16_t i;
    for (i = 0; i < requester->count; i++) {
        tw_request *place = &requester->places[i];
        uint32_t left = left_ms(now_ms, place->since_ms, place->timeout_ms);
        tw_response response;
        if (place->number == 0) {
            continue;
        }
        if (left > 0) {
            least_ms = left < least_ms ? left : least_ms;
            continue;
        }
        memset(&response, 0, sizeof response);
        end_request(requester, place, &response, TW_REQUEST_TIMEOUT, TW_SUCCESS);
        /* The callback may have sent another request. */
        least_ms = 0;
    }
    return least_ms;
}

/* Publishes a response. `writer` has its properties except the correlation data. */
static tw_result publish_response(tw_client *client, const tw_publish *request, tw_bytes payload, tw_writer *writer) {
    tw_property property;
    tw_publish response;
    if (!tw_find_property(request->properties, TW_RESPONSE_TOPIC, &property)) {
        return 0;
    }
    response = tw_message(property.text, payload, request->qos);
    if (tw_find_property(request->properties, TW_CORRELATION_DATA, &property)) {
        tw_put_text(writer, TW_CORRELATION_DATA, property.text);
    }
    if (writer->error < 0) {
        return writer->error;
    }
    response.properties = tw_written(writer);
    return tw_client_publish(client, &response, NULL);
}

tw_result tw_respond(tw_client *client, const tw_publish *request, tw_bytes payload, tw_memory memory) {
    tw_writer writer = tw_writer_on(memory.data, memory.size);
    return publish_response(client, request, payload, &writer);
}

tw_result tw_respond_failure(tw_client *client, const tw_publish *request, const char *sentence, tw_memory memory) {
    tw_writer writer = tw_writer_on(memory.data, memory.size);
    tw_put_user_property(&writer, tw_str(ERROR_PROPERTY), tw_str(sentence != NULL ? sentence : TW_RESPONDER_FAILED));
    return publish_response(client, request, tw_view(NULL, 0), &writer);
}
