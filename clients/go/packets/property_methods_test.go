package packets_test

import (
	"iter"
	"reflect"
	"slices"
	"testing"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// carriers are all types with properties.
func carriers() map[string]any {
	return map[string]any{
		"Connect": &packets.Connect{}, "Will": &packets.Will{}, "ConnAck": &packets.ConnAck{}, "Publish": &packets.Publish{},
		"PubAck": &packets.PubAck{}, "PubRec": &packets.PubRec{}, "PubRel": &packets.PubRel{}, "PubComp": &packets.PubComp{},
		"Subscribe": &packets.Subscribe{}, "SubAck": &packets.SubAck{}, "Unsubscribe": &packets.Unsubscribe{},
		"UnsubAck": &packets.UnsubAck{}, "Disconnect": &packets.Disconnect{}, "Auth": &packets.Auth{},
	}
}

// methodNames are the getters of properties. Repeatable properties have others.
var methodNames = map[packets.PropertyID]string{
	packets.PayloadFormatIndicator: "PayloadFormat", packets.MessageExpiryInterval: "MessageExpiryInterval",
	packets.ContentType: "ContentType", packets.ResponseTopic: "ResponseTopic", packets.CorrelationData: "CorrelationData",
	packets.SubscriptionIdentifier: "SubscriptionIdentifier", packets.SessionExpiryInterval: "SessionExpiryInterval",
	packets.AssignedClientIdentifier: "AssignedClientIdentifier", packets.ServerKeepAlive: "ServerKeepAlive",
	packets.AuthenticationMethod: "AuthenticationMethod", packets.AuthenticationData: "AuthenticationData",
	packets.RequestProblemInformation: "RequestProblemInformation", packets.WillDelayInterval: "WillDelayInterval",
	packets.RequestResponseInformation: "RequestResponseInformation", packets.ResponseInformation: "ResponseInformation",
	packets.ServerReference: "ServerReference", packets.ReasonString: "ReasonString", packets.ReceiveMaximum: "ReceiveMaximum",
	packets.TopicAliasMaximum: "TopicAliasMaximum", packets.TopicAlias: "TopicAlias", packets.MaximumQoS: "MaximumQoS",
	packets.RetainAvailable: "RetainAvailable", packets.MaximumPacketSize: "MaximumPacketSize",
	packets.WildcardSubscriptionAvailable:   "WildcardSubscriptionAvailable",
	packets.SubscriptionIdentifierAvailable: "SubscriptionIdentifierAvailable",
	packets.SharedSubscriptionAvailable:     "SharedSubscriptionAvailable",
}

func TestPropertyMethodsExistExactlyOnPacketsThatAllowThem(t *testing.T) {
	for name := range carriers() {
		for id, method := range methodNames {
			p := carriers()[name]
			where := name + "." + method
			setter := reflect.ValueOf(p).MethodByName("Set" + method)
			sample := packets.Property{ID: id, Number: 1, Text: "text", Data: []byte("data")}
			err := p.(propertied).AddProperty(sample)
			isRepeated := id == packets.SubscriptionIdentifier && name == "Publish"
			if setter.IsValid() != (err == nil && !isRepeated) {
				t.Errorf("%s: setter %v, and AddProperty says %v", where, setter.IsValid(), err)
				continue
			}
			if setter.IsValid() {
				setAndGet(t, where, carriers()[name], id, method)
			}
		}
		users(t, name, carriers()[name])
	}
}

// setAndGet sets twice, and expects only the last value.
func setAndGet(t *testing.T, where string, p any, id packets.PropertyID, method string) {
	t.Helper()
	value := reflect.ValueOf(p)
	setter, getter := value.MethodByName("Set"+method), value.MethodByName(method)
	var want reflect.Value
	for _, number := range []uint64{1, 0, 1} {
		want = reflect.New(setter.Type().In(0)).Elem()
		switch want.Kind() {
		case reflect.Bool:
			want.SetBool(number == 1)
		case reflect.String:
			want.SetString("text" + string(rune('0'+number)))
		case reflect.Slice:
			want.SetBytes([]byte{byte(number)})
		default:
			want.SetUint(number)
		}
		setter.Call([]reflect.Value{want})
	}
	got := getter.Call(nil)
	if !reflect.DeepEqual(got[0].Interface(), want.Interface()) || len(got) == 2 && !got[1].Bool() {
		t.Errorf("%s: %v is there, and %v was set", where, got, want)
	}
	list := p.(interface{ Properties() packets.Properties }).Properties()
	count := 0
	for property := range list.All() {
		if property.ID == id {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%s: it is there %d times", where, count)
	}
}

// users expects user properties in order, and that SetProperties copies and RemoveProperty removes
// them.
func users(t *testing.T, name string, carrier any) {
	t.Helper()
	p := carrier.(interface {
		AddUserProperty(name, value string) error
		UserProperties() iter.Seq2[string, string]
		RemoveProperty(packets.PropertyID)
		SetProperties(packets.Properties) error
		Properties() packets.Properties
	})
	want := []string{"a", "1", "b", "2", "a", "3"}
	for i := 0; i < len(want); i += 2 {
		if err := p.AddUserProperty(want[i], want[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	list := p.Properties()
	if p.RemoveProperty(packets.UserProperty); !p.Properties().IsEmpty() {
		t.Errorf("%s: %s has not been removed", name, p.Properties())
	}
	if err := p.SetProperties(list); err != nil {
		t.Error(err)
	}
	var got []string
	for name, value := range p.UserProperties() {
		got = append(got, name, value)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v", name, got)
	}
}
