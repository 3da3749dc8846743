#ifndef CT_PAYLOAD_H
#define CT_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tautwire.h"

/* Functions shared by all payload formats. */

#ifdef __cplusplus
extern "C" {
#endif

/** Return values in addition to those of tw_error. */
typedef enum ct_error {
    /** The payload does not match its contract. */
    CT_PAYLOAD_INVALID = -1000,
    /** The scratch memory is too small for the lists of the payload: provide more. */
    CT_SCRATCH_FULL = -1001,
    /** The message is not on a topic of this contract. */
    CT_OTHER_TOPIC = -1002,
    /** The broker could not transcode the payload to the requested format. */
    CT_NOT_TRANSCODED = -1003
} ct_error;

/** Maximum nesting of values. */
#define CT_DEPTH_MAX 100

/** A timestamp: seconds since 1970-01-01T00:00:00Z, and 0 to 999,999,999 nanoseconds. */
typedef struct ct_timestamp {
    int64_t seconds;
    int32_t nanos;
} ct_timestamp;

/** A duration; both numbers have the same sign. */
typedef struct ct_duration {
    int64_t seconds;
    int32_t nanos;
} ct_duration;

/** An untyped value in the encoding of its format. Empty means null. */
typedef tw_bytes ct_raw;

/** The destination of encoded values. After an error nothing more is written. */
typedef struct ct_writer {
    uint8_t *data;
    size_t size;
    size_t len;
    bool is_full;
    bool is_json;
} ct_writer;

/** The source of encoded values, and the memory for lists. After an error all values are zero. */
typedef struct ct_reader {
    const uint8_t *data;
    size_t at, end;
    uint8_t *scratch;
    size_t scratch_size, scratch_used;
    unsigned depth;
    bool is_json;
    /** 0, or an error. */
    tw_result error;
} ct_reader;

ct_writer ct_writer_on(tw_memory out, bool is_json);
/** The number of bytes written, or TW_BUFFER_TOO_SMALL. */
tw_result ct_finish(const ct_writer *writer);
void ct_put(ct_writer *writer, const void *bytes, size_t count);
void ct_put_byte(ct_writer *writer, uint8_t byte);
/** Inserts bytes before those written since `at`. */
void ct_insert(ct_writer *writer, size_t at, const uint8_t *bytes, size_t count);

ct_reader ct_reader_on(tw_bytes payload, tw_memory scratch, bool is_json);
void ct_fail(ct_reader *reader, tw_result error);
/** Memory for `count` zeroed items. NULL after an error, and for 0 items. */
void *ct_alloc(ct_reader *reader, size_t count, size_t size);
/** Memory for `count` more items than the existing `had`. */
void *ct_grow(ct_reader *reader, const void *old, size_t had, size_t count, size_t size);

bool ct_is_utf8(const uint8_t *text, size_t len);
bool ct_same(tw_bytes bytes, const char *text);
/** The bits of a number, in which minus zero differs from zero. */
uint64_t ct_double_bits(double value);
uint32_t ct_float_bits(float value);

/* Topics. */

/** Adds a fixed part of a topic, or one that must be a level (or, with `rest`, the last levels);
 * false if it is not valid. */
bool ct_put_level(ct_writer *writer, tw_bytes level, bool rest);
/** Takes the first level of `rest`; false if there is none. `rest->data` is NULL after the last
 * one. */
bool ct_next_level(tw_bytes *rest, tw_bytes *level);

/** Like tw_client_publish(), with a content type, which only MQTT 5.0 supports. */
tw_result ct_publish(tw_client *client, tw_publish *message, const char *content_type, bool is_text, uint16_t *packet_id);
/** Like tw_client_subscribe(); `accept`, if not NULL, is the content type that payloads should
 * have. */
tw_result ct_subscribe(tw_client *client, const char *filter, tw_qos qos, const char *accept, uint16_t *packet_id);
/** Whether the message reports that it could not be transcoded. */
bool ct_is_not_transcoded(const tw_publish *message);

#ifdef __cplusplus
}
#endif

#endif
