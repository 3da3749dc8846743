package session

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client/store"
	"github.com/tautwire/tautwire/clients/go/packets"
)

var start = time.Unix(1_000_000, 0)

func TestIdentifiersAreNotReusedWhileInUse(t *testing.T) {
	s := made(nil)
	connect(s, true, 3)
	first := publish(t, s, "a", packets.AtLeastOnce)
	s.lastID = 65_534
	second := publish(t, s, "a", packets.AtLeastOnce)
	third := publish(t, s, "a", packets.AtLeastOnce)
	if first.id != 1 || second.id != 65_535 || third.id != 2 {
		t.Fatalf("got %d, %d, %d", first.id, second.id, third.id)
	}
	if request := s.NewRequest(); request != 3 {
		t.Fatalf("the request got %d", request)
	}
}

func TestWindowDelaysOnlyPublishes(t *testing.T) {
	s := made(nil)
	connect(s, true, 2)
	for range 4 {
		publish(t, s, "a", packets.ExactlyOnce)
	}
	expect(t, s, "PUBLISH 1", "PUBLISH 2")
	s.OnPubRec(1, packets.ReasonSuccess, start)
	expect(t, s, "PUBREL 1") // [MQTT-3.3.4-8]
	s.OnPubRec(2, packets.ReasonQuotaExceeded, start)
	expect(t, s, "PUBLISH 3") // [MQTT-4.9.0-2]: a refusal frees its place, PUBREC does not.
	s.OnPubComp(1, start)
	expect(t, s, "PUBLISH 4")
	s.OnPubComp(1, start)
	s.OnPubComp(4, start)
	s.OnPubAck(3, packets.ReasonSuccess, start)
	expect(t, s)
}

func TestResumedSessionSendsReleasesThenMessagesInOrder(t *testing.T) {
	s := made(nil)
	connect(s, true, 10)
	for range 4 {
		publish(t, s, "a", packets.ExactlyOnce)
	}
	s.OnPubRec(3, packets.ReasonSuccess, start)
	s.OnPubRec(1, packets.ReasonSuccess, start)
	take(s)
	s.Disconnected()
	waiting := publish(t, s, "a", packets.AtLeastOnce)
	connect(s, true, 3)
	expect(t, s, "PUBREL 3", "PUBREL 1", "PUBLISH 2 dup")
	s.OnPubComp(3, start)
	expect(t, s, "PUBLISH 4 dup")
	s.OnPubComp(1, start)
	expect(t, s, "PUBLISH 5")
	s.OnPubAck(5, packets.ReasonSuccess, start)
	if _, err, done := waiting.Result(); !done || err != nil {
		t.Fatalf("%v, %v", done, err)
	}
}

func TestAcknowledgementOfAnUnsentMessageCounts(t *testing.T) {
	s := made(nil)
	connect(s, true, 10)
	for range 3 {
		publish(t, s, "a", packets.AtLeastOnce)
	}
	s.Disconnected()
	connect(s, true, 1)
	expect(t, s, "PUBLISH 1 dup")
	s.OnPubAck(2, packets.ReasonSuccess, start)
	expect(t, s)
	s.OnPubAck(1, packets.ReasonSuccess, start)
	expect(t, s, "PUBLISH 3 dup")
}

func TestResentMessageIsDeliveredOnce(t *testing.T) {
	for _, qos := range []packets.QoS{packets.AtLeastOnce, packets.ExactlyOnce} {
		ack := map[packets.QoS]string{packets.AtLeastOnce: "PUBACK ", packets.ExactlyOnce: "PUBREC "}[qos]
		s := made(nil)
		connect(s, true, 10)
		first, _ := s.OnPublish(1, qos, false, 1)
		second, _ := s.OnPublish(2, qos, false, 1)
		if again, _ := s.OnPublish(2, qos, true, 1); first == nil || second == nil || again != nil {
			t.Fatal("the second was delivered twice")
		}
		s.Disconnected()
		s.Ack(second, packets.ReasonSuccess)
		connect(s, true, 10)
		// They arrive in their order, which is then that of the acknowledgements.
		if again, _ := s.OnPublish(1, qos, true, 1); again != nil {
			t.Fatal("the first was delivered twice")
		}
		if again, _ := s.OnPublish(2, qos, true, 1); again != nil {
			t.Fatal("the second was delivered twice")
		}
		expect(t, s)
		s.Ack(first, packets.ReasonSuccess)
		expect(t, s, ack+"1", ack+"2")
		if qos == packets.AtLeastOnce {
			// [MQTT-4.3.2-5]
			if m, _ := s.OnPublish(1, qos, true, 1); m == nil {
				t.Fatal("after PUBACK it is another message")
			}
			continue
		}
		if m, _ := s.OnPublish(1, qos, true, 1); m != nil {
			t.Fatal("[MQTT-4.3.3-10]")
		}
		expect(t, s, "PUBREC 1")
		s.OnPubRel(1)
		s.OnPubRel(1)
		expect(t, s, "PUBCOMP 1", "PUBCOMP 1 0x92")
		if m, _ := s.OnPublish(1, qos, true, 1); m == nil {
			t.Fatal("[MQTT-4.3.3-12]")
		}
	}
}

