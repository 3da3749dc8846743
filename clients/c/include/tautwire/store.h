/* The persistent storage of a client: flash, EEPROM, a file, anything that accepts records in order. */

/** Each record has a head of this size, and a body that may be empty. Only the client interprets them. */
#define TW_STORE_HEAD_BYTES 8u

/**
 * A log of records. The client appends one for each change that must outlive the process, and at the next start it reads them back
 * in the same order. After a power failure, reading returns the appended records from the first one on and without a gap: every
 * record with `must_last`, and of the later ones as many as the medium has saved.
 *
 * A store belongs to one session: one client identifier at one server. All functions are mandatory. They are called from
 * tw_client_init(), tw_client_next(), tw_client_publish() and tw_client_disconnect(), which take as long as the medium does.
 */
typedef struct tw_store {
    /**
     * Reads the next record, only during tw_client_init(). Returns the length of its body; TW_INCOMPLETE after the last record;
     * TW_BUFFER_TOO_SMALL if `body` is too small; TW_STORE_FAILED if the medium cannot be read.
     */
    tw_result (*read)(void *context, uint8_t *head, tw_memory body);
    /**
     * Appends a record. With `must_last` it is persistent when the function returns; without, it may become persistent with a
     * later one. Returns 0, or an error if there is no room or the medium has failed. The client then starts again (see `begin`)
     * and tries once more.
     */
    tw_result (*append)(void *context, const uint8_t *head, tw_bytes body, bool must_last);
    /**
     * Starts a new log elsewhere: the records appended from now on will replace all others. Until `commit` the others remain
     * valid. A second `begin` without a `commit` drops what was appended since the first.
     */
    tw_result (*begin)(void *context);
    /** Makes the records since `begin` the only valid ones. After a power failure this has happened either completely or not at
     * all. */
    tw_result (*commit)(void *context);
    void *context;
    /**
     * The maximum number of message bytes in the log, including `record_bytes` for each. The rest of the medium is for the records
     * of their exchanges: the more there is, the more rarely the client starts a new log. Half of the medium is a good share.
     */
    size_t capacity_bytes;
    /** The maximum overhead of a record besides its body. */
    size_t record_bytes;
} tw_store;
