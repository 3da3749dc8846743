/* The shared vectors (spec/vectors) as a table, written by vector_table.py. */
#ifndef VECTORS_H
#define VECTORS_H

#include "tautwire.h"

/* Bytes of the pool, repeated. */
typedef struct blob_part {
    uint32_t at;
    uint32_t len;
    uint32_t count;
} blob_part;

typedef struct blob {
    const blob_part *parts;
    size_t count;
    bool is_there;
} blob;

typedef struct vector_property {
    tw_property_id id;
    uint32_t number;
    blob name;
    blob text;
} vector_property;

typedef struct vector_request {
    blob filter;
    int qos;
    bool no_local;
    bool retain_as_published;
    int retain_handling;
} vector_request;

/* The fields of all packet types, and of a will (type 0). */
typedef struct vector_packet {
    int type;
    uint16_t packet_id;
    int reason;
    int qos;
    uint16_t keep_alive_s;
    bool clean_start, session_present, dup, retain;
    blob topic, payload, client_id, user_name, password, reasons;
    const vector_property *properties;
    size_t property_count;
    const vector_request *requests;
    size_t request_count;
    const struct vector_packet *will;
} vector_packet;

typedef struct vector {
    const char *id;
    tw_version version;
    blob input;
    blob rest;
    uint32_t max_packet_bytes;
    tw_fault_class verdict;
    int reason;
    bool encode;
    const vector_packet *packet;
} vector;

typedef struct topic_vector {
    const char *id;
    blob text;
    blob topic;
    bool answer;
    /** The code of the error, "ok" if there is none. */
    const char *cause;
} topic_vector;

extern const uint8_t VECTOR_POOL[];
extern const vector *const PACKET_VECTORS;
extern const size_t PACKET_VECTOR_COUNT;
extern const topic_vector *const NAME_VECTORS;
extern const size_t NAME_VECTOR_COUNT;
extern const topic_vector *const FILTER_VECTORS;
extern const size_t FILTER_VECTOR_COUNT;
extern const topic_vector *const MATCHING_VECTORS;
extern const size_t MATCHING_VECTOR_COUNT;

#endif
