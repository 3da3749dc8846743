/* The client side of SCRAM (RFC 5802, section 3). */

/* The state of an exchange. */
enum { SCRAM_NONE, SCRAM_BEGUN, SCRAM_PROVED };

/* The maximum length of a server message. */
#define SCRAM_MESSAGE_MAX_BYTES 1024u

/* HMAC with a prepared key, so that each use costs two blocks fewer. */
typedef struct hmac_key {
    tw_hash_state inner, outer;
} hmac_key;

static void hmac_prepare(const tw_hash *hash, hmac_key *key, const uint8_t *secret, size_t len) {
    uint8_t block[128] = {0};
    size_t i;
    if (len > hash->block_bytes) {
        hash->begin(&key->inner);
        hash->update(&key->inner, secret, len);
        hash->finish(&key->inner, block);
    } else {
        memcpy(block, secret, len);
    }
    for (i = 0; i < hash->block_bytes; i++) {
        block[i] ^= 0x36;
    }
    hash->begin(&key->inner);
    hash->update(&key->inner, block, hash->block_bytes);
    for (i = 0; i < hash->block_bytes; i++) {
        block[i] ^= 0x36 ^ 0x5C;
    }
    hash->begin(&key->outer);
    hash->update(&key->outer, block, hash->block_bytes);
}

/* `state` is a copy of key->inner after the message. */
static void hmac_finish(const tw_hash *hash, const hmac_key *key, tw_hash_state *state, uint8_t *mac) {
    hash->finish(state, mac);
    *state = key->outer;
    hash->update(state, mac, hash->digest_bytes);
    hash->finish(state, mac);
}

static void hmac(const tw_hash *hash, const hmac_key *key, const void *message, size_t len, uint8_t *mac) {
    tw_hash_state state = key->inner;
    hash->update(&state, (const uint8_t *)message, len);
    hmac_finish(hash, key, &state, mac);
}

/* ClientKey and ServerKey, by PBKDF2 (RFC 8018) with one block. */
static void derive_keys(tw_scram *scram) {
    static const uint8_t FIRST[4] = {0, 0, 0, 1};
    const tw_hash *hash = scram->hash;
    uint8_t salted[64], last[64];
    hmac_key key;
    tw_hash_state state;
    uint32_t round;
    size_t i;
    hmac_prepare(hash, &key, scram->password.data, scram->password.len);
    state = key.inner;
    hash->update(&state, scram->salt, scram->salt_bytes);
    hash->update(&state, FIRST, sizeof FIRST);
    hmac_finish(hash, &key, &state, last);
    memcpy(salted, last, sizeof salted);
    for (round = 1; round < scram->iterations; round++) {
        hmac(hash, &key, last, hash->digest_bytes, last);
        for (i = 0; i < hash->digest_bytes; i++) {
            salted[i] ^= last[i];
        }
    }
    hmac_prepare(hash, &key, salted, hash->digest_bytes);
    hmac(hash, &key, "Client Key", 10, scram->client_key);
    hmac(hash, &key, "Server Key", 10, scram->server_key);
}

static const char BASE64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void to_base64(const uint8_t *bytes, size_t len, uint8_t *to) {
    size_t i;
    for (i = 0; i < len; i += 3) {
        uint32_t bits = (uint32_t)bytes[i] << 16 | (i + 1 < len ? (uint32_t)bytes[i + 1] << 8 : 0) |
                        (i + 2 < len ? bytes[i + 2] : 0);
        *to++ = (uint8_t)BASE64[bits >> 18];
        *to++ = (uint8_t)BASE64[bits >> 12 & 63];
        *to++ = (uint8_t)(i + 1 < len ? BASE64[bits >> 6 & 63] : '=');
        *to++ = (uint8_t)(i + 2 < len ? BASE64[bits & 63] : '=');
    }
}

/* Returns how many bytes there are; only the first `size` of them are written. Negative: it is not Base64. */
static tw_result from_base64(tw_bytes text, uint8_t *to, size_t size) {
    size_t i, padding = 0, count = 0;
    uint32_t bits = 0;
    if (text.len % 4 != 0) {
        return TW_SCRAM_MALFORMED;
    }
    for (i = 0; i < text.len; i++) {
        const char *sign = text.data[i] == '\0' ? NULL : (const char *)memchr(BASE64, text.data[i], 64);
        if (text.data[i] == '=' && i + 2 >= text.len) {
            padding++;
        } else if (sign == NULL || padding > 0) {
            return TW_SCRAM_MALFORMED;
        }
        bits = bits << 6 | (sign != NULL ? (uint32_t)(sign - BASE64) : 0);
        if (i % 4 == 3) {
            size_t k;
            for (k = 0; k < 3 - padding; k++) {
                if (count < size) {
                    to[count] = (uint8_t)(bits >> (16 - 8 * k));
                }
                count++;
            }
        }
    }
    return (tw_result)count;
}

