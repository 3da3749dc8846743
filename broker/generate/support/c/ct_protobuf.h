#ifndef CT_PROTOBUF_H
#define CT_PROTOBUF_H

#include "ct_payload.h"

/* The binary form of Protocol Buffers. */

#ifdef __cplusplus
extern "C" {
#endif

void ctp_put_uint64(ct_writer *w, uint64_t value);
void ctp_put_sint64(ct_writer *w, int64_t value);
void ctp_put_sint32(ct_writer *w, int32_t value);
void ctp_put_fixed32(ct_writer *w, uint32_t value);
void ctp_put_fixed64(ct_writer *w, uint64_t value);
void ctp_put_bytes(ct_writer *w, tw_bytes value);
void ctp_put_time(ct_writer *w, int64_t seconds, int32_t nanos);
/** Begin and end a length-delimited value. */
size_t ctp_open(ct_writer *w);
void ctp_close(ct_writer *w, size_t start);

static inline void ctp_put_tag(ct_writer *w, uint32_t tag) { ctp_put_uint64(w, tag); }
static inline void ctp_put_uint32(ct_writer *w, uint32_t value) { ctp_put_uint64(w, value); }
static inline void ctp_put_int64(ct_writer *w, int64_t value) { ctp_put_uint64(w, (uint64_t)value); }
static inline void ctp_put_int32(ct_writer *w, int32_t value) { ctp_put_int64(w, value); }
static inline void ctp_put_bool(ct_writer *w, bool value) { ctp_put_uint64(w, value ? 1 : 0); }
static inline void ctp_put_sfixed32(ct_writer *w, int32_t value) { ctp_put_fixed32(w, (uint32_t)value); }
static inline void ctp_put_sfixed64(ct_writer *w, int64_t value) { ctp_put_fixed64(w, (uint64_t)value); }
static inline void ctp_put_float(ct_writer *w, float value) { ctp_put_fixed32(w, ct_float_bits(value)); }
static inline void ctp_put_double(ct_writer *w, double value) { ctp_put_fixed64(w, ct_double_bits(value)); }
static inline void ctp_put_string(ct_writer *w, tw_bytes value) { ctp_put_bytes(w, value); }
static inline void ctp_put_timestamp(ct_writer *w, ct_timestamp value) { ctp_put_time(w, value.seconds, value.nanos); }
static inline void ctp_put_duration(ct_writer *w, ct_duration value) { ctp_put_time(w, value.seconds, value.nanos); }

/** Number and wire type of the next value; 0 at the end. */
uint32_t ctp_tag(ct_reader *r);
/** Skips the value of an unknown field. A field of `numbers` has a wrong wire type, which is an
 * error. */
void ctp_unknown(ct_reader *r, uint32_t tag, const uint32_t *numbers, size_t count);
void ctp_skip(ct_reader *r, uint32_t tag);
uint64_t ctp_uint64(ct_reader *r);
int64_t ctp_sint64(ct_reader *r);
int32_t ctp_sint32(ct_reader *r);
uint32_t ctp_fixed32(ct_reader *r);
uint64_t ctp_fixed64(ct_reader *r);
float ctp_float(ct_reader *r);
double ctp_double(ct_reader *r);
tw_bytes ctp_bytes(ct_reader *r);
tw_bytes ctp_string(ct_reader *r);
ct_timestamp ctp_timestamp(ct_reader *r);
ct_duration ctp_duration(ct_reader *r);
/** Enters a length-delimited value. Pass the result to ctp_leave(). */
size_t ctp_enter(ct_reader *r);
void ctp_leave(ct_reader *r, size_t outer);
/** The number of items in the next packed list, which is skipped. `size`: bytes of each item, 0
 * for variable-length numbers. */
size_t ctp_count_packed(ct_reader *r, size_t size);

static inline uint32_t ctp_uint32(ct_reader *r) { return (uint32_t)ctp_uint64(r); }
static inline int64_t ctp_int64(ct_reader *r) { return (int64_t)ctp_uint64(r); }
static inline int32_t ctp_int32(ct_reader *r) { return (int32_t)(uint32_t)ctp_uint64(r); }
static inline bool ctp_bool(ct_reader *r) { return ctp_uint64(r) != 0; }
static inline int32_t ctp_sfixed32(ct_reader *r) { return (int32_t)ctp_fixed32(r); }
static inline int64_t ctp_sfixed64(ct_reader *r) { return (int64_t)ctp_fixed64(r); }
/** Whether a packed list has more items. */
static inline bool ctp_more(const ct_reader *r) { return r->at < r->end; }

#ifdef __cplusplus
}
#endif

#endif
