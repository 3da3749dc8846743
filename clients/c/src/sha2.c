/* SHA-256 and SHA-512 (FIPS 180-4), small rather than fast. The constants of SHA-256 are the upper halves of those of
   SHA-512. */

#if TW_SCRAM == 512
typedef uint64_t tw_constant;
#define W(high, low) ((uint64_t)high << 32 | low)
#define UPPER(constant) ((uint32_t)((constant) >> 32))
#else
typedef uint32_t tw_constant;
#define W(high, low) high
#define UPPER(constant) (constant)
#endif

static const tw_constant SHA2_ROUNDS[] = {
    W(0x428A2F98, 0xD728AE22), W(0x71374491, 0x23EF65CD), W(0xB5C0FBCF, 0xEC4D3B2F), W(0xE9B5DBA5, 0x8189DBBC),
    W(0x3956C25B, 0xF348B538), W(0x59F111F1, 0xB605D019), W(0x923F82A4, 0xAF194F9B), W(0xAB1C5ED5, 0xDA6D8118),
    W(0xD807AA98, 0xA3030242), W(0x12835B01, 0x45706FBE), W(0x243185BE, 0x4EE4B28C), W(0x550C7DC3, 0xD5FFB4E2),
    W(0x72BE5D74, 0xF27B896F), W(0x80DEB1FE, 0x3B1696B1), W(0x9BDC06A7, 0x25C71235), W(0xC19BF174, 0xCF692694),
    W(0xE49B69C1, 0x9EF14AD2), W(0xEFBE4786, 0x384F25E3), W(0x0FC19DC6, 0x8B8CD5B5), W(0x240CA1CC, 0x77AC9C65),
    W(0x2DE92C6F, 0x592B0275), W(0x4A7484AA, 0x6EA6E483), W(0x5CB0A9DC, 0xBD41FBD4), W(0x76F988DA, 0x831153B5),
    W(0x983E5152, 0xEE66DFAB), W(0xA831C66D, 0x2DB43210), W(0xB00327C8, 0x98FB213F), W(0xBF597FC7, 0xBEEF0EE4),
    W(0xC6E00BF3, 0x3DA88FC2), W(0xD5A79147, 0x930AA725), W(0x06CA6351, 0xE003826F), W(0x14292967, 0x0A0E6E70),
    W(0x27B70A85, 0x46D22FFC), W(0x2E1B2138, 0x5C26C926), W(0x4D2C6DFC, 0x5AC42AED), W(0x53380D13, 0x9D95B3DF),
    W(0x650A7354, 0x8BAF63DE), W(0x766A0ABB, 0x3C77B2A8), W(0x81C2C92E, 0x47EDAEE6), W(0x92722C85, 0x1482353B),
    W(0xA2BFE8A1, 0x4CF10364), W(0xA81A664B, 0xBC423001), W(0xC24B8B70, 0xD0F89791), W(0xC76C51A3, 0x0654BE30),
    W(0xD192E819, 0xD6EF5218), W(0xD6990624, 0x5565A910), W(0xF40E3585, 0x5771202A), W(0x106AA070, 0x32BBD1B8),
    W(0x19A4C116, 0xB8D2D0C8), W(0x1E376C08, 0x5141AB53), W(0x2748774C, 0xDF8EEB99), W(0x34B0BCB5, 0xE19B48A8),
    W(0x391C0CB3, 0xC5C95A63), W(0x4ED8AA4A, 0xE3418ACB), W(0x5B9CCA4F, 0x7763E373), W(0x682E6FF3, 0xD6B2B8A3),
    W(0x748F82EE, 0x5DEFB2FC), W(0x78A5636F, 0x43172F60), W(0x84C87814, 0xA1F0AB72), W(0x8CC70208, 0x1A6439EC),
    W(0x90BEFFFA, 0x23631E28), W(0xA4506CEB, 0xDE82BDE9), W(0xBEF9A3F7, 0xB2C67915), W(0xC67178F2, 0xE372532B),
#if TW_SCRAM == 512
    W(0xCA273ECE, 0xEA26619C), W(0xD186B8C7, 0x21C0C207), W(0xEADA7DD6, 0xCDE0EB1E), W(0xF57D4F7F, 0xEE6ED178),
    W(0x06F067AA, 0x72176FBA), W(0x0A637DC5, 0xA2C898A6), W(0x113F9804, 0xBEF90DAE), W(0x1B710B35, 0x131C471B),
    W(0x28DB77F5, 0x23047D84), W(0x32CAAB7B, 0x40C72493), W(0x3C9EBE0A, 0x15C9BEBC), W(0x431D67C4, 0x9C100D4C),
    W(0x4CC5D4BE, 0xCB3E42B6), W(0x597F299C, 0xFC657E2A), W(0x5FCB6FAB, 0x3AD6FAEC), W(0x6C44198C, 0x4A475817),
#endif
};

static const tw_constant SHA2_BEGIN[8] = {
    W(0x6A09E667, 0xF3BCC908), W(0xBB67AE85, 0x84CAA73B), W(0x3C6EF372, 0xFE94F82B), W(0xA54FF53A, 0x5F1D36F1),
    W(0x510E527F, 0xADE682D1), W(0x9B05688C, 0x2B3E6C1F), W(0x1F83D9AB, 0xFB41BD6B), W(0x5BE0CD19, 0x137E2179),
};

static uint32_t turned_32(uint32_t word, unsigned bits) {
    return word >> bits | word << (32 - bits);
}

