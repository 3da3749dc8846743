package packets_test

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// jsonPacket is a packet in the format of the vectors. Their README describes the fields.
type jsonPacket struct {
	Type           string         `json:"type"`
	CleanStart     bool           `json:"clean_start"`
	KeepAliveS     uint16         `json:"keep_alive_s"`
	ClientID       *string        `json:"client_id"`
	ClientIDParts  []part         `json:"client_id_parts"`
	Will           *jsonWill      `json:"will"`
	UserName       *string        `json:"user_name"`
	UserNameParts  []part         `json:"user_name_parts"`
	PasswordHex    *string        `json:"password_hex"`
	PasswordParts  []part         `json:"password_parts"`
	SessionPresent bool           `json:"session_present"`
	Reason         uint8          `json:"reason"`
	Dup            bool           `json:"dup"`
	QoS            uint8          `json:"qos"`
	Retain         bool           `json:"retain"`
	PacketID       *uint16        `json:"packet_id"`
	Topic          *string        `json:"topic"`
	TopicParts     []part         `json:"topic_parts"`
	PayloadHex     string         `json:"payload_hex"`
	PayloadParts   []part         `json:"payload_parts"`
	Requests       []jsonRequest  `json:"requests"`
	Filters        []jsonText     `json:"filters"`
	Reasons        []uint8        `json:"reasons"`
	Properties     []jsonProperty `json:"properties"`
}

type jsonWill struct {
	Topic        *string        `json:"topic"`
	TopicParts   []part         `json:"topic_parts"`
	PayloadHex   string         `json:"payload_hex"`
	PayloadParts []part         `json:"payload_parts"`
	QoS          uint8          `json:"qos"`
	Retain       bool           `json:"retain"`
	Properties   []jsonProperty `json:"properties"`
}

type jsonRequest struct {
	Filter            *string `json:"filter"`
	FilterParts       []part  `json:"filter_parts"`
	QoS               uint8   `json:"qos"`
	NoLocal           bool    `json:"no_local"`
	RetainAsPublished bool    `json:"retain_as_published"`
	RetainHandling    uint8   `json:"retain_handling"`
}

type jsonProperty struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

type part struct {
	Hex    string `json:"hex"`
	Repeat string `json:"repeat"`
	Count  int    `json:"count"`
}

// jsonText is a string, or an object with its parts.
type jsonText string

func (j *jsonText) UnmarshalJSON(b []byte) error {
	var object struct {
		Hex   string `json:"hex"`
		Parts []part `json:"parts"`
	}
	if err := json.Unmarshal(b, &object); err == nil {
		*j = jsonText(string(join(object.Hex, object.Parts)))
		return nil
	}
	return json.Unmarshal(b, (*string)(j))
}

