package session

// list is an ordered list of outgoing messages. A message is in one list at most.
type list struct {
	first, last *Outgoing
	length      int
}

func (l *list) append(m *Outgoing) {
	m.previous, m.next = l.last, nil
	if l.last == nil {
		l.first = m
	} else {
		l.last.next = m
	}
	l.last = m
	l.length++
}

func (l *list) remove(m *Outgoing) {
	if m.previous == nil {
		l.first = m.next
	} else {
		m.previous.next = m.next
	}
	if m.next == nil {
		l.last = m.previous
	} else {
		m.next.previous = m.previous
	}
	m.previous, m.next = nil, nil
	l.length--
}

// join appends all of other, which is empty then.
func (l *list) join(other *list) {
	switch {
	case other.first == nil:
	case l.first == nil:
		*l = *other
	default:
		l.last.next, other.first.previous = other.first, l.last
		l.last = other.last
		l.length += other.length
	}
	*other = list{}
}
