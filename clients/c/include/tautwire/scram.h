/*
 * SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), for tw_client_config.authenticator: the client proves that it knows a
 * password without sending it, and the server has to prove that it knows it, too. Build with TW_SCRAM=256, or 512 for both.
 *
 * Names and passwords must be visible ASCII and spaces: others would have to be normalised (SASLprep, RFC 4013), which is not
 * done here. There is no channel binding.
 */

/** The minimum number of iterations (RFC 7677), and the maximum, unless `iterations_max` is set. */
#define TW_SCRAM_ITERATIONS_MIN 4096u
#define TW_SCRAM_ITERATIONS_MAX 100000u

#define TW_SCRAM_SALT_MAX_BYTES 64u
#define TW_SCRAM_NONCE_MAX_BYTES 18u

/** The state of an incremental hash. A hash of the platform may use it in any way, but it must be copyable. */
typedef struct tw_hash_state {
    uint64_t len;
    uint64_t words[8];
    uint8_t block[128];
} tw_hash_state;

/** A hash: tw_sha256, tw_sha512, or the same by a function of the platform. */
typedef struct tw_hash {
    /** The authentication method, such as "SCRAM-SHA-256". */
    const char *method;
    uint8_t digest_bytes, block_bytes;
    void (*begin)(tw_hash_state *state);
    void (*update)(tw_hash_state *state, const uint8_t *bytes, size_t len);
    void (*finish)(tw_hash_state *state, uint8_t *digest);
} tw_hash;

extern const tw_hash tw_sha256;
#if TW_SCRAM == 512
extern const tw_hash tw_sha512;
#endif

/** Fills `len` bytes at `to` with unpredictable bytes. Returns 0, or a negative value: the error is then
 * TW_SCRAM_CREDENTIALS. */
typedef tw_result (*tw_random)(void *context, uint8_t *to, size_t len);

/**
 * One user. It caches the keys derived from the password: as long as the server keeps its salt, only the first connection
 * computes the iterations. Initialise it with tw_scram_init(); afterwards you may change only `iterations_max`.
 */
typedef struct tw_scram {
    const tw_hash *hash;
    tw_bytes user, password;
    tw_random random;
    void *context;
    uint32_t iterations_max;
    uint32_t iterations;
    uint8_t salt_bytes, nonce_bytes, step;
    uint8_t salt[TW_SCRAM_SALT_MAX_BYTES];
    uint8_t client_key[64], server_key[64], signature[64];
    uint8_t nonce[TW_SCRAM_NONCE_MAX_BYTES / 3 * 4];
} tw_scram;

/** Initialises a user. Everything it points to must outlive it. */
void tw_scram_init(tw_scram *scram, const tw_hash *hash, tw_bytes user, tw_bytes password, tw_random random, void *context);

/**
 * Returns the authenticator of a user. `space` must have room for one message with the method and its length: 256 bytes are
 * enough for names of up to 100 bytes and servers with nonces of up to 64. Proving takes about 1 KB of stack, and the time of
 * the iterations.
 */
tw_authenticator tw_scram_authenticator(tw_scram *scram, tw_memory space);