// join returns the bytes of hexadecimal digits, or of parts.
func join(digits string, parts []part) []byte {
	for _, p := range parts {
		digits += p.Hex + strings.Repeat(p.Repeat, p.Count)
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	return b
}

// text returns a string or its parts; nil if there is neither.
func text(plain *string, parts []part) *string {
	if plain == nil && parts != nil {
		joined := string(join("", parts))
		return &joined
	}
	return plain
}

// flat is the form for comparison: only plain values.
type flat struct {
	Type           string
	CleanStart     bool
	KeepAliveS     uint16
	ClientID       string
	Will           *flatWill
	UserName       *string
	Password       *string
	SessionPresent bool
	Reason         uint8
	Dup            bool
	QoS            uint8
	Retain         bool
	PacketID       uint16
	Topic          string
	Payload        string
	Requests       []flatRequest
	Filters        []string
	Reasons        []uint8
	Properties     []flatProperty
}

type flatWill struct {
	Topic, Payload string
	QoS            uint8
	Retain         bool
	Properties     []flatProperty
}

type flatRequest struct {
	Filter  string
	Options packets.SubscriptionOptions
}

type flatProperty struct {
	Name, Key, Text string
	Number          uint32
}

func (j *jsonPacket) flat() flat {
	f := flat{
		Type: j.Type, CleanStart: j.CleanStart, KeepAliveS: j.KeepAliveS, SessionPresent: j.SessionPresent,
		Reason: j.Reason, Dup: j.Dup, QoS: j.QoS, Retain: j.Retain, Reasons: j.Reasons,
		UserName:   text(j.UserName, j.UserNameParts),
		Payload:    string(join(j.PayloadHex, j.PayloadParts)),
		Properties: flatProperties(j.Properties),
	}
	if clientID := text(j.ClientID, j.ClientIDParts); clientID != nil {
		f.ClientID = *clientID
	}
	if topic := text(j.Topic, j.TopicParts); topic != nil {
		f.Topic = *topic
	}
	if j.PacketID != nil {
		f.PacketID = *j.PacketID
	}
	if j.PasswordHex != nil {
		password := string(join(*j.PasswordHex, nil))
		f.Password = &password
	} else if j.PasswordParts != nil {
		password := string(join("", j.PasswordParts))
		f.Password = &password
	}
	if w := j.Will; w != nil {
		f.Will = &flatWill{
			Topic: *text(w.Topic, w.TopicParts), Payload: string(join(w.PayloadHex, w.PayloadParts)),
			QoS: w.QoS, Retain: w.Retain, Properties: flatProperties(w.Properties),
		}
	}
	for _, r := range j.Requests {
		f.Requests = append(f.Requests, flatRequest{*text(r.Filter, r.FilterParts), packets.SubscriptionOptions{
			QoS: packets.QoS(r.QoS), NoLocal: r.NoLocal, RetainAsPublished: r.RetainAsPublished,
			RetainHandling: packets.RetainHandling(r.RetainHandling),
		}})
	}
	for _, filter := range j.Filters {
		f.Filters = append(f.Filters, string(filter))
	}
	if len(f.Reasons) == 0 {
		f.Reasons = nil
	}
	return f
}

func flatProperties(list []jsonProperty) (flats []flatProperty) {
	for _, property := range list {
		f := flatProperty{Name: property.Name}
		var pair [2]jsonText
		var one jsonText
		switch {
		case json.Unmarshal(property.Value, &f.Number) == nil:
		case json.Unmarshal(property.Value, &pair) == nil:
			f.Key, f.Text = string(pair[0]), string(pair[1])
		case json.Unmarshal(property.Value, &one) == nil:
			f.Text = string(one)
		default:
			panic(string(property.Value))
		}
		flats = append(flats, f)
	}
	return flats
}

// flatten reads a packet through its methods.
func flatten(p packets.Packet) flat {
	f := flat{Type: strings.ToLower(p.Type().String()), Properties: flattenProperties(p.Properties())}
	if id, ok := p.(interface{ PacketID() packets.PacketID }); ok {
		f.PacketID = uint16(id.PacketID())
	}
	if reason, ok := p.(interface{ Reason() packets.ReasonCode }); ok {
		f.Reason = uint8(reason.Reason())
	}
	if reasons, ok := p.(interface{ Reasons() []packets.ReasonCode }); ok {
		for _, reason := range reasons.Reasons() {
			f.Reasons = append(f.Reasons, uint8(reason))
		}
	}
	switch p := p.(type) {
	case *packets.Connect:
		f.CleanStart, f.KeepAliveS, f.ClientID = p.CleanStart(), p.KeepAlive(), p.ClientID()
		if will := p.Will(); will != nil {
			f.Will = &flatWill{will.Topic(), string(will.Payload()), uint8(will.QoS()), will.Retain(),
				flattenProperties(will.Properties())}
		}
		if name, ok := p.UserName(); ok {
			f.UserName = &name
		}
		if password, ok := p.Password(); ok {
			text := string(password)
			f.Password = &text
		}
	case *packets.ConnAck:
		f.SessionPresent = p.SessionPresent()
	case *packets.Publish:
		f.Dup, f.QoS, f.Retain = p.Dup(), uint8(p.QoS()), p.Retain()
		f.Topic, f.Payload = p.Topic(), string(p.Payload())
	case *packets.Subscribe:
		for filter, options := range p.Requests() {
			f.Requests = append(f.Requests, flatRequest{filter, options})
		}
	case *packets.Unsubscribe:
		for filter := range p.Filters() {
			f.Filters = append(f.Filters, filter)
		}
	}
	return f
}

func flattenProperties(list packets.Properties) (flats []flatProperty) {
	for p := range list.All() {
		flats = append(flats, flatProperty{p.ID.String(), p.Name, p.Text + string(p.Data), p.Number})
	}
	return flats
}

// build makes the packet through constructors and setters.
func (f *flat) build(t *testing.T, version packets.Version) packets.Packet {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	var p packets.Packet
	switch f.Type {
	case "connect":
		c, err := packets.NewConnect(f.ClientID)
		must(err)
		c.SetCleanStart(f.CleanStart)
		c.SetKeepAlive(f.KeepAliveS)
		if f.UserName != nil {
			must(c.SetUserName(*f.UserName))
		}
		if f.Password != nil {
			must(c.SetPassword([]byte(*f.Password)))
		}
		if f.Will != nil {
			will, err := packets.NewWill(f.Will.Topic, []byte(f.Will.Payload))
			must(err)
			must(will.SetQoS(packets.QoS(f.Will.QoS)))
			will.SetRetain(f.Will.Retain)
			addProperties(t, will, f.Will.Properties)
			c.SetWill(will)
		}
		p = c
	case "connack":
		c, err := packets.NewConnAck(packets.ReasonCode(f.Reason))
		must(err)
		must(c.SetSessionPresent(f.SessionPresent))
		p = c
	case "publish":
		q := &packets.Publish{}
		// A Topic Alias must be set before the topic may be omitted.
		addProperties(t, q, f.Properties)
		must(q.SetTopic(f.Topic))
		q.SetPayload([]byte(f.Payload))
		must(q.SetQoS(packets.QoS(f.QoS)))
		if f.QoS > 0 {
			must(q.SetPacketID(packets.PacketID(f.PacketID)))
		}
		must(q.SetDup(f.Dup))
		q.SetRetain(f.Retain)
		q.SetVersion(version)
		return q
	case "puback":
		p = &packets.PubAck{}
	case "pubrec":
		p = &packets.PubRec{}
	case "pubrel":
		p = &packets.PubRel{}
	case "pubcomp":
		p = &packets.PubComp{}
	case "subscribe":
		q := &packets.Subscribe{}
		for _, r := range f.Requests {
			must(q.Add(r.Filter, r.Options))
		}
		p = q
	case "suback":
		q := &packets.SubAck{}
		for _, reason := range f.Reasons {
			must(q.Add(packets.ReasonCode(reason)))
		}
		p = q
	case "unsubscribe":
		q := &packets.Unsubscribe{}
		for _, filter := range f.Filters {
			must(q.Add(filter))
		}
		p = q
	case "unsuback":
		q := &packets.UnsubAck{}
		for _, reason := range f.Reasons {
			must(q.Add(packets.ReasonCode(reason)))
		}
		p = q
	case "pingreq":
		p = &packets.PingReq{}
	case "pingresp":
		p = &packets.PingResp{}
	case "disconnect":
		p = &packets.Disconnect{}
	case "auth":
		p = &packets.Auth{}
	}
	if q, ok := p.(interface{ SetPacketID(packets.PacketID) error }); ok {
		must(q.SetPacketID(packets.PacketID(f.PacketID)))
	}
	if q, ok := p.(interface {
		SetReason(packets.ReasonCode) error
	}); ok {
		must(q.SetReason(packets.ReasonCode(f.Reason)))
	}
	if q, ok := p.(propertied); ok {
		addProperties(t, q, f.Properties)
	}
	p.SetVersion(version)
	return p
}

type propertied interface {
	AddProperty(packets.Property) error
}

func addProperties(t *testing.T, p propertied, list []flatProperty) {
	t.Helper()
	for _, f := range list {
		property := packets.Property{ID: propertyIDs[f.Name], Number: f.Number, Name: f.Key, Text: f.Text}
		if property.ID.Type() == packets.PropertyBinaryData {
			property.Text, property.Data = "", []byte(f.Text)
		}
		if err := p.AddProperty(property); err != nil {
			t.Fatal(err)
		}
	}
}

var propertyIDs = func() map[string]packets.PropertyID {
	ids := map[string]packets.PropertyID{}
	for id := range packets.PropertyID(0x2B) {
		if id.Type() != 0 {
			ids[id.String()] = id
		}
	}
	return ids
}()
