package client

import (
	"context"
	"fmt"
	"time"

	"github.com/tautwire/tautwire/clients/go/internal/session"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// Publication is a message to publish. What it refers to may be used again once the call that takes it has returned.
type Publication struct {
	Topic   string
	Payload []byte
	QoS     packets.QoS
	// Retain asks the server to keep the message for later subscriptions; with an empty payload, to keep none.
	Retain bool

	// What follows needs MQTT 5.0, and is left away if it is zero.

	// Expiry is how long the message is of use, rounded up to seconds; 0 for ever. Waiting to be sent counts. With a time that is over,
	// such as that until a deadline in the past, publishing fails with [ErrExpired].
	Expiry time.Duration
	// Text says that the payload is UTF-8 text.
	Text            bool
	ContentType     string
	ResponseTopic   string
	CorrelationData []byte
	UserProperties  []UserProperty
}

// String shows the size of the payload and of the correlation data, and not what is in them.
func (m Publication) String() string {
	return fmt.Sprintf("{Topic:%q Payload:%d bytes QoS:%d Retain:%v Expiry:%v Text:%v ContentType:%q ResponseTopic:%q "+
		"CorrelationData:%d bytes UserProperties:%d}", m.Topic, len(m.Payload), m.QoS, m.Retain, m.Expiry, m.Text, m.ContentType,
		m.ResponseTopic, len(m.CorrelationData), len(m.UserProperties))
}

// GoString gives the same as String, because payloads do not belong into logs.
func (m Publication) GoString() string { return "client.Publication" + m.String() }

// encode fills a packet.
func (m *Publication) encode(p *packets.Publish, version packets.Version) error {
	if m.Expiry < 0 {
		return failure(ErrExpired, "publish", "Expiry is %v", m.Expiry)
	}
	if err := p.SetTopic(m.Topic); err != nil {
		return err
	}
	if err := p.SetQoS(m.QoS); err != nil {
		return err
	}
	p.SetPayload(m.Payload)
	p.SetRetain(m.Retain)
	p.SetVersion(version)
	if m.Expiry == 0 && !m.Text && m.ContentType == "" && m.ResponseTopic == "" && m.CorrelationData == nil &&
		len(m.UserProperties) == 0 {
		return nil
	}
	return m.encodeProperties(p)
}

func (m *Publication) encodeProperties(p *packets.Publish) error {
	if m.Text {
		if err := p.SetPayloadFormat(packets.PayloadUTF8); err != nil {
			return err
		}
	}
	if m.Expiry > 0 {
		p.SetMessageExpiryInterval(seconds(m.Expiry))
	}
	if m.ContentType != "" {
		if err := p.SetContentType(m.ContentType); err != nil {
			return err
		}
	}
	if m.ResponseTopic != "" {
		if err := p.SetResponseTopic(m.ResponseTopic); err != nil {
			return err
		}
	}
	if m.CorrelationData != nil {
		if err := p.SetCorrelationData(m.CorrelationData); err != nil {
			return err
		}
	}
	for _, property := range m.UserProperties {
		if err := p.AddUserProperty(property.Name, property.Value); err != nil {
			return err
		}
	}
	return nil
}

// Publish publishes a message and waits until the server has taken it over: at QoS 1 for PUBACK, at QoS 2 for PUBCOMP. At
// QoS 0 it returns when the message is on its way to the connection. If ctx ends first the error is [ErrCanceled] for a
// message that was not sent, and will not be, and [ErrUnacknowledged] for one that was.
func (c *Client) Publish(ctx context.Context, m Publication) error {
	if m.QoS == packets.AtMostOnce {
		return c.publishNow(ctx, &m)
	}
	token, err := c.PublishAsync(ctx, m)
	if err != nil {
		return err
	}
	_, err = token.Wait(ctx)
	return err
}

// publishNow puts a QoS 0 message into the output.
func (c *Client) publishNow(ctx context.Context, m *Publication) error {
	if ctx.Err() != nil {
		return contextError(ErrCanceled, "publish", ctx)
	}
	var p packets.Publish
	if err := m.encode(&p, c.options.Version); err != nil {
		return fromSession("publish", err)
	}
	c.mutex.Lock()
	if c.current != nil && c.session.OutputIsFull() {
		c.mutex.Unlock()
		c.stats.outputFull.Add(1)
		if c.options.RejectWhenFull {
			return failure(ErrOutputFull, "publish", "MaxOutputBytes, %d bytes", c.options.Limits.MaxOutputBytes)
		}
		c.beginWait()
		err := c.await(ctx, func() bool { return c.ended || c.current == nil || !c.session.OutputIsFull() })
		c.endWait()
		if err != nil {
			return wrap(ErrCanceled, "publish", err)
		}
	}
	defer c.mutex.Unlock()
	switch {
	case c.ended:
		return closedError("publish", c.failure)
	case c.current != nil:
		if err := c.session.SendNow(&p); err != nil {
			return fromSession("publish", err)
		}
		c.stats.sent.Add(1)
		c.wakeWriter()
		return nil
	case !c.options.QueueQoS0:
		c.stats.notConnected.Add(1)
		return failure(ErrNotConnected, "publish", "QoS 0 waits for one only with Options.QueueQoS0")
	}
	queued, err := session.NewOutgoing(&p, c.options.Version, time.Now())
	if err == nil {
		err = c.session.Enqueue(queued, time.Now())
	}
	return fromSession("publish", err)
}

// Token is a message of QoS 1 or 2 on its way.
type Token struct {
	client  *Client
	message *session.Outgoing
}

// PublishAsync queues a message, and returns before it is delivered. At QoS 1 and 2 it waits for room in the queue, unless
// the options say [Options.RejectWhenFull]; ctx bounds that, and nothing else. If there is a store, the message is in it before it is
// sent and, where there is no connection, before PublishAsync returns; [ErrStore] means that it will not be sent. At QoS 0 the token
// is done.
func (c *Client) PublishAsync(ctx context.Context, m Publication) (*Token, error) {
	if m.QoS == packets.AtMostOnce {
		if err := c.publishNow(ctx, &m); err != nil {
			return nil, err
		}
		return &Token{client: c}, nil
	}
	if ctx.Err() != nil {
		return nil, contextError(ErrCanceled, "publish", ctx)
	}
	var p packets.Publish
	if err := m.encode(&p, c.options.Version); err != nil {
		return nil, fromSession("publish", err)
	}
	queued, err := session.NewOutgoing(&p, c.options.Version, time.Now())
	if err != nil {
		return nil, invalid("publish", err)
	}
	size := p.Size()
	c.mutex.Lock()
	if !c.options.RejectWhenFull && !c.ended && !c.mayEnqueue(size) {
		c.session.Counters.QueueFull++
		c.queueWaiters++
		c.mutex.Unlock()
		c.beginWait()
		err := c.await(ctx, func() bool { return c.ended || c.mayEnqueueNow(size) })
		c.endWait()
		if err != nil {
			c.mutex.Lock()
			c.queueWaiters--
			c.mutex.Unlock()
			return nil, wrap(ErrCanceled, "publish", err)
		}
		c.queueWaiters--
	}
	if c.ended {
		defer c.mutex.Unlock()
		return nil, closedError("publish", c.failure)
	}
	err = c.session.Enqueue(queued, time.Now())
	offline := c.current == nil
	c.wakeWriter()
	c.mutex.Unlock()
	if err != nil {
		return nil, fromSession("publish", err)
	}
	if offline && c.options.Store != nil {
		if err := c.options.Store.Sync(); err != nil && c.withdraw(queued, wrap(ErrStore, "publish", err)) {
			// What is told to have failed must not be sent after all: the caller may publish it again.
			return nil, wrap(ErrStore, "publish", err)
		}
	}
	return &Token{client: c, message: queued}, nil
}

// mayEnqueue says whether a message may be queued that has not waited for it. Who waits already goes first. The mutex is held.
func (c *Client) mayEnqueue(size int) bool {
	return c.session.HasRoom(size) && (c.queueWaiters == 0 || c.mayEnqueueNow(size))
}

// mayEnqueueNow says whether it is worth waking those who wait for room: not for each message that leaves a full queue, as long as messages
// do leave it.
func (c *Client) mayEnqueueNow(size int) bool {
	return c.session.HasRoom(size) && (c.current == nil || c.session.HasMuchRoom())
}

// Done gives a channel that is closed when the message is delivered, or will not be. See [Token.Err] and [Token.Wait].
func (t *Token) Done() <-chan struct{} {
	if t.message == nil {
		return closedChannel
	}
	t.client.mutex.Lock()
	defer t.client.mutex.Unlock()
	return t.message.Done()
}

var closedChannel = func() chan struct{} {
	channel := make(chan struct{})
	close(channel)
	return channel
}()

// Err says why the message was not delivered; nil if it was, and as long as that is open.
func (t *Token) Err() error {
	_, err, _ := t.result()
	return err
}

func (t *Token) result() (reason packets.ReasonCode, err error, done bool) {
	if t.message == nil {
		return packets.ReasonSuccess, nil, true
	}
	t.client.mutex.Lock()
	reason, err, done = t.message.Result()
	t.client.mutex.Unlock()
	switch {
	case err != nil:
		err = fromSession("publish", err)
	case reason.IsError():
		err = &Error{Code: ErrPublishRefused, Operation: "publish", Reason: reason}
	}
	return reason, err, done
}

// Wait waits until the message is delivered. It gives the server's reason code, which may be [packets.ReasonNoMatchingSubscribers], or
// the error for which the message was not delivered. If ctx ends first, see [Client.Publish].
func (t *Token) Wait(ctx context.Context) (packets.ReasonCode, error) {
	if reason, err, done := t.result(); done {
		return reason, err
	}
	t.client.beginWait()
	defer t.client.endWait()
	select {
	case <-t.Done():
		reason, err, _ := t.result()
		return reason, err
	case <-ctx.Done():
	}
	if t.Cancel() {
		return packets.ReasonUnspecifiedError, contextError(ErrCanceled, "publish", ctx)
	}
	if reason, err, done := t.result(); done {
		return reason, err
	}
	return packets.ReasonUnspecifiedError, contextError(ErrUnacknowledged, "publish", ctx)
}

// Cancel withdraws a message that has not been sent, and says whether it was so. The token is done then.
func (t *Token) Cancel() bool {
	return t.message != nil && t.client.withdraw(t.message, failure(ErrCanceled, "publish", "it was withdrawn"))
}

// withdraw ends a message with err, unless it has been sent.
func (c *Client) withdraw(m *session.Outgoing, err error) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !c.session.Abandon(m, err) {
		return false
	}
	if c.queueWaiters > 0 {
		c.broadcast()
	}
	return true
}
