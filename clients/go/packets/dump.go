package packets

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// description collects the fields of a packet, for String and Dump.
type description struct {
	fields []field
}

type field struct {
	name string
	// text is the value on one line.
	text string
	// bytes is what Dump shows in full.
	bytes []byte
}

func (d *description) add(name string, value any) {
	text, isText := value.(string)
	if isText {
		text = fmt.Sprintf("%q", text)
	} else {
		text = fmt.Sprint(value)
	}
	d.fields = append(d.fields, field{name: name, text: text})
}

func (d *description) addIf(is bool, name string, value any) {
	if is {
		d.add(name, value)
	}
}

// payload adds bytes of which String shows the size, and Dump the content.
func (d *description) payload(name string, b []byte) {
	d.fields = append(d.fields, field{name: name, text: sizeOf(b), bytes: b})
}

// secret adds bytes that are never shown.
func (d *description) secret(name string, b []byte) {
	d.fields = append(d.fields, field{name: name, text: sizeOf(b)})
}

func (d *description) properties(prefix string, p Properties) {
	for property := range p.All() {
		name, value, _ := strings.Cut(property.String(), "=")
		d.fields = append(d.fields, field{name: prefix + name, text: value})
	}
}

func sizeOf(b []byte) string { return fmt.Sprintf("<%d bytes>", len(b)) }

func describe(p Packet) *description {
	d := &description{}
	p.describe(d)
	d.properties("", p.Properties())
	return d
}

func oneLine(p Packet) string {
	var line strings.Builder
	line.WriteString(p.Type().String())
	for _, field := range describe(p).fields {
		fmt.Fprintf(&line, " %s=%s", field.name, field.text)
	}
	return line.String()
}

func dump(p Packet) string {
	var lines strings.Builder
	fmt.Fprintf(&lines, "%s, MQTT %s, %d bytes\n", p.Type(), p.Version(), p.Size())
	for _, field := range describe(p).fields {
		fmt.Fprintf(&lines, "  %s: %s\n", field.name, field.text)
		if len(field.bytes) > 0 {
			indent(&lines, hex.Dump(field.bytes))
		}
	}
	if err := p.WellFormed(); err != nil {
		fmt.Fprintf(&lines, "  not well formed: %s\n", err)
	} else if hidesNothing(p) {
		encoded, _ := p.AppendTo(nil)
		lines.WriteString("  on the wire:\n")
		indent(&lines, hex.Dump(encoded))
	}
	return lines.String()
}

// hidesNothing reports whether the packet can contain no secret: CONNECT has the password, and CONNECT, CONNACK and AUTH may
// have authentication data.
func hidesNothing(p Packet) bool {
	return p.Type() != TypeConnect && !p.Properties().Has(AuthenticationData)
}

func indent(lines *strings.Builder, text string) {
	for line := range strings.Lines(text) {
		lines.WriteString("    " + line)
	}
}
