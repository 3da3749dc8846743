package packets

import "fmt"

// ReasonCode is a reason code of MQTT 5.0 (section 2.4). It also represents the return codes of MQTT 3.1.1: a packet
// translates them.
type ReasonCode uint8

// Every reason code. The number 0 is also called Normal disconnection and Granted QoS 0.
const (
	ReasonSuccess                             ReasonCode = 0x00 // Success.
	ReasonGrantedQoS1                         ReasonCode = 0x01 // Granted QoS 1.
	ReasonGrantedQoS2                         ReasonCode = 0x02 // Granted QoS 2.
	ReasonDisconnectWithWillMessage           ReasonCode = 0x04 // Disconnect with Will Message.
	ReasonNoMatchingSubscribers               ReasonCode = 0x10 // No matching subscribers.
	ReasonNoSubscriptionExisted               ReasonCode = 0x11 // No subscription existed.
	ReasonContinueAuthentication              ReasonCode = 0x18 // Continue authentication.
	ReasonReAuthenticate                      ReasonCode = 0x19 // Re-authenticate.
	ReasonUnspecifiedError                    ReasonCode = 0x80 // Unspecified error.
	ReasonMalformedPacket                     ReasonCode = 0x81 // Malformed Packet.
	ReasonProtocolError                       ReasonCode = 0x82 // Protocol Error.
	ReasonImplementationSpecificError         ReasonCode = 0x83 // Implementation specific error.
	ReasonUnsupportedProtocolVersion          ReasonCode = 0x84 // Unsupported Protocol Version.
	ReasonClientIdentifierNotValid            ReasonCode = 0x85 // Client Identifier not valid.
	ReasonBadUserNameOrPassword               ReasonCode = 0x86 // Bad User Name or Password.
	ReasonNotAuthorized                       ReasonCode = 0x87 // Not authorized.
	ReasonServerUnavailable                   ReasonCode = 0x88 // Server unavailable.
	ReasonServerBusy                          ReasonCode = 0x89 // Server busy.
	ReasonBanned                              ReasonCode = 0x8A // Banned.
	ReasonServerShuttingDown                  ReasonCode = 0x8B // Server shutting down.
	ReasonBadAuthenticationMethod             ReasonCode = 0x8C // Bad authentication method.
	ReasonKeepAliveTimeout                    ReasonCode = 0x8D // Keep Alive timeout.
	ReasonSessionTakenOver                    ReasonCode = 0x8E // Session taken over.
	ReasonTopicFilterInvalid                  ReasonCode = 0x8F // Topic Filter invalid.
	ReasonTopicNameInvalid                    ReasonCode = 0x90 // Topic Name invalid.
	ReasonPacketIdentifierInUse               ReasonCode = 0x91 // Packet Identifier in use.
	ReasonPacketIdentifierNotFound            ReasonCode = 0x92 // Packet Identifier not found.
	ReasonReceiveMaximumExceeded              ReasonCode = 0x93 // Receive Maximum exceeded.
	ReasonTopicAliasInvalid                   ReasonCode = 0x94 // Topic Alias invalid.
	ReasonPacketTooLarge                      ReasonCode = 0x95 // Packet too large.
	ReasonMessageRateTooHigh                  ReasonCode = 0x96 // Message rate too high.
	ReasonQuotaExceeded                       ReasonCode = 0x97 // Quota exceeded.
	ReasonAdministrativeAction                ReasonCode = 0x98 // Administrative action.
	ReasonPayloadFormatInvalid                ReasonCode = 0x99 // Payload format invalid.
	ReasonRetainNotSupported                  ReasonCode = 0x9A // Retain not supported.
	ReasonQoSNotSupported                     ReasonCode = 0x9B // QoS not supported.
	ReasonUseAnotherServer                    ReasonCode = 0x9C // Use another server.
	ReasonServerMoved                         ReasonCode = 0x9D // Server moved.
	ReasonSharedSubscriptionsNotSupported     ReasonCode = 0x9E // Shared Subscriptions not supported.
	ReasonConnectionRateExceeded              ReasonCode = 0x9F // Connection rate exceeded.
	ReasonMaximumConnectTime                  ReasonCode = 0xA0 // Maximum connect time.
	ReasonSubscriptionIdentifiersNotSupported ReasonCode = 0xA1 // Subscription Identifiers not supported.
	ReasonWildcardSubscriptionsNotSupported   ReasonCode = 0xA2 // Wildcard Subscriptions not supported.

	ReasonNormalDisconnection = ReasonSuccess // Success in DISCONNECT.
	ReasonGrantedQoS0         = ReasonSuccess // Success in SUBACK.
)