static void sha256_block(uint64_t *words, const uint8_t *block) {
    uint32_t w[16], v[8];
    unsigned i;
    for (i = 0; i < 8; i++) {
        v[i] = (uint32_t)words[i];
    }
    for (i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4], first, second;
        if (i < 16) {
            w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
                   block[4 * i + 3];
        } else {
            uint32_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i & 15] += (turned_32(x, 7) ^ turned_32(x, 18) ^ x >> 3) + w[(i + 9) & 15] +
                         (turned_32(y, 17) ^ turned_32(y, 19) ^ y >> 10);
        }
        first = v[7] + (turned_32(e, 6) ^ turned_32(e, 11) ^ turned_32(e, 25)) + ((e & v[5]) ^ (~e & v[6])) +
                UPPER(SHA2_ROUNDS[i]) + w[i & 15];
        second = (turned_32(a, 2) ^ turned_32(a, 13) ^ turned_32(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[0] = first + second;
        v[4] += first;
    }
    for (i = 0; i < 8; i++) {
        words[i] = (uint32_t)words[i] + v[i];
    }
}

#if TW_SCRAM == 512
static uint64_t turned_64(uint64_t word, unsigned bits) {
    return word >> bits | word << (64 - bits);
}

static void sha512_block(uint64_t *words, const uint8_t *block) {
    uint64_t w[16], v[8];
    unsigned i, k;
    memcpy(v, words, sizeof v);
    for (i = 0; i < 80; i++) {
        uint64_t a = v[0], e = v[4], first, second;
        if (i < 16) {
            w[i] = 0;
            for (k = 0; k < 8; k++) {
                w[i] = w[i] << 8 | block[8 * i + k];
            }
        } else {
            uint64_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i & 15] += (turned_64(x, 1) ^ turned_64(x, 8) ^ x >> 7) + w[(i + 9) & 15] +
                         (turned_64(y, 19) ^ turned_64(y, 61) ^ y >> 6);
        }
        first = v[7] + (turned_64(e, 14) ^ turned_64(e, 18) ^ turned_64(e, 41)) + ((e & v[5]) ^ (~e & v[6])) +
                SHA2_ROUNDS[i] + w[i & 15];
        second = (turned_64(a, 28) ^ turned_64(a, 34) ^ turned_64(a, 39)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[0] = first + second;
        v[4] += first;
    }
    for (i = 0; i < 8; i++) {
        words[i] += v[i];
    }
}
#endif

static void sha2_update(tw_hash_state *state, const uint8_t *bytes, size_t len, size_t block_bytes,
                        void (*compress)(uint64_t *words, const uint8_t *block)) {
    size_t filled = (size_t)state->len & (block_bytes - 1);
    state->len += len;
    while (len > 0) {
        size_t part = block_bytes - filled < len ? block_bytes - filled : len;
        memcpy(state->block + filled, bytes, part);
        filled += part;
        bytes += part;
        len -= part;
        if (filled == block_bytes) {
            compress(state->words, state->block);
            filled = 0;
        }
    }
}

/* One bit, zeros, and the length in bits at the end of a block. The upper half of SHA-512's length is always 0. */
static void sha2_finish(tw_hash_state *state, uint8_t *digest, const tw_hash *hash) {
    static const uint8_t PADDING[2] = {0x80, 0};
    size_t length_at = hash->block_bytes - 8u, word_bytes = hash->digest_bytes / 8u, i;
    uint64_t bits = state->len * 8;
    uint8_t end[8];
    hash->update(state, PADDING, 1);
    if (((size_t)state->len & (hash->block_bytes - 1u)) > hash->block_bytes - 2 * word_bytes) {
        while (((size_t)state->len & (hash->block_bytes - 1u)) != 0) {
            hash->update(state, PADDING + 1, 1);
        }
    }
    while (((size_t)state->len & (hash->block_bytes - 1u)) != length_at) {
        hash->update(state, PADDING + 1, 1);
    }
    for (i = 0; i < 8; i++) {
        end[i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    hash->update(state, end, 8);
    for (i = 0; i < hash->digest_bytes; i++) {
        digest[i] = (uint8_t)(state->words[i / word_bytes] >> (8 * (word_bytes - 1 - i % word_bytes)));
    }
}

static void sha256_begin(tw_hash_state *state) {
    unsigned i;
    state->len = 0;
    for (i = 0; i < 8; i++) {
        state->words[i] = UPPER(SHA2_BEGIN[i]);
    }
}

static void sha256_update(tw_hash_state *state, const uint8_t *bytes, size_t len) {
    sha2_update(state, bytes, len, 64, sha256_block);
}

static void sha256_finish(tw_hash_state *state, uint8_t *digest) {
    sha2_finish(state, digest, &tw_sha256);
}

const tw_hash tw_sha256 = {"SCRAM-SHA-256", 32, 64, sha256_begin, sha256_update, sha256_finish};

#if TW_SCRAM == 512
static void sha512_begin(tw_hash_state *state) {
    state->len = 0;
    memcpy(state->words, SHA2_BEGIN, sizeof SHA2_BEGIN);
}

static void sha512_update(tw_hash_state *state, const uint8_t *bytes, size_t len) {
    sha2_update(state, bytes, len, 128, sha512_block);
}

static void sha512_finish(tw_hash_state *state, uint8_t *digest) {
    sha2_finish(state, digest, &tw_sha512);
}

const tw_hash tw_sha512 = {"SCRAM-SHA-512", 64, 128, sha512_begin, sha512_update, sha512_finish};
#endif

#undef W
#undef UPPER
