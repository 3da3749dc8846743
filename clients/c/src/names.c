#if TW_NAMES
/* The codes of all errors, in the order of ERROR_RUNS. */
static const char ERROR_NAMES[] =
    "incomplete\0"
    "packet_type_reserved\0auth_before_v5\0flags_reserved\0publish_qos_three\0dup_with_qos_zero\0"
    "variable_byte_integer_too_long\0variable_byte_integer_not_minimal\0field_past_end\0trailing_bytes\0"
    "utf8_invalid\0utf8_null\0property_block_past_end\0property_past_block\0property_unknown\0"
    "property_not_allowed\0connect_flag_reserved\0will_flags_without_will\0will_qos_three\0"
    "password_without_user_name\0connack_flags_reserved\0subscription_options_reserved\0"
    "packet_id_zero\0reason_code_unknown\0property_repeated\0property_not_boolean\0payload_format_unknown\0"
    "maximum_qos_out_of_range\0receive_maximum_zero\0maximum_packet_size_zero\0topic_alias_zero\0"
    "subscription_id_zero\0response_topic_invalid\0authentication_data_alone\0authentication_method_missing\0"
    "protocol_name_unknown\0protocol_level_unsupported\0will_topic_invalid\0session_present_on_failure\0"
    "topic_missing\0topic_wildcard\0topic_filter_empty\0topic_filter_multi_level\0topic_filter_wildcard\0"
    "share_name_invalid\0share_filter_missing\0no_topic_filters\0no_reason_codes\0subscription_qos_three\0"
    "retain_handling_three\0no_local_on_shared\0unexpected_packet\0unexpected_session\0"
    "unexpected_topic_alias\0too_many_incoming\0client_id_missing\0"
    "packet_too_large\0"
    "buffer_too_small\0field_too_long\0invalid_argument\0not_in_version\0not_connected\0outbox_full\0output_full\0"
    "packet_too_large\0qos_not_supported\0retain_not_supported\0subscriptions_full\0requests_full\0"
    "store_failed\0"
    "connection_lost\0name_not_found\0unreachable\0connect_timeout\0handshake_failed\0keep_alive_timeout\0"
    "connection_refused\0unsupported_protocol_version\0redirected\0server_disconnected\0session_taken_over\0"
    "websocket_refused\0"
    "tls_unknown_authority\0tls_self_signed\0tls_name_mismatch\0tls_expired\0tls_not_yet_valid\0tls_revoked\0"
    "tls_certificate\0tls_client_certificate_required\0tls_client_certificate_refused\0tls_no_shared_parameters\0"
    "tls_not_supported\0tls_closed\0tls_options\0"
    "authentication_failed\0"
    "scram_credentials\0scram_malformed\0scram_nonce\0scram_iterations\0scram_refused\0scram_server_signature\0"
    "publish_refused\0subscribe_refused\0unsubscribe_refused\0session_lost\0unacknowledged\0no_responder\0"
    "request_failed\0request_timeout";

/* The first and the last error of each class. */
static const int16_t ERROR_RUNS[][2] = {
    {TW_INCOMPLETE, TW_INCOMPLETE},
    {TW_PACKET_TYPE_RESERVED, TW_SUBSCRIPTION_OPTIONS_RESERVED},
    {TW_PACKET_ID_ZERO, TW_CLIENT_ID_MISSING},
    {TW_PACKET_OVER_LIMIT, TW_PACKET_OVER_LIMIT},
    {TW_BUFFER_TOO_SMALL, TW_STORE_FAILED},
    {TW_CONNECTION_LOST, TW_WEBSOCKET_REFUSED},
    {TW_TLS_UNKNOWN_AUTHORITY, TW_TLS_OPTIONS},
    {TW_AUTHENTICATION_FAILED, TW_SCRAM_SERVER_SIGNATURE},
    {TW_PUBLISH_REFUSED, TW_REQUEST_TIMEOUT},
};

const char *tw_error_name(tw_result result) {
    const char *name = ERROR_NAMES;
    size_t run;
    int error;
    for (run = 0; run < sizeof ERROR_RUNS / sizeof ERROR_RUNS[0]; run++) {
        for (error = ERROR_RUNS[run][0]; error >= ERROR_RUNS[run][1]; error--) {
            if (error == result) {
                return name;
            }
            name += strlen(name) + 1;
        }
    }
    return result >= 0 ? "ok" : "unknown";
}
#else
const char *tw_error_name(tw_result result) {
    return result >= 0 ? "ok" : "error";
}
#endif

const char *tw_error_text(tw_result result) {
#if TW_TEXTS
    size_t i;
    for (i = 0; i < sizeof ERROR_TEXTS / sizeof ERROR_TEXTS[0]; i++) {
        if (ERROR_TEXTS[i].error == result) {
            return ERROR_TEXTS[i].text;
        }
    }
#endif
    return tw_error_name(result);
}
