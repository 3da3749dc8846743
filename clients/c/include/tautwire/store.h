/* Where a client keeps what must outlive the process: flash, EEPROM, a file, anything that takes records in order. */

/** Each record has a head of this size, and a body that may be empty. What they mean is the client's affair. */
#define TW_STORE_HEAD_BYTES 8u

/**
 * A log of records. The client appends one for each change that must outlive the process, and at the next start it reads them
 * back in the same order. What is read after a loss of power is what was appended, from the first record on and without a gap:
 * every record that had to last, and of the others as many as the medium has kept.
 *
 * A store belongs to one session: one client identifier at one server. All functions must be there. They are called from
 * tw_client_init(), tw_client_next(), tw_client_publish() and tw_client_disconnect(), which take as long as the medium does.
 */
typedef struct tw_store {
    /**
     * Takes the next record, only during tw_client_init(). Answers the length of its body; TW_INCOMPLETE behind the last record;
     * TW_BUFFER_TOO_SMALL if `body` does not hold it; TW_STORE_FAILED if the medium cannot be read.
     */
    tw_result (*read)(void *context, uint8_t *head, tw_memory body);
    /**
     * Adds a record. With `must_last` it is safe when the function returns; without, it may become safe with a later one.
     * Answers 0, or an error if there is no room or the medium has failed. The client then begins anew (see `begin`) and tries
     * once more.
     */
    tw_result (*append)(void *context, const uint8_t *head, tw_bytes body, bool must_last);
    /**
     * Begins anew, elsewhere: the records that are appended from now on will take the place of all others. Until `commit` the
     * others count. A second `begin` without a `commit` drops what was appended since the first.
     */
    tw_result (*begin)(void *context);
    /** From now on the records since `begin` count, and no others. Either this has happened when power is lost, or nothing has. */
    tw_result (*commit)(void *context);
    void *context;
    /**
     * How many bytes of messages may be kept at a time, `record_bytes` for each of them included. The rest of the medium is
     * for the records of their exchanges: the more of it there is, the more rarely the client begins anew. Half of the medium
     * is a good share.
     */
    size_t capacity_bytes;
    /** What a record takes besides its body, at most. */
    size_t record_bytes;
} tw_store;
