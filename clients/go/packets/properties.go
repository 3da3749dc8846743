package packets

import (
	"iter"
	"slices"
	"strings"
)

// Properties are the read-only properties of a packet or a will, in order. They are valid: allowed in the packet, repeated only if
// allowed, in range, well formed. Change them through the packet.
type Properties struct{ props }

// All returns the properties in order.
func (p Properties) All() iter.Seq[Property] {
	return func(yield func(Property) bool) {
		for block := p.block; len(block) > 0; {
			property, n := readProperty(block)
			block = block[n:]
			if p.isView() {
				property.Name, property.Text = strings.Clone(property.Name), strings.Clone(property.Text)
			}
			if !yield(property) {
				return
			}
		}
	}
}

// Has reports whether the property is present.
func (p Properties) Has(id PropertyID) bool { return id.row() != nil && p.has(id) }

// Get returns the first property with that identifier.
func (p Properties) Get(id PropertyID) (property Property, ok bool) {
	if !p.Has(id) {
		return Property{ID: id}, false
	}
	property = p.get(id)
	property.Name, property.Text = p.text(property.Name), p.text(property.Text)
	return property, true
}

// IsEmpty reports whether there are no properties.
func (p Properties) IsEmpty() bool { return len(p.block) == 0 }

// String lists them on one line.
func (p Properties) String() string {
	var list []string
	for property := range p.All() {
		list = append(list, property.String())
	}
	return strings.Join(list, " ")
}

// props is a block of encoded properties, validated when it is decoded or changed.
type props struct {
	block []byte
	// seen has the bit of every property in the block, and viewBit.
	seen uint32
}

// viewBit marks packets whose strings and bytes are in memory that will be reused: returned strings are copied, unless the caller
// requests a view. There are 27 properties, so this bit is free.
const viewBit = 1 << 31

// firstBlockBytes is the initial capacity of a property block. Most packets have few properties, and moving a block takes longer than
// allocating the larger one.
const firstBlockBytes = 128

func (p *props) isView() bool { return p.seen&viewBit != 0 }

// text makes a string safe to return.
func (p *props) text(view string) string {
	if p.isView() {
		return strings.Clone(view)
	}
	return view
}

func (p *props) has(id PropertyID) bool { return p.seen&id.bit() != 0 }

// get returns the first property with that identifier, or a zero Property.
func (p *props) get(id PropertyID) (found Property) {
	if p.has(id) {
		for block := p.block; len(block) > 0; {
			property, n := readProperty(block)
			if property.ID == id {
				return property
			}
			block = block[n:]
		}
	}
	return found
}

func (p *props) getNumber(id PropertyID) (uint32, bool) {
	return p.get(id).Number, p.has(id)
}

// getNumberOr is for properties whose absence has a defined value.
func (p *props) getNumberOr(id PropertyID, absent uint32) uint32 {
	if !p.has(id) {
		return absent
	}
	return p.get(id).Number
}

func (p *props) getText(id PropertyID) (string, bool) {
	return p.text(p.get(id).Text), p.has(id)
}

func (p *props) getData(id PropertyID) ([]byte, bool) {
	return p.get(id).Data, p.has(id)
}

func (p *props) userProperties() iter.Seq2[string, string] {
	all := Properties{*p}
	return func(yield func(string, string) bool) {
		if !all.has(UserProperty) {
			return
		}
		for property := range all.All() {
			if property.ID == UserProperty && !yield(property.Name, property.Text) {
				return
			}
		}
	}
}

// add appends the property if it is valid and allowed in that place.
func (p *props) add(where place, property Property) error {
	row := property.ID.row()
	cause := causeNone
	switch {
	case row == nil:
		cause = CausePropertyUnknown
	case row.places>>where&1 == 0:
		cause = CausePropertyNotAllowed
	case p.seen&row.bit != 0 && row.repeats>>where&1 == 0:
		cause = CausePropertyRepeated
	default:
		cause = property.check()
	}
	if cause != causeNone {
		return fieldError(cause, property.ID.String())
	}
	p.append(&property)
	return nil
}

// append appends a property that has been checked.
func (p *props) append(property *Property) {
	switch property.ID.row().dataType {
	case PropertyUTF8String:
		p.appendText(property.ID, property.Text)
	case PropertyUTF8StringPair:
		p.appendText(property.ID, property.Name)
		p.appendField(property.Text)
	case PropertyBinaryData:
		p.appendText(property.ID, viewString(property.Data))
	default:
		p.appendNumber(property.ID, property.Number)
	}
}

