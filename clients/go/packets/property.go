package packets

import (
	"encoding/binary"
	"fmt"
)

// Property is one property with its value. The [PropertyType] of the ID determines which field has the value; the others are
// ignored.
type Property struct {
	ID PropertyID
	// Number is the value of a byte or an integer of two, four or a variable number of bytes. Booleans are 1 and 0.
	Number uint32
	// Name is the name of a user property.
	Name string
	// Text is the value of a string or of a user property.
	Text string
	// Data is the value of binary data.
	Data []byte
}

// String returns the name and the value; for binary data, which may be a secret, only the size.
func (p Property) String() string {
	switch p.ID.Type() {
	case PropertyUTF8String:
		return fmt.Sprintf("%s=%q", p.ID, p.Text)
	case PropertyUTF8StringPair:
		return fmt.Sprintf("%s=%q:%q", p.ID, p.Name, p.Text)
	case PropertyBinaryData:
		return fmt.Sprintf("%s=<%d bytes>", p.ID, len(p.Data))
	}
	return fmt.Sprintf("%s=%d", p.ID, p.Number)
}

// check validates the value, independent of the place.
func (p *Property) check() Cause {
	row := p.ID.row()
	if row == nil {
		return CausePropertyUnknown
	}
	switch row.dataType {
	case PropertyUTF8String:
		return textCause(p.ID, p.Text)
	case PropertyUTF8StringPair:
		if cause := stringCause(p.Name); cause != causeNone {
			return cause
		}
		return stringCause(p.Text)
	case PropertyBinaryData:
		if len(p.Data) > maxFieldBytes {
			return CauseFieldTooLong
		}
		return causeNone
	default:
		return numberCause(row, p.Number)
	}
}

// numberCause validates the value of a numeric property.
func numberCause(row *propertyRow, number uint32) Cause {
	isFaulty := number == 0
	switch row.dataType {
	case PropertyByte:
		isFaulty = number > 1
	case PropertyTwoByteInteger:
		if number > 0xFFFF {
			return CausePropertyTypeWrong
		}
	case PropertyVariableByteInteger:
		if number > MaxRemainingLength {
			return CauseSubscriptionIDTooLarge
		}
	}
	if isFaulty {
		return row.fault
	}
	return causeNone
}

// appendString appends a two-byte length and the text.
func appendString(dst []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(text))), text...)
}

// readProperty reads the property at the start of a validated block, and returns its length. Its text and data are views of
// the block.
func readProperty(block []byte) (p Property, n int) {
	p.ID = PropertyID(block[0])
	value := block[1:]
	switch p.ID.row().dataType {
	case PropertyByte:
		p.Number = uint32(value[0])
		return p, 2
	case PropertyTwoByteInteger:
		p.Number = uint32(binary.BigEndian.Uint16(value))
		return p, 3
	case PropertyFourByteInteger:
		p.Number = binary.BigEndian.Uint32(value)
		return p, 5
	case PropertyVariableByteInteger:
		number, n, _ := readVarint(value)
		p.Number = uint32(number)
		return p, 1 + n
	case PropertyUTF8String:
		text := fieldAt(value)
		p.Text = viewString(text)
		return p, 3 + len(text)
	case PropertyUTF8StringPair:
		name := fieldAt(value)
		text := fieldAt(value[2+len(name):])
		p.Name, p.Text = viewString(name), viewString(text)
		return p, 5 + len(name) + len(text)
	default:
		p.Data = fieldAt(value)
		return p, 3 + len(p.Data)
	}
}

// fieldAt returns the string or binary field at the start of validated bytes.
func fieldAt(b []byte) []byte {
	end := 2 + int(binary.BigEndian.Uint16(b))
	return b[2:end:end]
}

// textCause validates the value of a string property.
func textCause(id PropertyID, text string) Cause {
	if cause := stringCause(text); cause != causeNone || id != ResponseTopic {
		return cause
	}
	if responseTopicFault(text) >= 0 {
		return CauseResponseTopicInvalid
	}
	return causeNone
}

// responseTopicFault returns the position at which well-formed text is not a topic name [MQTT-3.3.2-14]; -1 if it is valid.
func responseTopicFault(topic string) int {
	if topic == "" {
		return 0
	}
	for at := range len(topic) {
		if topic[at] == '+' || topic[at] == '#' {
			return at
		}
	}
	return -1
}

func oneIf(is bool) uint32 {
	if is {
		return 1
	}
	return 0
}
