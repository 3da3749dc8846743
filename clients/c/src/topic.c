static const char SHARE_PREFIX[] = "$share/";
#define TW_SHARE_PREFIX_LEN 7u

tw_result tw_check_topic(tw_bytes topic, size_t *at) {
    size_t unused;
    if (at == NULL) {
        at = &unused;
    }
    *at = 0;
    if (topic.len == 0) {
        return TW_TOPIC_MISSING;
    }
    return topic.len > TW_MAX_FIELD_BYTES ? TW_FIELD_TOO_LONG : check_message_topic(topic, at);
}

tw_result tw_check_filter(tw_bytes filter, size_t *at) {
    size_t unused;
    tw_result wrong;
    if (at == NULL) {
        at = &unused;
    }
    *at = 0;
    if (filter.len > TW_MAX_FIELD_BYTES) {
        return TW_FIELD_TOO_LONG;
    }
    wrong = check_text(filter, at);
    return wrong != 0 ? wrong : check_filter_levels(filter, at);
}

static bool is_shared(tw_bytes filter) {
    return filter.len >= TW_SHARE_PREFIX_LEN && memcmp(filter.data, SHARE_PREFIX, TW_SHARE_PREFIX_LEN) == 0;
}

/* Returns the start of the topic filter. If there is a share name, it is validated [MQTT-4.8.2-1]. */
static tw_result find_levels(tw_bytes filter, size_t *at) {
    size_t i = 0;
    if (is_shared(filter)) {
        for (i = TW_SHARE_PREFIX_LEN; i < filter.len && filter.data[i] != '/'; i++) {
            if ((filter.data[i] & ~0x08u) == 0x23) {
                *at = i;
                return TW_SHARE_NAME_INVALID;
            }
        }
        if (i == TW_SHARE_PREFIX_LEN) {
            *at = i;
            return TW_SHARE_NAME_INVALID;
        }
        /* The slash that ends the share name. [MQTT-4.8.2-2] */
        i++;
        if (i >= filter.len) {
            *at = filter.len;
            return TW_SHARE_FILTER_MISSING;
        }
    }
    *at = i;
    return filter.len == 0 ? TW_TOPIC_FILTER_EMPTY : 0;
}

/* The rules of a filter for well-formed text. */
static tw_result check_filter_levels(tw_bytes filter, size_t *at) {
    const uint8_t *text = filter.data;
    size_t first = 0, i;
    tw_result wrong = find_levels(filter, &first);
    *at = first;
    if (wrong != 0) {
        return wrong;
    }
    for (i = first; i < filter.len; i++) {
        if (text[i] != '+' && text[i] != '#') {
            continue;
        }
        *at = i;
        /* [MQTT-4.7.1-2] */
        if ((i > first && text[i - 1] != '/') || (i + 1 < filter.len && text[i + 1] != '/')) {
            return TW_TOPIC_FILTER_WILDCARD;
        }
        /* [MQTT-4.7.1-1] */
        if (text[i] == '#' && i + 1 < filter.len) {
            return TW_TOPIC_FILTER_MULTI_LEVEL;
        }
    }
    return 0;
}

bool tw_topic_matches(tw_bytes filter, tw_bytes topic) {
    const uint8_t *f, *f_end = filter.data + filter.len;
    const uint8_t *t = topic.data, *t_end = topic.data + topic.len;
    size_t first = 0;
    if (find_levels(filter, &first) != 0 || topic.len == 0) {
        return false;
    }
    f = filter.data + first;
    /* [MQTT-4.7.2-1] */
    if (*t == '$' && (*f == '+' || *f == '#')) {
        return false;
    }
    /* Each iteration starts at a level of both. */
    for (;;) {
        if (f < f_end && *f == '#') {
            return true;
        }
        if (f < f_end && *f == '+') {
            f++;
            while (t < t_end && *t != '/') {
                t++;
            }
        } else {
            while (f < f_end && t < t_end && *f != '/' && *f == *t) {
                f++;
                t++;
            }
        }
        if (t == t_end) {
            /* `a/#` also matches `a`. */
            return f == f_end || (f_end - f == 2 && f[0] == '/' && f[1] == '#');
        }
        if (f == f_end || *f != '/' || *t != '/') {
            return false;
        }
        f++;
        t++;
    }
}
