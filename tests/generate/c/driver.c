/* The driver of the generated C: `driver encode`, `driver decode`, or `driver run HOST PORT`. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contracts.h"

#define TEXT(literal) {(const uint8_t *)(literal), sizeof(literal) - 1}
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define WAIT_MS 10000

static uint8_t scratch_memory[65536], work_memory[8192];

static tw_memory scratch(void) {
    return tw_lend(scratch_memory, sizeof scratch_memory);
}

/* The values that all drivers encode. The bytes are the same in every language. */

#define LONG_PART "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define LONG LONG_PART LONG_PART LONG_PART LONG_PART

static const uint8_t some_bytes[] = {0, 255, 16};
static const tw_bytes texts[] = {TEXT("a"), TEXT(""), TEXT("\303\274")};
static const int32_t numbers[] = {1, -1, 300};
static const double doubles[] = {0.5, -0.25};
static const int64_t loose[] = {-1, 1};
static const ct_timestamp moments[] = {{0, 0}, {253402300799, 999999999}};

/* Two schemas have the same fields, and types of the same shape. */
#define FILL(value, prefix, unit_prefix)                                                                              \
    static const prefix##_part value##_small[] = {{.name = TEXT("bolt")}, {.name = TEXT("nut")}};                     \
    static const prefix##_part value##_spare = {.name = TEXT("\303\251\"\n")};                                        \
    static const prefix##_part value##_part = {                                                                       \
        .name = TEXT(LONG), .parts = value##_small, .parts_count = 2, .spare = &value##_spare};                       \
    static const prefix##_part value##_parts[] = {{.parts_count = 0}, {.name = TEXT("p")}};                           \
    static const prefix##_part value##_two = {.name = TEXT("two")}, value##_none = {.parts_count = 0};                \
    static const prefix##_part value##_new = {.name = TEXT("new")};                                                   \
    static const unit_prefix value##_units[] = {2, 9};                                                                \
    static const prefix##_counts_entry value##_counts[] = {{TEXT("a"), 1}, {TEXT("b"), -2}};                          \
    static const prefix##_parts_by_number_entry value##_numbered[] = {{2, &value##_two}, {5, &value##_none}};         \
    static const prefix##_by_bool_entry value##_by_bool[] = {{false, TEXT("no")}, {true, TEXT("yes")}};               \
    static const prefix##_units_by_number_entry value##_unit_numbers[] = {{5, 1}};                                    \
    static void value##_fill(prefix *m) {                                                                             \
        memset(m, 0, sizeof *m);                                                                                      \
        m->plant_id = tw_str("7");                                                                                    \
        m->a_double = 21.5;                                                                                           \
        m->a_float = 0.1f;                                                                                            \
        m->an_int32 = -5;                                                                                             \
        m->an_int64 = -9007199254740993;                                                                              \
        m->a_uint32 = UINT32_MAX;                                                                                     \
        m->a_uint64 = UINT64_MAX;                                                                                     \
        m->a_sint32 = -1;                                                                                             \
        m->a_sint64 = -1099511627776;                                                                                 \
        m->a_fixed32 = 1;                                                                                             \
        m->a_fixed64 = 2;                                                                                             \
        m->a_sfixed32 = -3;                                                                                           \
        m->a_sfixed64 = -4;                                                                                           \
        m->a_bool = true;                                                                                             \
        m->some_bytes = tw_view(some_bytes, sizeof some_bytes);                                                       \
        m->unit = 1;                                                                                                  \
        m->has_maybe_int32 = m->has_maybe_text = m->has_maybe_unit = true;                                            \
        m->maybe_unit = -3;                                                                                           \
        m->part = &value##_part;                                                                                      \
        m->texts = texts;                                                                                             \
        m->texts_count = COUNT(texts);                                                                                \
        m->numbers = numbers;                                                                                         \
        m->numbers_count = COUNT(numbers);                                                                            \
        m->doubles = doubles;                                                                                         \
        m->doubles_count = COUNT(doubles);                                                                            \
        m->loose = loose;                                                                                             \
        m->loose_count = COUNT(loose);                                                                                \
        m->units = value##_units;                                                                                     \
        m->units_count = 2;                                                                                           \
        m->parts = value##_parts;                                                                                     \
        m->parts_count = 2;                                                                                           \
        m->counts = value##_counts;                                                                                   \
        m->counts_count = 2;                                                                                          \
        m->parts_by_number = value##_numbered;                                                                        \
        m->parts_by_number_count = 2;                                                                                 \
        m->by_bool = value##_by_bool;                                                                                 \
        m->by_bool_count = 2;                                                                                         \
        m->units_by_number = value##_unit_numbers;                                                                    \
        m->units_by_number_count = 1;                                                                                 \
        m->has_at = m->has_took = true;                                                                               \
        m->at.seconds = 1700000000;                                                                                   \
        m->at.nanos = 123456789;                                                                                      \
        m->took.seconds = -1;                                                                                         \
        m->took.nanos = -500000000;                                                                                   \
        m->moments = moments;                                                                                         \
        m->moments_count = COUNT(moments);                                                                            \
        m->type = tw_str("t");                                                                                        \
        m->has_type = tw_str("c");                                                                                    \
        m->result.replacement = &value##_new;                                                                         \
    }