func TestIdentifierOfALostSessionIsAnotherMessage(t *testing.T) {
	s := made(nil)
	connect(s, true, 10)
	old, _ := s.OnPublish(1, packets.ExactlyOnce, false, 1)
	s.Disconnected()
	connect(s, false, 10)
	fresh, _ := s.OnPublish(1, packets.ExactlyOnce, false, 1)
	if fresh == nil {
		t.Fatal("it was mistaken for the old one")
	}
	s.Ack(old, packets.ReasonSuccess)
	expect(t, s)
	s.Ack(fresh, packets.ReasonPayloadFormatInvalid)
	expect(t, s, "PUBREC 1 0x99")
	if m, _ := s.OnPublish(1, packets.ExactlyOnce, false, 1); m == nil {
		t.Fatal("[MQTT-4.3.3-9]")
	}
}

func TestAllReceiversMustAcknowledge(t *testing.T) {
	s := made(nil)
	connect(s, true, 10)
	m, _ := s.OnPublish(1, packets.AtLeastOnce, false, 3)
	s.Ack(m, packets.ReasonSuccess)
	s.Ack(m, packets.ReasonQuotaExceeded)
	expect(t, s)
	s.Ack(m, packets.ReasonSuccess)
	expect(t, s, "PUBACK 1 0x97")
}

func TestOwnReceiveMaximumIsEnforced(t *testing.T) {
	s := made(nil)
	s.config.ReceiveMaximum = 2
	connect(s, true, 10)
	first, _ := s.OnPublish(1, packets.AtLeastOnce, false, 1)
	_, _ = s.OnPublish(2, packets.ExactlyOnce, false, 1)
	if _, reason := s.OnPublish(3, packets.AtLeastOnce, false, 1); reason != packets.ReasonReceiveMaximumExceeded {
		t.Fatalf("got %v", reason)
	}
	s.Ack(first, packets.ReasonSuccess)
	if m, reason := s.OnPublish(3, packets.AtLeastOnce, false, 1); m == nil || reason != packets.ReasonSuccess {
		t.Fatalf("got %v", reason)
	}
}