// begin marks a property as present, and allocates the block. The bytes are appended to the field itself, so that its pointer, which
// the garbage collector tracks, is written only when the block grows.
func (p *props) begin(id PropertyID) {
	if p.block == nil {
		p.block = make([]byte, 0, firstBlockBytes)
	}
	p.seen |= id.bit()
}

// appendNumber appends a property whose value is a number.
func (p *props) appendNumber(id PropertyID, number uint32) {
	p.begin(id)
	switch id.row().dataType {
	case PropertyByte:
		p.block = append(p.block, byte(id), byte(number))
	case PropertyTwoByteInteger:
		p.block = append(p.block, byte(id), byte(number>>8), byte(number))
	case PropertyFourByteInteger:
		p.block = append(p.block, byte(id), byte(number>>24), byte(number>>16), byte(number>>8), byte(number))
	default:
		p.block = appendVarint(append(p.block, byte(id)), int(number))
	}
}

// appendText appends a property whose value is, or starts with, a string or binary data.
func (p *props) appendText(id PropertyID, text string) {
	p.begin(id)
	p.block = append(p.block, byte(id))
	p.appendField(text)
}

// appendField appends two bytes of length and the text.
func (p *props) appendField(text string) {
	p.block = append(p.block, byte(len(text)>>8), byte(len(text)))
	p.block = append(p.block, text...)
}

// setNumber is setChecked for values that are always in range.
func (p *props) setNumber(id PropertyID, number uint32) {
	p.remove(id)
	p.appendNumber(id, number)
}

// setChecked replaces all properties with the identifier by one number, at the end, if it is in range.
func (p *props) setChecked(id PropertyID, number uint32) error {
	if cause := numberCause(id.row(), number); cause != causeNone {
		return fieldError(cause, id.String())
	}
	p.setNumber(id, number)
	return nil
}

func (p *props) setText(id PropertyID, text string) error {
	if cause := textCause(id, text); cause != causeNone {
		return fieldError(cause, id.String())
	}
	p.remove(id)
	p.appendText(id, text)
	return nil
}

func (p *props) setData(id PropertyID, data []byte) error {
	if len(data) > maxFieldBytes {
		return fieldError(CauseFieldTooLong, id.String())
	}
	p.remove(id)
	p.appendText(id, viewString(data))
	return nil
}

// addUserProperty is for all places, because every place allows user properties.
func (p *props) addUserProperty(name, value string) error {
	cause := stringCause(name)
	if cause == causeNone {
		cause = stringCause(value)
	}
	if cause != causeNone {
		return fieldError(cause, UserProperty.String())
	}
	p.appendText(UserProperty, name)
	p.appendField(value)
	return nil
}

// remove removes all properties with that identifier.
func (p *props) remove(id PropertyID) {
	if id.row() == nil || !p.has(id) {
		return
	}
	// A separate block: the old one may belong to a decoder, or to a copy of the packet.
	kept := make([]byte, 0, len(p.block))
	for block := p.block; len(block) > 0; {
		property, n := readProperty(block)
		if property.ID != id {
			kept = append(kept, block[:n]...)
		}
		block = block[n:]
	}
	p.block, p.seen = kept, p.seen&^id.bit()
}

// setAll replaces all properties, if they are allowed in that place; on an error nothing changes.
func (p *props) setAll(where place, from Properties) error {
	next := props{seen: p.seen & viewBit}
	for block := from.block; len(block) > 0; {
		property, n := readProperty(block)
		if err := next.add(where, property); err != nil {
			return err
		}
		block = block[n:]
	}
	*p = next
	return nil
}

// lacksMethod reports whether there is authentication data without a method.
func (p *props) lacksMethod() bool { return p.has(AuthenticationData) && !p.has(AuthenticationMethod) }

// size returns the length of the property length and the block.
func (p *props) size() int { return varintLen(len(p.block)) + len(p.block) }

func (p *props) appendTo(dst []byte) []byte {
	return append(appendVarint(dst, len(p.block)), p.block...)
}

// decode reads the property length and the block at the given byte of the body, and returns the position after them. mode is viewBit or
// 0. On failure, next is the position of the fault.
func (p *props) decode(body []byte, at int, where place, mode uint32) (next int, cause Cause) {
	if at < len(body) && body[at] == 0 {
		p.block, p.seen = nil, mode
		return at + 1, causeNone
	}
	return p.decodeBlock(body, at, where, mode)
}