static bool is_visible(tw_bytes text) {
    size_t i;
    for (i = 0; i < text.len; i++) {
        if (text.data[i] < ' ' || text.data[i] > '~') {
            return false;
        }
    }
    return text.len > 0;
}

/* Removes the next field of a message, up to a comma, and checks and strips its name. */
static bool take_field(tw_bytes *message, char name, tw_bytes *field) {
    const uint8_t *comma = message->len == 0 ? NULL : (const uint8_t *)memchr(message->data, ',', message->len);
    size_t len = comma == NULL ? message->len : (size_t)(comma - message->data);
    if (len < 2 || message->data[0] != (uint8_t)name || message->data[1] != '=') {
        return false;
    }
    *field = tw_view(message->data + 2, len - 2);
    len += comma == NULL ? 0 : 1;
    *message = tw_view(message->data + len, message->len - len);
    return true;
}

/* Server messages are visible ASCII, which is all that a server needs. */
static tw_result check_message_of_server(tw_bytes message) {
    tw_bytes why;
    if (message.len > SCRAM_MESSAGE_MAX_BYTES || !is_visible(message)) {
        return TW_SCRAM_MALFORMED;
    }
    return take_field(&message, 'e', &why) ? TW_SCRAM_REFUSED : 0;
}

/* A number that does not fit becomes the largest, which is refused. */
static tw_result read_iterations(tw_bytes text, uint32_t *iterations) {
    size_t i;
    *iterations = 0;
    if (text.len == 0 || (text.len > 1 && text.data[0] == '0')) {
        return TW_SCRAM_MALFORMED;
    }
    for (i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return TW_SCRAM_MALFORMED;
        }
        *iterations = *iterations > 99999999u ? UINT32_MAX : *iterations * 10 + (uint32_t)(text.data[i] - '0');
    }
    return 0;
}

static size_t nonce_len(const tw_scram *scram) {
    return scram->nonce_bytes / 3u * 4u;
}

/* A message that is being written, or hashed if `state` is set. */
typedef struct scram_out {
    const tw_hash *hash;
    tw_hash_state *state;
    tw_memory to;
    size_t len;
} scram_out;

static void spell(scram_out *out, const void *bytes, size_t len) {
    if (out->state != NULL) {
        out->hash->update(out->state, (const uint8_t *)bytes, len);
    } else if (out->to.size >= len && out->len <= out->to.size - len) {
        memcpy(out->to.data + out->len, bytes, len);
    }
    out->len += len;
}

static tw_result written_len(const scram_out *out) {
    return out->len > out->to.size ? (tw_result)TW_BUFFER_TOO_SMALL : (tw_result)out->len;
}

/* The first message without its header. */
static void spell_bare(const tw_scram *scram, scram_out *out) {
    size_t i;
    spell(out, "n=", 2);
    for (i = 0; i < scram->user.len; i++) {
        const uint8_t *sign = scram->user.data + i;
        if (*sign == ',' || *sign == '=') {
            spell(out, *sign == ',' ? "=2C" : "=3D", 3);
        } else {
            spell(out, sign, 1);
        }
    }
    spell(out, ",r=", 3);
    spell(out, scram->nonce, nonce_len(scram));
}

static void spell_without_proof(scram_out *out, tw_bytes nonce) {
    spell(out, "c=biws,r=", 9);
    spell(out, nonce.data, nonce.len);
}

/* HMAC of AuthMessage. */
static void sign_exchange(const tw_scram *scram, const uint8_t *key, tw_bytes first, tw_bytes nonce, uint8_t *mac) {
    hmac_key prepared;
    tw_hash_state state;
    scram_out out;
    hmac_prepare(scram->hash, &prepared, key, scram->hash->digest_bytes);
    state = prepared.inner;
    memset(&out, 0, sizeof out);
    out.hash = scram->hash;
    out.state = &state;
    spell_bare(scram, &out);
    spell(&out, ",", 1);
    spell(&out, first.data, first.len);
    spell(&out, ",", 1);
    spell_without_proof(&out, nonce);
    hmac_finish(scram->hash, &prepared, &state, mac);
}

static tw_result scram_begin(void *context, tw_memory to) {
    tw_scram *scram = (tw_scram *)context;
    uint8_t random[TW_SCRAM_NONCE_MAX_BYTES];
    scram_out out;
    scram->step = SCRAM_NONE;
    if (!is_visible(scram->user) || !is_visible(scram->password) ||
        scram->random(scram->context, random, scram->nonce_bytes) < 0) {
        return TW_SCRAM_CREDENTIALS;
    }
    to_base64(random, scram->nonce_bytes, scram->nonce);
    memset(&out, 0, sizeof out);
    out.to = to;
    spell(&out, "n,,", 3);
    spell_bare(scram, &out);
    scram->step = SCRAM_BEGUN;
    return written_len(&out);
}

