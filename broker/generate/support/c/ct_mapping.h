#ifndef CT_MAPPING_H
#define CT_MAPPING_H

#include "ct_payload.h"

/* Named values: JSON and MessagePack. JSON numbers are formatted and parsed with snprintf and
 * strtod, in the C locale. */

#ifdef __cplusplus
extern "C" {
#endif

/** A map or list while it is written. */
typedef struct ctm_opened {
    size_t start;
    size_t count;
} ctm_opened;

/** A map or list while it is read. */
typedef struct ctm_sequence {
    size_t left;
    bool is_first;
} ctm_sequence;

/** A name and a number of an enumeration. */
typedef struct ctm_name {
    const char *name;
    int32_t number;
} ctm_name;

ctm_opened ctm_open_map(ct_writer *w);
void ctm_put_key(ct_writer *w, ctm_opened *map, tw_bytes name);
void ctm_close_map(ct_writer *w, const ctm_opened *map);
ctm_opened ctm_open_list(ct_writer *w);
void ctm_put_item(ct_writer *w, ctm_opened *list);
void ctm_close_list(ct_writer *w, const ctm_opened *list);
/** A numeric key. */
void ctm_put_int_key(ct_writer *w, ctm_opened *map, int64_t key);
void ctm_put_uint_key(ct_writer *w, ctm_opened *map, uint64_t key);
void ctm_put_null(ct_writer *w);
void ctm_put_bool(ct_writer *w, bool value);
void ctm_put_int(ct_writer *w, int64_t value);
void ctm_put_uint(ct_writer *w, uint64_t value);
/** 64-bit numbers, which most JSON parsers cannot represent exactly. */
void ctm_put_wide_int(ct_writer *w, int64_t value);
void ctm_put_wide_uint(ct_writer *w, uint64_t value);
void ctm_put_float(ct_writer *w, float value);
void ctm_put_double(ct_writer *w, double value);
void ctm_put_string(ct_writer *w, tw_bytes value);
void ctm_put_bytes(ct_writer *w, tw_bytes value);
void ctm_put_timestamp(ct_writer *w, ct_timestamp value);
void ctm_put_duration(ct_writer *w, ct_duration value);
void ctm_put_raw(ct_writer *w, ct_raw value);
/** A value of an enumeration, by its name if it has one. */
void ctm_put_enum(ct_writer *w, int32_t number, const ctm_name *names, size_t count);

static inline void ctm_put_name(ct_writer *w, ctm_opened *map, const char *name) { ctm_put_key(w, map, tw_str(name)); }

ctm_sequence ctm_map(ct_reader *r);
/** The next key; false at the end of the map. */
bool ctm_key(ct_reader *r, ctm_sequence *map, tw_bytes *key);
ctm_sequence ctm_list(ct_reader *r);
/** Whether there is another item. */
bool ctm_item(ct_reader *r, ctm_sequence *list);
/** The number of remaining items or entries. */
size_t ctm_count(const ct_reader *r, ctm_sequence sequence, bool is_map);
/** Consumes a null, if one is next. */
bool ctm_null(ct_reader *r);
bool ctm_bool(ct_reader *r);
int32_t ctm_int32(ct_reader *r);
int64_t ctm_int64(ct_reader *r);
uint32_t ctm_uint32(ct_reader *r);
uint64_t ctm_uint64(ct_reader *r);
float ctm_float(ct_reader *r);
double ctm_double(ct_reader *r);
tw_bytes ctm_string(ct_reader *r);
tw_bytes ctm_bytes(ct_reader *r);
ct_timestamp ctm_timestamp(ct_reader *r);
ct_duration ctm_duration(ct_reader *r);
ct_raw ctm_raw(ct_reader *r);
/** A value of an enumeration, by name or by number; only by name if `is_closed`. */
int32_t ctm_enum(ct_reader *r, const ctm_name *names, size_t count, bool is_closed);
/** Numeric keys. */
int64_t ctm_int_key(ct_reader *r, tw_bytes key, int64_t least, int64_t most);
uint64_t ctm_uint_key(ct_reader *r, tw_bytes key, uint64_t most);
bool ctm_bool_key(ct_reader *r, tw_bytes key);
/** Parse an RFC 3339 timestamp, or a duration such as `1.5s`; false for other texts. */
bool ctm_parse_timestamp(tw_bytes text, ct_timestamp *time);
bool ctm_parse_duration(tw_bytes text, ct_duration *duration);
void ctm_skip(ct_reader *r);
/** Checks that the payload ends here. */
void ctm_end(ct_reader *r);

#ifdef __cplusplus
}
#endif

#endif