// IsError reports whether the code is a failure: 0x80 and above.
func (c ReasonCode) IsError() bool { return c >= 0x80 }

// IsDefined reports whether the standard defines the code.
func (c ReasonCode) IsDefined() bool { return reasons[c].name != "" }

// AllowedIn reports whether packets of that type may carry the code.
func (c ReasonCode) AllowedIn(t Type) bool { return reasons[c].types>>t&1 != 0 }

// String returns the standard's wording and the number: "Not authorized (0x87)".
func (c ReasonCode) String() string {
	name := reasons[c].name
	if name == "" {
		name = "undefined"
	}
	return fmt.Sprintf("%s (0x%02X)", name, uint8(c))
}

// reasons has for each code its name and one bit for each packet type that may carry it.
var reasons = [256]struct {
	name  string
	types uint16
}{
	ReasonSuccess:                             {"Success", 1<<TypeConnAck | 1<<TypePubAck | 1<<TypePubRec | 1<<TypePubRel | 1<<TypePubComp | 1<<TypeSubAck | 1<<TypeUnsubAck | 1<<TypeDisconnect | 1<<TypeAuth},
	ReasonGrantedQoS1:                         {"Granted QoS 1", 1 << TypeSubAck},
	ReasonGrantedQoS2:                         {"Granted QoS 2", 1 << TypeSubAck},
	ReasonDisconnectWithWillMessage:           {"Disconnect with Will Message", 1 << TypeDisconnect},
	ReasonNoMatchingSubscribers:               {"No matching subscribers", 1<<TypePubAck | 1<<TypePubRec},
	ReasonNoSubscriptionExisted:               {"No subscription existed", 1 << TypeUnsubAck},
	ReasonContinueAuthentication:              {"Continue authentication", 1 << TypeAuth},
	ReasonReAuthenticate:                      {"Re-authenticate", 1 << TypeAuth},
	ReasonUnspecifiedError:                    {"Unspecified error", 1<<TypeConnAck | 1<<TypePubAck | 1<<TypePubRec | 1<<TypeSubAck | 1<<TypeUnsubAck | 1<<TypeDisconnect},
	ReasonMalformedPacket:                     {"Malformed Packet", 1<<TypeConnAck | 1<<TypeDisconnect},
	ReasonProtocolError:                       {"Protocol Error", 1<<TypeConnAck | 1<<TypeDisconnect},
	ReasonImplementationSpecificError:         {"Implementation specific error", 1<<TypeConnAck | 1<<TypePubAck | 1<<TypePubRec | 1<<TypeSubAck | 1<<TypeUnsubAck | 1<<TypeDisconnect},
	ReasonUnsupportedProtocolVersion:          {"Unsupported Protocol Version", 1 << TypeConnAck},
	ReasonClientIdentifierNotValid:            {"Client Identifier not valid", 1 << TypeConnAck},
	ReasonBadUserNameOrPassword:               {"Bad User Name or Password", 1 << TypeConnAck},
	ReasonNotAuthorized:                       {"Not authorized", 1<<TypeConnAck | 1<<TypePubAck | 1<<TypePubRec | 1<<TypeSubAck | 1<<TypeUnsubAck | 1<<TypeDisconnect},
	ReasonServerUnavailable:                   {"Server unavailable", 1 << TypeConnAck},
	ReasonServerBusy:                          {"Server busy", 1<<TypeConnAck | 1<<TypeDisconnect},
	ReasonBanned:                              {"Banned", 1 << TypeConnAck},
	ReasonServerShuttingDown:                  {"Server shutting down", 1 << TypeDisconnect},
	ReasonBadAuthenticationMethod:             {"Bad authentication method", 1 << TypeConnAck},
	ReasonKeepAliveTimeout:                    {"Keep Alive timeout", 1 << TypeDisconnect},
	ReasonSessionTakenOver:                    {"Session taken over", 1 << TypeDisconnect},
	ReasonTopicFilterInvalid:                  {"Topic Filter invalid", 1<<TypeSubAck | 1<<TypeUnsubAck | 1<<TypeDisconnect},
	ReasonTopicNameInvalid:                    {"Topic Name invalid", 1<<TypeConnAck | 1<<TypePubAck | 1<<TypePubRec | 1<<TypeDisconnect},
	ReasonPacketIdentifierInUse:               {"Packet Identifier in use", 1<<TypePubAck | 1<<TypePubRec | 1<<TypeSubAck | 1<<TypeUnsubAck},
	ReasonPacketIdentifierNotFound:            {"Packet Identifier not found", 1<<TypePubRel | 1<<TypePubComp},
	ReasonReceiveMaximumExceeded:              {"Receive Maximum exceeded", 1 << TypeDisconnect},
	ReasonTopicAliasInvalid:                   {"Topic Alias invalid", 1 << TypeDisconnect},
	ReasonPacketTooLarge:                      {"Packet too large", 1<<TypeConnAck | 1<<TypeDisconnect},
	ReasonMessageRateTooHigh:                  {"Message rate too high", 1 << TypeDisconnect},
	ReasonQuotaExceeded:                       {"Quota exceeded", 1<<TypeConnAck | 1<<TypePubAck | 1<<TypePubRec | 1<<TypeSubAck | 1<<TypeDisconnect},
	ReasonAdministrativeAction:                {"Administrative action", 1 << TypeDisconnect},
	ReasonPayloadFormatInvalid:                {"Payload format invalid", 1<<TypeConnAck | 1<<TypePubAck | 1<<TypePubRec | 1<<TypeDisconnect},
	ReasonRetainNotSupported:                  {"Retain not supported", 1<<TypeConnAck | 1<<TypeDisconnect},
	ReasonQoSNotSupported:                     {"QoS not supported", 1<<TypeConnAck | 1<<TypeDisconnect},
	ReasonUseAnotherServer:                    {"Use another server", 1<<TypeConnAck | 1<<TypeDisconnect},
	ReasonServerMoved:                         {"Server moved", 1<<TypeConnAck | 1<<TypeDisconnect},
	ReasonSharedSubscriptionsNotSupported:     {"Shared Subscriptions not supported", 1<<TypeSubAck | 1<<TypeDisconnect},
	ReasonConnectionRateExceeded:              {"Connection rate exceeded", 1<<TypeConnAck | 1<<TypeDisconnect},
	ReasonMaximumConnectTime:                  {"Maximum connect time", 1 << TypeDisconnect},
	ReasonSubscriptionIdentifiersNotSupported: {"Subscription Identifiers not supported", 1<<TypeSubAck | 1<<TypeDisconnect},
	ReasonWildcardSubscriptionsNotSupported:   {"Wildcard Subscriptions not supported", 1<<TypeSubAck | 1<<TypeDisconnect},
}

// returnCode returns the CONNACK return code of MQTT 3.1.1 (0 to 5) with the same meaning.
func (c ReasonCode) returnCode() (code byte, ok bool) {
	for code, reason := range returnCodes {
		if reason == c {
			return byte(code), true
		}
	}
	return 0, false
}

// returnCodes are the reason codes for the CONNACK return codes of MQTT 3.1.1.
var returnCodes = [...]ReasonCode{
	ReasonSuccess, ReasonUnsupportedProtocolVersion, ReasonClientIdentifierNotValid,
	ReasonServerUnavailable, ReasonBadUserNameOrPassword, ReasonNotAuthorized,
}