FILL(everything, contracts_everything, contracts_unit)
FILL(mapped, contracts_mapped, contracts_acme_mapped_unit)

static const contracts_string_value wrapped = {TEXT("w")};
static const contracts_value truth = {
    .kind_case = CONTRACTS_VALUE_KIND_BOOL_VALUE, .kind = {.bool_value = true}};
static const contracts_struct_fields_entry extra_fields[] = {{TEXT("k"), &truth}};
static const contracts_struct extra = {.fields = extra_fields, .fields_count = 1};

static contracts_everything everything(void) {
    contracts_everything m;
    everything_fill(&m);
    m.wrapped = &wrapped;
    m.extra = &extra;
    m.result_case = CONTRACTS_EVERYTHING_RESULT_REPLACEMENT;
    return m;
}

static contracts_mapped mapped(bool is_text) {
    static const contracts_mapped_extra_entry text[] = {{TEXT("k"), TEXT("true")}}, packed[] = {{TEXT("k"), TEXT("\303")}};
    contracts_mapped m;
    mapped_fill(&m);
    m.has_wrapped = true;
    m.wrapped = tw_str("w");
    m.extra = is_text ? text : packed;
    m.extra_count = 1;
    m.result_case = CONTRACTS_MAPPED_RESULT_REPLACEMENT;
    return m;
}

static contracts_old old(void) {
    static const contracts_level levels[] = {CONTRACTS_LEVEL_LOW, CONTRACTS_LEVEL_HIGH};
    static const int32_t numbers_of_old[] = {-1, 128};
    static const contracts_inner inner = {.has_data = true, .data = TEXT("\1")};
    static const contracts_old_by_name_entry by_name[] = {{TEXT("l"), CONTRACTS_LEVEL_LOW}};
    contracts_old m;
    memset(&m, 0, sizeof m);
    m.level = CONTRACTS_LEVEL_HIGH;
    m.has_count = true;
    m.levels = levels;
    m.levels_count = 2;
    m.loose = numbers_of_old;
    m.loose_count = 2;
    m.inner = &inner;
    m.by_name = by_name;
    m.by_name_count = 1;
    return m;
}