func TestExpiryIntervalShrinksWhileWaiting(t *testing.T) {
	s := made(nil)
	p, _ := packets.NewPublish("a", nil)
	p.SetMessageExpiryInterval(100)
	_ = p.SetQoS(packets.AtLeastOnce)
	m, err := NewOutgoing(p, packets.V5, start)
	if err == nil {
		err = s.Enqueue(m, start)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Connected("one", true, limits(10), start.Add(60*time.Second))
	sent := take(s)[0].(*packets.Publish)
	if left, _ := sent.MessageExpiryInterval(); left != 40 {
		t.Fatalf("%d s are left", left)
	}
	// A message that was sent does not expire [MQTT-4.3.3-7].
	s.Disconnected()
	s.Connected("one", true, limits(10), start.Add(200*time.Second))
	expect(t, s, "PUBLISH 1 dup")
}

func TestStoreHasTheStateOfTheSession(t *testing.T) {
	memory := store.NewMemory()
	_, _ = memory.Load()
	s := made(memory)
	connect(s, false, 10)
	for range 3 {
		publish(t, s, "a", packets.ExactlyOnce)
	}
	publish(t, s, "a", packets.AtLeastOnce)
	_, sync := s.TakeOutput(nil, start)
	if !sync {
		t.Fatal("the store is not synced before messages are sent")
	}
	s.OnPubRec(2, packets.ReasonSuccess, start)
	s.OnPubRec(1, packets.ReasonSuccess, start)
	m, _ := s.OnPublish(9, packets.ExactlyOnce, false, 1)
	s.Ack(m, packets.ReasonSuccess)
	late, _ := s.OnPublish(10, packets.ExactlyOnce, false, 1)
	s.Disconnected()
	// It is stored without a connection, too.
	s.Ack(late, packets.ReasonSuccess)
	s.AbandonAll(errors.New("the end"))

	_ = memory.Close()
	state, err := memory.Load()
	if err != nil {
		t.Fatal(err)
	}
	again := New(config(memory), state)
	if again.Held() != 4 {
		t.Fatalf("%d messages are held", again.Held())
	}
	connect(again, true, 10)
	expect(t, again, "PUBREL 2", "PUBREL 1", "PUBLISH 3 dup", "PUBLISH 4 dup")
	for _, id := range []packets.PacketID{9, 10} {
		if m, _ := again.OnPublish(id, packets.ExactlyOnce, true, 1); m != nil {
			t.Fatal("it was delivered again")
		}
	}
	expect(t, again, "PUBREC 9", "PUBREC 10")
}

func TestKeepAlive(t *testing.T) {
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	k := NewKeepAlive(10*time.Second, 3*time.Second, start)
	check := func(seconds float64, wantPing, wantLost bool) {
		t.Helper()
		if ping, lost := k.Check(at(seconds)); ping != wantPing || lost != wantLost {
			t.Fatalf("at %v s: ping %v, lost %v", seconds, ping, lost)
		}
	}
	check(9.9, false, false)
	k.Sent(at(5))
	if next := k.Next(); !next.Equal(at(10)) {
		t.Fatalf("it is next at %v", next)
	}
	// Packets were sent, but none received.
	check(10, true, false)
	check(12.9, false, false)
	check(13, false, true)
	k.Received(at(13))
	check(13, false, false)
	k.Sent(at(14))
	k.Received(at(20))
	check(23.9, false, false)
	// Packets were received, but none sent [MQTT-3.1.2-20].
	check(24, true, false)
	// If the ping timeout is longer than the keep alive, pings continue.
	patient := NewKeepAlive(10*time.Second, 25*time.Second, start)
	for _, step := range []struct {
		at, next    float64
		pings, lost bool
	}{{10, 20, true, false}, {15, 20, false, false}, {20, 30, true, false}, {30, 35, true, false}, {35, 35, false, true}} {
		if ping, lost := patient.Check(at(step.at)); ping != step.pings || lost != step.lost {
			t.Fatalf("at %v s: ping %v, lost %v", step.at, ping, lost)
		} else if ping {
			patient.Sent(at(step.at))
		}
		if next := patient.Next(); !next.Equal(at(step.next)) {
			t.Fatalf("after %v s it is next at %v", step.at, next)
		}
	}
	patient.Received(at(36))
	if next := patient.Next(); !next.Equal(at(40)) {
		t.Fatalf("after an answer it is next at %v", next)
	}
	never := NewKeepAlive(0, time.Second, start)
	if ping, lost := never.Check(at(1e6)); ping || lost || !never.Next().IsZero() {
		t.Fatal("without an interval there are no pings")
	}
}

func config(s store.Store) Config {
	return Config{
		Version: packets.V5, ReceiveMaximum: 100, MaxInFlight: 100, MaxQueuedMessages: 100, MaxQueuedBytes: 1 << 20,
		MaxOutputBytes: 1 << 20, Store: s,
	}
}

func made(s store.Store) *Session { return New(config(s), store.State{}) }

func limits(window int) Limits {
	return Limits{ReceiveMaximum: window, MaximumQoS: 2, RetainAvailable: true, MaximumPacketSize: 1 << 20}
}

func connect(s *Session, present bool, window int) {
	s.Connected("one", present, limits(window), start)
}

func publish(t *testing.T, s *Session, topic string, qos packets.QoS) *Outgoing {
	t.Helper()
	p, _ := packets.NewPublish(topic, nil)
	_ = p.SetQoS(qos)
	m, err := NewOutgoing(p, packets.V5, start)
	if err == nil {
		err = s.Enqueue(m, start)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// take returns the packets sent since the last call.
func take(s *Session) (sent []packets.Packet) {
	output, _ := s.TakeOutput(nil, start)
	reader := bytes.NewReader(output)
	for reader.Len() > 0 {
		p, err := packets.ReadPacket(reader, packets.Options{})
		if err != nil {
			panic(err)
		}
		sent = append(sent, p)
	}
	return sent
}

// expect compares the packets sent since the last call.
func expect(t *testing.T, s *Session, want ...string) {
	t.Helper()
	sent := take(s)
	var got []string
	for _, p := range sent {
		got = append(got, describe(p))
	}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}