static tw_result scram_respond(void *context, tw_bytes first, tw_memory to) {
    tw_scram *scram = (tw_scram *)context;
    const tw_hash *hash = scram->hash;
    tw_bytes rest = first, nonce, salt_text, iterations_text;
    uint8_t salt[TW_SCRAM_SALT_MAX_BYTES], proof[64], text[88];
    tw_hash_state state;
    uint32_t iterations;
    tw_result salt_bytes, result = check_message_of_server(first);
    scram_out out;
    size_t i;
    bool is_due = scram->step == SCRAM_BEGUN;
    scram->step = SCRAM_NONE;
    if (result < 0) {
        return result;
    }
    /* A mandatory extension, m=..., would be in the place of the nonce. */
    if (!is_due || !take_field(&rest, 'r', &nonce) || !take_field(&rest, 's', &salt_text) ||
        !take_field(&rest, 'i', &iterations_text) || read_iterations(iterations_text, &iterations) < 0) {
        return TW_SCRAM_MALFORMED;
    }
    salt_bytes = from_base64(salt_text, salt, sizeof salt);
    if (salt_bytes <= 0 || (size_t)salt_bytes > sizeof salt) {
        return TW_SCRAM_MALFORMED;
    }
    if (nonce.len <= nonce_len(scram) || memcmp(nonce.data, scram->nonce, nonce_len(scram)) != 0) {
        return TW_SCRAM_NONCE;
    }
    if (iterations < TW_SCRAM_ITERATIONS_MIN || iterations > scram->iterations_max) {
        return TW_SCRAM_ITERATIONS;
    }
    if (iterations != scram->iterations || salt_bytes != scram->salt_bytes ||
        memcmp(salt, scram->salt, (size_t)salt_bytes) != 0) {
        memcpy(scram->salt, salt, (size_t)salt_bytes);
        scram->salt_bytes = (uint8_t)salt_bytes;
        scram->iterations = iterations;
        derive_keys(scram);
    }
    hash->begin(&state);
    hash->update(&state, scram->client_key, hash->digest_bytes);
    hash->finish(&state, proof);
    sign_exchange(scram, proof, first, nonce, proof);
    for (i = 0; i < hash->digest_bytes; i++) {
        proof[i] ^= scram->client_key[i];
    }
    sign_exchange(scram, scram->server_key, first, nonce, scram->signature);
    memset(&out, 0, sizeof out);
    out.to = to;
    spell_without_proof(&out, nonce);
    spell(&out, ",p=", 3);
    to_base64(proof, hash->digest_bytes, text);
    spell(&out, text, (hash->digest_bytes + 2u) / 3u * 4u);
    scram->step = SCRAM_PROVED;
    return written_len(&out);
}

static tw_result scram_finish(void *context, tw_bytes last) {
    tw_scram *scram = (tw_scram *)context;
    uint8_t signature[64], difference = 0;
    tw_bytes field;
    tw_result len, result;
    size_t i;
    /* Success before the proof proves nothing. */
    bool is_due = scram->step == SCRAM_PROVED;
    scram->step = SCRAM_NONE;
    if (!is_due || last.len == 0) {
        return TW_SCRAM_SERVER_SIGNATURE;
    }
    result = check_message_of_server(last);
    if (result < 0) {
        return result;
    }
    if (!take_field(&last, 'v', &field)) {
        return TW_SCRAM_MALFORMED;
    }
    len = from_base64(field, signature, sizeof signature);
    if (len < 0) {
        return len;
    }
    if (len != scram->hash->digest_bytes) {
        return TW_SCRAM_SERVER_SIGNATURE;
    }
    for (i = 0; i < scram->hash->digest_bytes; i++) {
        difference |= (uint8_t)(signature[i] ^ scram->signature[i]);
    }
    return difference == 0 ? 0 : TW_SCRAM_SERVER_SIGNATURE;
}

void tw_scram_init(tw_scram *scram, const tw_hash *hash, tw_bytes user, tw_bytes password, tw_random random, void *context) {
    memset(scram, 0, sizeof *scram);
    scram->hash = hash;
    scram->user = user;
    scram->password = password;
    scram->random = random;
    scram->context = context;
    scram->iterations_max = TW_SCRAM_ITERATIONS_MAX;
    scram->nonce_bytes = TW_SCRAM_NONCE_MAX_BYTES;
}

tw_authenticator tw_scram_authenticator(tw_scram *scram, tw_memory space) {
    tw_authenticator authenticator;
    authenticator.method = scram->hash->method;
    authenticator.begin = scram_begin;
    authenticator.respond = scram_respond;
    authenticator.finish = scram_finish;
    authenticator.context = scram;
    authenticator.space = space;
    return authenticator;
}