static contracts_lamp lamp(bool is_text) {
    static const ct_raw text_pair[] = {TEXT("\"x\""), TEXT("1")}, packed_pair[] = {TEXT("\241x"), TEXT("\1")};
    static const ct_raw text_grid[] = {TEXT("[1,2.5]"), TEXT("[3]")};
    static const ct_raw packed_grid[] = {TEXT("\222\1\313\100\4\0\0\0\0\0\0"), TEXT("\221\3")};
    static const contracts_scene night = {.name = TEXT("night\1\\")}, dawn = {.name = TEXT("dawn")};
    static const contracts_scene text_scenes[] = {
        {.name = TEXT("dusk"), .after = &night, .has_pair = true, .pair = text_pair, .pair_count = 2}};
    static const contracts_scene packed_scenes[] = {
        {.name = TEXT("dusk"), .after = &night, .has_pair = true, .pair = packed_pair, .pair_count = 2}};
    static const contracts_lamp_tags_entry tags[] = {{TEXT("floor"), TEXT("1")}};
    contracts_lamp m;
    memset(&m, 0, sizeof m);
    m.on = m.has_brightness = m.has_warmth = m.has_colour = true;
    m.brightness = 80;
    m.warmth = 2700.5;
    m.colour = tw_str("#ffaa00");
    m.mode = CONTRACTS_LAMP_MODE_BY_HAND;
    m.has_scenes = m.has_grid = m.has_tags = m.has_anything = true;
    m.scenes = is_text ? text_scenes : packed_scenes;
    m.scenes_count = 1;
    m.grid = is_text ? text_grid : packed_grid;
    m.grid_count = 2;
    m.tags = tags;
    m.tags_count = 1;
    m.anything = is_text ? tw_str("{\"deep\":[1,null]}") : tw_view("\201\244deep\222\1\300", 9);
    m.first_scene = &dawn;
    m.type = CONTRACTS_LAMP_TYPE_LAMP;
    return m;
}

static contracts_samples samples(void) {
    static const double values[] = {0.5, -7, 1e300};
    contracts_samples m;
    memset(&m, 0, sizeof m);
    m.value = values;
    m.value_count = COUNT(values);
    return m;
}

static void wrong(const char *name, tw_result result) {
    fprintf(stderr, "%s: %ld\n", name, (long)result);
    exit(1);
}

/** Encodes, decodes and encodes again. */
#define ENCODE(name, contract, type, value)                                                                           \
    do {                                                                                                              \
        static uint8_t first[4096], second[4096];                                                                     \
        type original = value, found;                                                                                 \
        tw_result len = contracts_encode_##contract(&original, tw_lend(first, sizeof first)), again, at;              \
        if (len < 0) wrong(name, len);                                                                                \
        again = contracts_decode_##contract(tw_view(first, (size_t)len), scratch(), &found);                          \
        if (again != 0) wrong(name, again);                                                                           \
        again = contracts_encode_##contract(&found, tw_lend(second, sizeof second));                                  \
        if (again != len || memcmp(first, second, (size_t)len) != 0) wrong(name, again);                              \
        for (at = 0; at < len; at++) {                                                                                \
            again = contracts_encode_##contract(&original, tw_lend(second, (size_t)at));                              \
            if (again != TW_BUFFER_TOO_SMALL) wrong(name, again);                                                     \
        }                                                                                                             \
        printf("%s ", name);                                                                                          \
        print(first, len);                                                                                            \
    } while (0)

static void print(const uint8_t *bytes, tw_result len) {
    tw_result at;
    for (at = 0; at < len; at++) {
        printf("%02x", bytes[at]);
    }
    printf("\n");
}

static int encode(void) {
    static const contracts_everything empty_everything = {.parts_count = 0};
    static const contracts_mapped empty_mapped = {.parts_count = 0};
    ENCODE("everything", everything, contracts_everything, everything());
    ENCODE("everything-empty", everything, contracts_everything, empty_everything);
    ENCODE("mapped-json", mapped_json, contracts_mapped, mapped(true));
    ENCODE("mapped-pack", mapped_pack, contracts_mapped, mapped(false));
    ENCODE("mapped-empty", mapped_pack, contracts_mapped, empty_mapped);
    ENCODE("old", old, contracts_old, old());
    ENCODE("lamp", lamp, contracts_lamp, lamp(true));
    ENCODE("lamp_pack", lamp_pack, contracts_lamp, lamp(false));
    ENCODE("samples", samples, contracts_samples, samples());
    return 0;
}

/** If the line has this name: encodes the decoded value again, or fails. With too little scratch memory it must fail
 * cleanly. */
