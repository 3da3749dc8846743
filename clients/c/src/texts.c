/* The texts of spec/errors/errors.toml, by the errors of this library. */

typedef struct error_text {
    int16_t error;
    const char *text;
} error_text;

static const error_text ERROR_TEXTS[] = {
    {TW_ARGUMENT, "an argument is wrong: correct the call"},
    {TW_NOT_CONNECTED, "there is no connection: connect first, or publish at QoS 1 or 2, which waits for one"},
    {TW_OUTBOX_FULL, "the outbox is full: wait until messages are acknowledged, or lend it more memory"},
    {TW_OUTPUT_FULL, "what waits to be written has reached its limit: wait until the network has taken some"},
    {TW_OVER_MAXIMUM_PACKET_SIZE, "the packet is larger than the server accepts: send less in one message"},
    {TW_OVER_MAXIMUM_QOS, "the server does not support this QoS: use a lower one"},
    {TW_RETAIN_UNAVAILABLE, "the server keeps no retained messages: publish without retain"},
    {TW_SUBSCRIPTIONS_FULL, "the memory for subscriptions is full: end one of them, or lend more memory"},
    {TW_REQUESTS_FULL, "all places for requests are taken: wait for a response, or lend more places"},

    {TW_CONNECTION_LOST, "the connection broke: the client connects again by itself"},
    {TW_NAME_NOT_FOUND, "the name of the server is not known: check the address, and the name service"},
    {TW_UNREACHABLE, "no connection to the server: see that it runs, and that address and port are right"},
    {TW_CONNECT_TIMEOUT,
     "the server did not accept the connection in time: see that it runs, and that the port is that of MQTT"},
    {TW_HANDSHAKE_FAILED, "the connection ended before the server had accepted it: see that the port is that of MQTT"},
    {TW_PING_TIMEOUT, "the server did not answer a PINGREQ in time: the client connects again by itself"},
    {TW_CONNECTION_REFUSED, "the server refused the connection: the reason code says why"},
    {TW_UNSUPPORTED_VERSION, "the server does not speak this version of MQTT: choose the other one"},
    {TW_REDIRECTED, "the server names another one: connect there"},
    {TW_SERVER_DISCONNECTED, "the server ended the connection: the reason code says why"},
    {TW_TAKEN_OVER, "another client has connected with the same client identifier: give each its own"},
    {TW_WEBSOCKET_REFUSED, "the server refused the WebSocket: check the path of the address and the headers"},

    {TW_TLS_UNKNOWN_AUTHORITY,
     "an authority that is not trusted has issued the server's certificate: trust that authority, or connect to the right "
     "server"},
    {TW_TLS_SELF_SIGNED,
     "the server has issued its certificate itself: trust that certificate, or connect to the right server"},
    {TW_TLS_NAME_MISMATCH,
     "the server's certificate is for other names: connect by one of them, or correct the certificate"},
    {TW_TLS_EXPIRED, "the server's certificate has expired: renew it, and check this machine's clock"},
    {TW_TLS_NOT_YET_VALID, "the server's certificate is not valid yet: check this machine's clock"},
    {TW_TLS_REVOKED,
     "the server's certificate has been revoked, or no list says that it has not: replace it, or give the newest list"},
    {TW_TLS_CERTIFICATE, "the server's certificate cannot be used: see the cause"},
    {TW_TLS_CLIENT_CERTIFICATE_REQUIRED, "the server asks for a certificate: give this client one"},
    {TW_TLS_CLIENT_CERTIFICATE_REFUSED, "the server does not accept this client's certificate: the server says why"},
    {TW_TLS_NOTHING_IN_COMMON,
     "there is no version, cipher suite or protocol that both sides have: allow one"},
    {TW_TLS_NOT_SPOKEN, "the server does not speak TLS at this port: use its port for TLS"},
    {TW_TLS_CLOSED, "the server ended the connection during the TLS handshake: its log says why"},
    {TW_TLS_SETTINGS, "a certificate, a key or a setting of TLS is wrong on this side: correct it"},

    {TW_AUTHENTICATION_FAILED, "the authentication failed on this side: check the method and its data"},

    {TW_PUBLISH_REFUSED, "the server refused the message: the reason code says why"},
    {TW_SUBSCRIBE_REFUSED, "the server refused the subscription: the reason code says why"},
    {TW_UNSUBSCRIBE_REFUSED, "the server refused to end the subscription: the reason code says why"},
    {TW_SESSION_LOST,
     "the server has lost the session, and nobody knows whether the QoS 2 message was delivered: send it again if twice is "
     "better than never"},
    {TW_UNACKNOWLEDGED, "the caller gave up after the message was sent: it may still be delivered"},
    {TW_NO_RESPONDER, "nobody has subscribed to the topic of the request: start a responder"},
    {TW_REQUEST_FAILED, "the responder could not do it: it says why"},
    {TW_REQUEST_TIMEOUT, "no response came in time: see that a responder runs, or wait longer"},
};
