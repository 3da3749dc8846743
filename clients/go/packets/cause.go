package packets

// Cause is the check that failed: when decoding, in a setter, or in WellFormed. It is an error, for errors.Is:
//
//	if errors.Is(err, packets.CauseTopicWildcard) { … }
type Cause uint8

// Code returns a stable name for programs and logs, such as "topic_wildcard".
func (c Cause) Code() string { return c.row().code }

// Statement returns the normative statement of MQTT 5.0 behind the check, such as "MQTT-3.3.2-2"; empty if the standard
// has no numbered statement.
func (c Cause) Statement() string { return c.row().statement }

// Reason returns the reason code to answer with.
func (c Cause) Reason() ReasonCode { return c.row().reason }

// Fault returns the class of the error.
func (c Cause) Fault() Fault { return c.row().fault }

// Error returns what is wrong and, after a colon, what to do.
func (c Cause) Error() string { return c.row().text }

func (c Cause) row() *causeRow {
	if c >= causeCount {
		c = causeNone
	}
	return &causes[c]
}

type causeRow struct {
	code      string
	fault     Fault
	reason    ReasonCode
	statement string
	text      string
}