func (p *props) decodeBlock(body []byte, at int, where place, mode uint32) (next int, cause Cause) {
	length, n, cause := readVarint(body[at:])
	if cause == CauseIncomplete {
		return at, CauseFieldPastEnd
	} else if cause != causeNone {
		return at, cause
	}
	start := at + n
	end := start + length
	if end > len(body) {
		return at, CausePropertyBlockPastEnd
	}
	// The capacity ends with the block: appending must not overwrite the bytes after it.
	block := body[start:end:end]
	seen, at, cause := checkBlock(block, where)
	if cause != causeNone {
		return start + at, cause
	}
	p.block, p.seen = block, seen|mode
	return end, causeNone
}

// checkBlock validates encoded properties.
func checkBlock(block []byte, where place) (seen uint32, at int, cause Cause) {
	for at < len(block) {
		id := block[at]
		// Every identifier fits in one byte. A longer encoding is as malformed as an unknown identifier.
		if int(id) >= len(propertyRows) {
			return 0, at, CausePropertyUnknown
		}
		row := &propertyRows[id]
		if row.places>>where&1 == 0 {
			if row.name == "" {
				return 0, at, CausePropertyUnknown
			}
			return 0, at, CausePropertyNotAllowed
		}
		if seen&row.bit != 0 && row.repeats>>where&1 == 0 {
			return 0, at, CausePropertyRepeated
		}
		seen |= row.bit
		at++
		n, failedAt, cause := checkValue(row, block[at:])
		if cause != causeNone {
			return 0, at + failedAt, cause
		}
		at += n
	}
	if seen&AuthenticationData.bit() != 0 && seen&AuthenticationMethod.bit() == 0 {
		return 0, 0, CauseAuthenticationDataAlone
	}
	return seen, 0, causeNone
}

// checkValue validates the value at the start of b, and returns its length or the position of the fault.
func checkValue(row *propertyRow, b []byte) (n, failedAt int, cause Cause) {
	isFaulty := false
	switch row.dataType {
	case PropertyByte:
		if len(b) < 1 {
			return 0, 0, CausePropertyPastBlock
		}
		n, isFaulty = 1, b[0] > 1
	case PropertyTwoByteInteger:
		if len(b) < 2 {
			return 0, 0, CausePropertyPastBlock
		}
		n, isFaulty = 2, b[0]|b[1] == 0
	case PropertyFourByteInteger:
		if len(b) < 4 {
			return 0, 0, CausePropertyPastBlock
		}
		n, isFaulty = 4, b[0]|b[1]|b[2]|b[3] == 0
	case PropertyVariableByteInteger:
		var value int
		value, n, cause = readVarint(b)
		if cause == CauseIncomplete {
			return 0, 0, CausePropertyPastBlock
		} else if cause != causeNone {
			return 0, 0, cause
		}
		isFaulty = value == 0
	case PropertyUTF8String:
		n, failedAt, cause = checkText(b)
		if cause == causeNone && row.fault == CauseResponseTopicInvalid {
			if at := responseTopicFault(viewString(b[2:n])); at >= 0 {
				return 0, 2 + at, CauseResponseTopicInvalid
			}
		}
		return n, failedAt, cause
	case PropertyUTF8StringPair:
		if n, failedAt, cause = checkText(b); cause != causeNone {
			return 0, failedAt, cause
		}
		nameLen := n
		n, failedAt, cause = checkText(b[nameLen:])
		return nameLen + n, nameLen + failedAt, cause
	default:
		if n = fieldLen(b); n == 0 {
			return 0, 0, CausePropertyPastBlock
		}
	}
	if isFaulty && row.fault != causeNone {
		return 0, 0, row.fault
	}
	return n, 0, causeNone
}

// fieldLen returns the length of the string or binary field at the start of b, with its length prefix; 0 if it exceeds b.
func fieldLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if n := 2 + (int(b[0])<<8 | int(b[1])); n <= len(b) {
		return n
	}
	return 0
}

func checkText(b []byte) (n, failedAt int, cause Cause) {
	if n = fieldLen(b); n == 0 {
		return 0, 0, CausePropertyPastBlock
	}
	if isPlainASCII(b[2:n]) {
		return n, 0, causeNone
	}
	cause, failedAt = textFaultSlowly(b[2:n])
	return n, 2 + failedAt, cause
}

// cloneInto copies the block to the end of a buffer with enough capacity, and returns the buffer.
func (p *props) cloneInto(buffer []byte) ([]byte, props) {
	start := len(buffer)
	buffer = append(buffer, p.block...)
	return buffer, props{block: slices.Clip(buffer[start:]), seen: p.seen &^ viewBit}
}