#define AGAIN(wanted, contract, type)                                                                                 \
    do {                                                                                                              \
        type found;                                                                                                   \
        if (strcmp(name, wanted) == 0) {                                                                              \
            size_t size;                                                                                              \
            for (size = 0; size < 2000; size += 100) {                                                                \
                (void)contracts_decode_##contract(payload, tw_lend(scratch_memory, size), &found);                    \
            }                                                                                                         \
            result = contracts_decode_##contract(payload, scratch(), &found);                                         \
            if (result == 0) result = contracts_encode_##contract(&found, tw_lend(written, sizeof written));          \
        }                                                                                                             \
    } while (0)

static tw_result again(const char *name, tw_bytes payload, uint8_t *out) {
    static uint8_t written[65536];
    tw_result result = TW_ARGUMENT;
    AGAIN("everything", everything, contracts_everything);
    AGAIN("mapped-json", mapped_json, contracts_mapped);
    AGAIN("mapped-pack", mapped_pack, contracts_mapped);
    AGAIN("old", old, contracts_old);
    AGAIN("lamp", lamp, contracts_lamp);
    AGAIN("lamp_pack", lamp_pack, contracts_lamp);
    AGAIN("samples", samples, contracts_samples);
    if (result > 0) {
        memcpy(out, written, (size_t)result);
    }
    return result;
}

/** Reads each line `NAME HEX` of standard input, decodes and encodes it, and prints the result, or `error`. */
static int decode(void) {
    static char line[65536];
    static uint8_t out[65536];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *digits = strchr(line, ' ');
        size_t len, at;
        uint8_t *payload;
        tw_result result;
        if (digits == NULL) {
            return 1;
        }
        *digits++ = '\0';
        len = strcspn(digits, "\n") / 2;
        /* Memory of exactly this size: the sanitizer detects reads past its end. */
        payload = (uint8_t *)malloc(len > 0 ? len : 1);
        if (payload == NULL) {
            return 1;
        }
        for (at = 0; at < len; at++) {
            char pair[3] = {digits[2 * at], digits[2 * at + 1], '\0'};
            payload[at] = (uint8_t)strtoul(pair, NULL, 16);
        }
        result = again(line, tw_view(payload, len), out);
        if (result < 0) {
            printf("error\n");
        } else {
            print(out, result);
        }
        free(payload);
    }
    return 0;
}

/* Received messages and answers. */

typedef struct inbox {
    char topic[64];
    uint8_t payload[4096], properties[512];
    tw_publish message;
    int count;
    int answers;
    tw_reason reason;
} inbox;

static inbox box;

static void keep(void *to, size_t size, tw_bytes from) {
    if (from.len > size) {
        wrong("a message", (tw_result)from.len);
    }
    if (from.len > 0) {
        memcpy(to, from.data, from.len);
    }
}

static void on_event(void *user, tw_link *link, const tw_event *event) {
    (void)user;
    (void)link;
    if (event->type == TW_EVENT_MESSAGE) {
        keep(box.topic, sizeof box.topic, event->message.topic);
        keep(box.payload, sizeof box.payload, event->message.payload);
        keep(box.properties, sizeof box.properties, event->message.properties);
        box.message = event->message;
        box.message.topic.data = (const uint8_t *)box.topic;
        box.message.payload.data = box.payload;
        box.message.properties.data = box.properties;
        box.count++;
    } else if (event->type == TW_EVENT_PUBLISHED || event->type == TW_EVENT_SUBSCRIBED) {
        box.answers++;
        box.reason = event->reason;
    }
}

/** Waits for that many answers and messages. False if they do not arrive. */
static bool await(tw_link *link, int answers, int messages) {
    int step;
    for (step = 0; step < WAIT_MS / 10 && (box.answers < answers || box.count < messages); step++) {
        (void)tw_link_step(link, 10);
    }
    return box.answers >= answers && box.count >= messages;
}

static bool subscribed(tw_link *link, tw_result result) {
    box.answers = 0;
    return result == 0 && await(link, 1, 0) && box.reason == TW_GRANTED_QOS_1;
}

static bool published(tw_link *link, tw_result result, tw_reason reason) {
    box.answers = 0;
    return result == 0 && await(link, 1, 0) && box.reason == reason;
}

