package client

import (
	"context"
	"fmt"
	"time"

	"github.com/tautwire/tautwire/clients/go/internal/session"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// Publication is a message to publish. Its slices may be reused once the call that takes it has returned.
type Publication struct {
	Topic   string
	Payload []byte
	QoS     packets.QoS
	// Retain asks the server to retain the message for later subscriptions; an empty payload deletes the retained message.
	Retain bool

	// The following fields require MQTT 5.0, and are omitted if they are zero.

	// Expiry is the message expiry interval, rounded up to seconds; 0 for none. Time in the queue counts. With a negative value, such as the
	// time until a deadline in the past, publishing fails with [ErrExpired].
	Expiry time.Duration
	// Text marks the payload as UTF-8 text.
	Text            bool
	ContentType     string
	ResponseTopic   string
	CorrelationData []byte
	UserProperties  []UserProperty
}

// String shows the size of the payload and of the correlation data, not their content.
func (m Publication) String() string {
	return fmt.Sprintf("{Topic:%q Payload:%d bytes QoS:%d Retain:%v Expiry:%v Text:%v ContentType:%q ResponseTopic:%q "+
		"CorrelationData:%d bytes UserProperties:%d}", m.Topic, len(m.Payload), m.QoS, m.Retain, m.Expiry, m.Text, m.ContentType,
		m.ResponseTopic, len(m.CorrelationData), len(m.UserProperties))
}

// GoString returns the same as String, because payloads do not belong in logs.
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

// Publish publishes a message and waits until the server has accepted it: at QoS 1 for PUBACK, at QoS 2 for PUBCOMP. At QoS 0 it returns
// when the message is in the output of the connection. If ctx ends first, the error is [ErrCanceled] for a message that was not sent, and
// will not be, and [ErrUnacknowledged] for one that was.
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

// publishNow writes a QoS 0 message to the output.
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
			return failure(ErrOutputFull, "publish", "Limits.MaxOutputBytes is %d", c.options.Limits.MaxOutputBytes)
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
		return failure(ErrNotConnected, "publish", "set Options.QueueQoS0 to queue QoS 0 messages")
	}
	queued, err := session.NewOutgoing(&p, c.options.Version, time.Now())
	if err == nil {
		err = c.session.Enqueue(queued, time.Now())
	}
	return fromSession("publish", err)
}

// Token is the handle of a QoS 1 or 2 message.
type Token struct {
	client  *Client
	message *session.Outgoing
}

// PublishAsync queues a message and returns before it is delivered. At QoS 1 and 2 it waits for room in the queue, unless
// [Options.RejectWhenFull] is set; ctx limits only that wait. If there is a store, the message is in it before it is sent and, without a
// connection, before PublishAsync returns; [ErrStore] means that it will not be sent. At QoS 0 the token is already done.
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
			// A message that is reported as failed must not be sent: the caller may publish it again.
			return nil, wrap(ErrStore, "publish", err)
		}
	}
	return &Token{client: c, message: queued}, nil
}

// mayEnqueue reports whether a new message may be queued without waiting. Waiters come first. The mutex is held.
func (c *Client) mayEnqueue(size int) bool {
	return c.session.HasRoom(size) && (c.queueWaiters == 0 || c.mayEnqueueNow(size))
}

// mayEnqueueNow reports whether to wake the waiters: not for each message that leaves a full queue, as long as messages do leave it.
func (c *Client) mayEnqueueNow(size int) bool {
	return c.session.HasRoom(size) && (c.current == nil || c.session.HasMuchRoom())
}

// Done returns a channel that is closed when the message is delivered or has failed. See [Token.Err] and [Token.Wait].
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

// Err returns why the message was not delivered; nil if it was, or if it is still pending.
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

// Wait waits until the message is delivered. It returns the server's reason code, which may be [packets.ReasonNoMatchingSubscribers], or
// the error. If ctx ends first, see [Client.Publish].
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

// Cancel withdraws a message that has not been sent, and reports whether it did. The token is then done.
func (t *Token) Cancel() bool {
	return t.message != nil && t.client.withdraw(t.message, failure(ErrCanceled, "publish", "the token was cancelled"))
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
