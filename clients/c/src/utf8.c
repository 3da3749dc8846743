#if TW_WIDE
#define TW_ONES 0x0101010101010101u
#define TW_HIGH_BITS 0x8080808080808080u

static TW_INLINE uint64_t load_word(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

/* Sixteen bytes of a topic. suspects() sets the high bit of each byte that is U+0000, a wildcard or not
   ASCII. */
#if defined(__GNUC__)
typedef uint8_t tw_sixteen __attribute__((vector_size(16)));

static TW_INLINE tw_sixteen load_sixteen(const uint8_t *at) {
    tw_sixteen bytes;
    memcpy(&bytes, at, 16);
    return bytes;
}

static TW_INLINE tw_sixteen join(uint64_t first, uint64_t second) {
    uint64_t words[2];
    tw_sixteen bytes;
    words[0] = first;
    words[1] = second;
    memcpy(&bytes, words, 16);
    return bytes;
}

/* `+` (0x2B) and `#` (0x23) differ in only one bit. */
static TW_INLINE tw_sixteen suspects(tw_sixteen bytes) {
    return (tw_sixteen)((bytes & 0xF7) == 0x23) | (tw_sixteen)(bytes == 0) | bytes;
}

static TW_INLINE tw_sixteen either(tw_sixteen a, tw_sixteen b) {
    return a | b;
}

static TW_INLINE bool has_high_bits(tw_sixteen bytes) {
#if defined(__SSE2__)
    typedef char tw_signs __attribute__((vector_size(16)));
    return __builtin_ia32_pmovmskb128((tw_signs)bytes) != 0;
#else
    uint64_t words[2];
    memcpy(words, &bytes, 16);
    return ((words[0] | words[1]) & TW_HIGH_BITS) != 0;
#endif
}
#else
typedef struct tw_sixteen {
    uint64_t words[2];
} tw_sixteen;

static TW_INLINE tw_sixteen join(uint64_t first, uint64_t second) {
    tw_sixteen bytes;
    bytes.words[0] = first;
    bytes.words[1] = second;
    return bytes;
}

static TW_INLINE tw_sixteen load_sixteen(const uint8_t *at) {
    return join(load_word(at), load_word(at + 8));
}

static TW_INLINE uint64_t suspects_in_word(uint64_t word) {
    uint64_t wildcard = (word & ~(TW_ONES * 0x08)) ^ (TW_ONES * 0x23);
    /* A false match requires a matching byte below it. */
    return (word - TW_ONES) | word | ((wildcard - TW_ONES) & ~wildcard);
}

static TW_INLINE tw_sixteen suspects(tw_sixteen bytes) {
    return join(suspects_in_word(bytes.words[0]), suspects_in_word(bytes.words[1]));
}

static TW_INLINE tw_sixteen either(tw_sixteen a, tw_sixteen b) {
    return join(a.words[0] | b.words[0], a.words[1] | b.words[1]);
}

static TW_INLINE bool has_high_bits(tw_sixteen bytes) {
    return ((bytes.words[0] | bytes.words[1]) & TW_HIGH_BITS) != 0;
}
#endif

/* Fewer than sixteen bytes. Reads overlap; missing bytes are padded with a character that matches nothing. */
static TW_INLINE tw_sixteen load_short(const uint8_t *data, size_t len) {
    const uint64_t padding = TW_ONES * 'a';
    if (len >= 8) {
        return join(load_word(data), load_word(data + len - 8));
    }
    if (len >= 4) {
        uint32_t first, last;
        memcpy(&first, data, 4);
        memcpy(&last, data + len - 4, 4);
        return join(padding, (uint64_t)first | (uint64_t)last << 32);
    }
    if (len > 0) {
        /* The first, the middle and the last of at most three. */
        return join(padding, padding << 24 | (uint64_t)data[0] << 16 | (uint64_t)data[len >> 1] << 8 | data[len - 1]);
    }
    return join(padding, padding);
}

/* is_plain_topic() of 16 to 32 bytes. */
static TW_INLINE bool is_plain_in_two(const uint8_t *data, size_t len) {
    return !has_high_bits(either(suspects(load_sixteen(data)), suspects(load_sixteen(data + len - 16))));
}

/* Whether a topic is ASCII without forbidden characters: most are, and need no further check. */
static TW_INLINE bool is_plain_topic(const uint8_t *data, size_t len) {
    tw_sixteen found;
    size_t at;
    if (len < 16) {
        return !has_high_bits(suspects(load_short(data, len)));
    }
    found = either(suspects(load_sixteen(data)), suspects(load_sixteen(data + len - 16)));
    for (at = 16; TW_UNLIKELY(at + 16 < len); at += 16) {
        found = either(found, suspects(load_sixteen(data + at)));
    }
    return !has_high_bits(found);
}
#endif

/* The number of bytes before the first that is not well-formed UTF-8 [MQTT-1.5.4-1]. */
static size_t well_formed_len(tw_bytes text) {
    const uint8_t *s = text.data;
    size_t len = text.len, at = 0;
    while (at < len) {
        unsigned lead = s[at], lowest = 0x80, highest = 0xBF;
        size_t more, i;
        if (lead < 0x80) {
            at++;
#if TW_WIDE
            while (at + 8 <= len && (load_word(s + at) & TW_HIGH_BITS) == 0) {
                at += 8;
            }
#endif
            continue;
        }
        if (lead < 0xC2 || lead > 0xF4) {
            return at;
        }
        more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        /* Overlong forms, surrogates, and code points above U+10FFFF. */
        if (lead == 0xE0) {
            lowest = 0xA0;
        } else if (lead == 0xED) {
            highest = 0x9F;
        } else if (lead == 0xF0) {
            lowest = 0x90;
        } else if (lead == 0xF4) {
            highest = 0x8F;
        }
        if (len - at <= more || s[at + 1] < lowest || s[at + 1] > highest) {
            return at;
        }
        for (i = 2; i <= more; i++) {
            if ((s[at + i] & 0xC0) != 0x80) {
                return at;
            }
        }
        at += more + 1;
    }
    return len;
}

/* The position of the first `+` or `#`, or U+0000 if requested; the length if there is none. */
static size_t find_null_or_wildcard(tw_bytes text, bool with_null) {
    size_t at;
    for (at = 0; at < text.len; at++) {
        uint8_t byte = text.data[at];
        if ((byte & ~0x08u) == 0x23 || (with_null && byte == 0)) {
            break;
        }
    }
    return at;
}

static tw_result check_text(tw_bytes text, size_t *at) {
    const void *null;
    *at = well_formed_len(text);
    if (*at < text.len) {
        return TW_UTF8_INVALID;
    }
    /* [MQTT-1.5.4-2] */
    null = text.len > 0 ? memchr(text.data, 0, text.len) : NULL;
    if (null != NULL) {
        *at = (size_t)((const uint8_t *)null - text.data);
        return TW_UTF8_NULL;
    }
    return 0;
}

/* The topic of a PUBLISH, which may be empty if a Topic Alias replaces it. */
static tw_result check_message_topic(tw_bytes topic, size_t *at) {
    tw_result wrong = check_text(topic, at);
    if (wrong != 0) {
        return wrong;
    }
    *at = find_null_or_wildcard(topic, false);
    /* [MQTT-3.3.2-2] */
    return *at < topic.len ? TW_TOPIC_WILDCARD : 0;
}