static tw_memory work(void) {
    return tw_lend(work_memory, sizeof work_memory);
}

static bool same(tw_result result, const uint8_t *bytes) {
    return result == (tw_result)box.message.payload.len && memcmp(bytes, box.payload, (size_t)result) == 0;
}

/* Subscribes, publishes, waits for the message, decodes it, and encodes it again: it must be what was published. */
#define ROUND(link, contract, type, value, ...)                                                                       \
    do {                                                                                                              \
        static uint8_t again[4096];                                                                                   \
        contracts_##contract##_topic topic = {__VA_ARGS__}, found_topic;                                              \
        type original = value, found;                                                                                 \
        box.count = 0;                                                                                          \
        if (!subscribed(link, contracts_subscribe_##contract(&(link)->client, TW_AT_LEAST_ONCE, NULL))) return false;       \
        if (!published(link, contracts_publish_##contract(&(link)->client, &topic, &original, TW_AT_LEAST_ONCE, false, \
                                                          work(), NULL), TW_SUCCESS)) return false;                   \
        if (!await(link, 0, 1)) return false;                                                                         \
        if (contracts_read_##contract(&box.message, scratch(), &found_topic, &found) != 0) return false;              \
        if (!same(contracts_encode_##contract(&found, tw_lend(again, sizeof again)), again)) return false;            \
        if (tw_link_unsubscribe(link, contracts_filter_##contract, WAIT_MS) != 0) return false;                       \
    } while (0)

#define contracts_filter_everything CONTRACTS_EVERYTHING_FILTER
#define contracts_filter_mapped_json CONTRACTS_MAPPED_JSON_FILTER
#define contracts_filter_mapped_pack CONTRACTS_MAPPED_PACK_FILTER
#define contracts_filter_old CONTRACTS_OLD_FILTER
#define contracts_filter_lamp CONTRACTS_LAMP_FILTER
#define contracts_filter_samples CONTRACTS_SAMPLES_FILTER

static bool test_everything(tw_link *link) {
    ROUND(link, everything, contracts_everything, everything(), TEXT("7"), TEXT("hall 3"));
    return true;
}

static bool test_mapped(tw_link *link) {
    ROUND(link, mapped_json, contracts_mapped, mapped(true), TEXT("7"));
    ROUND(link, mapped_pack, contracts_mapped, mapped(false), TEXT("7"));
    return true;
}

static bool test_plain(tw_link *link) {
    ROUND(link, old, contracts_old, old(), 0);
    ROUND(link, lamp, contracts_lamp, lamp(true), TEXT("hall"), TEXT("x"));
    ROUND(link, samples, contracts_samples, samples(), 0);
    return true;
}

static bool test_refused(tw_link *link) {
    contracts_lamp_topic room = {TEXT("hall"), TEXT("x")}, bad = {TEXT("a/b"), TEXT("x")};
    contracts_everything_topic elsewhere = {TEXT("8"), TEXT("x")};
    contracts_lamp bright = lamp(true);
    contracts_everything all = everything();
    tw_publish raw = tw_message(tw_str("samples"), tw_view("\221\303", 2), TW_AT_LEAST_ONCE);
    bright.brightness = 101;
    return published(link, contracts_publish_lamp(&link->client, &room, &bright, TW_AT_LEAST_ONCE, false, work(), NULL),
                     TW_PAYLOAD_FORMAT_INVALID) &&
           published(link, contracts_publish_everything(&link->client, &elsewhere, &all, TW_AT_LEAST_ONCE, false, work(), NULL),
                     TW_PAYLOAD_FORMAT_INVALID) &&
           published(link, tw_client_publish(&link->client, &raw, NULL), TW_PAYLOAD_FORMAT_INVALID) &&
           contracts_publish_lamp(&link->client, &bad, &bright, TW_AT_LEAST_ONCE, false, work(), NULL) == TW_ARGUMENT;
}

static bool test_transcoded(tw_link *link) {
    static uint8_t text[4096], again[4096], expected[4096];
    contracts_lamp_pack_topic topic;
    contracts_lamp original = lamp(true), packed = lamp(false), found;
    tw_result len = contracts_encode_lamp(&original, tw_lend(text, sizeof text)), expected_len;
    tw_publish raw = tw_message(tw_str("packed-lamps/a/b"), tw_view(text, (size_t)len), TW_AT_LEAST_ONCE);
    box.count = 0;
    if (!subscribed(link, contracts_subscribe_lamp_pack(&link->client, TW_AT_LEAST_ONCE, NULL)) ||
        !published(link, ct_publish(&link->client, &raw, "application/json", true, NULL), TW_SUCCESS) || !await(link, 0, 1) ||
        contracts_read_lamp_pack(&box.message, scratch(), &topic, &found) != 0 || !ct_same(topic.rest, "a/b")) {
        return false;
    }
    len = contracts_encode_lamp_pack(&found, tw_lend(again, sizeof again));
    expected_len = contracts_encode_lamp_pack(&packed, tw_lend(expected, sizeof expected));
    return len == expected_len && memcmp(again, expected, (size_t)len) == 0;
}

static bool test_invalid(tw_link *link) {
    contracts_observed_topic topic = {TEXT("2")}, found_topic;
    contracts_lamp_topic other;
    contracts_old original = old(), found;
    contracts_lamp found_lamp;
    tw_publish raw = tw_message(tw_str("observed/1"), tw_view("\12\5A", 3), TW_AT_LEAST_ONCE);
    box.count = 0;
    if (!subscribed(link, contracts_subscribe_observed(&link->client, TW_AT_LEAST_ONCE, NULL)) ||
        !published(link, tw_client_publish(&link->client, &raw, NULL), TW_SUCCESS) || !await(link, 0, 1) ||
        contracts_read_observed(&box.message, scratch(), &found_topic, &found) != CT_PAYLOAD_INVALID ||
        contracts_read_lamp(&box.message, scratch(), &other, &found_lamp) != CT_OTHER_TOPIC) {
        return false;
    }
    return published(link,
                     contracts_publish_observed(&link->client, &topic, &original, TW_AT_LEAST_ONCE, false, work(), NULL),
                     TW_SUCCESS) &&
           await(link, 0, 2) && contracts_read_observed(&box.message, scratch(), &found_topic, &found) == 0 &&
           ct_same(found_topic.plant_id, "2");
}

static int run(const char *host, const char *port) {
    static const struct {
        const char *name;
        bool (*run)(tw_link *link);
    } tests[] = {{"everything", test_everything}, {"mapped", test_mapped},         {"plain", test_plain},
                 {"refused", test_refused},       {"transcoded", test_transcoded}, {"invalid", test_invalid}};
    static uint8_t receive[8192], transmit[8192], outbox[16384];
    static uint16_t incoming[16];
    tw_client_config config = tw_client_defaults();
    tw_tcp tcp;
    tw_link link;
    tw_result result;
    size_t at;
    int failed = 0;
    config.connect.client_id = tw_str("generated-c");
    config.receive = tw_lend(receive, sizeof receive);
    config.transmit = tw_lend(transmit, sizeof transmit);
    config.outbox = tw_lend(outbox, sizeof outbox);
    config.incoming = incoming;
    config.incoming_count = COUNT(incoming);
    result = tw_link_init(&link, &config, tw_tcp_transport(&tcp, host, port), on_event, NULL);
    if (result != 0 || (result = tw_link_connect(&link, WAIT_MS)) != 0) {
        wrong("connect", result);
    }
    for (at = 0; at < COUNT(tests); at++) {
        bool is_right = tests[at].run(&link);
        printf("%s %s\n", is_right ? "ok" : "FAIL", tests[at].name);
        failed += is_right ? 0 : 1;
    }
    tw_link_disconnect(&link);
    return failed > 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "encode") == 0) {
        return encode();
    }
    if (argc == 2 && strcmp(argv[1], "decode") == 0) {
        return decode();
    }
    if (argc == 4 && strcmp(argv[1], "run") == 0) {
        return run(argv[2], argv[3]);
    }
    fprintf(stderr, "usage: driver encode | driver decode | driver run HOST PORT\n");
    return 1;
}
