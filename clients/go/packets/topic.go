package packets

import "strings"

const sharePrefix = "$share/"

// CheckTopicName validates a topic name (section 4.7): at least one character, at most 65,535 bytes of UTF-8, without
// wildcards and U+0000. The error is an [*Error] whose Offset is the byte at fault.
func CheckTopicName(name string) error {
	if cause, at := topicNameFault(name); cause != causeNone {
		return &Error{Cause: cause, Offset: at, Field: "topic"}
	}
	return nil
}

func topicNameFault(name string) (Cause, int) {
	if name == "" {
		return CauseTopicMissing, 0
	}
	if len(name) > maxFieldBytes {
		return CauseFieldTooLong, maxFieldBytes
	}
	return topicFault(stringBytes(name))
}

// CheckTopicFilter validates a topic filter (sections 4.7 and 4.8.2): at least one character, at most 65,535 bytes of UTF-8
// without U+0000, each wildcard a complete level, # last, and a complete $share/NAME/FILTER if it starts so. The error is an
// [*Error] whose Offset is the byte at fault.
func CheckTopicFilter(filter string) error {
	if cause, at := topicFilterFault(filter); cause != causeNone {
		return &Error{Cause: cause, Offset: at, Field: "topic_filter"}
	}
	return nil
}

func topicFilterFault(filter string) (Cause, int) {
	if len(filter) > maxFieldBytes {
		return CauseFieldTooLong, maxFieldBytes
	}
	if cause, at := textFault(stringBytes(filter)); cause != causeNone {
		return cause, at
	}
	return filterFault(filter)
}

// filterFault applies the rules of filters to well-formed text.
func filterFault(filter string) (Cause, int) {
	shared, isShared := strings.CutPrefix(filter, sharePrefix)
	if !isShared {
		return levelsFault(filter, 0)
	}
	group, rest, _ := strings.Cut(shared, "/")
	if group == "" {
		return CauseShareNameInvalid, len(sharePrefix)
	}
	if at := strings.IndexAny(group, "+#"); at >= 0 {
		return CauseShareNameInvalid, len(sharePrefix) + at
	}
	if rest == "" {
		return CauseShareFilterMissing, len(filter)
	}
	return levelsFault(rest, len(filter)-len(rest))
}

// levelsFault checks the wildcards. base is the offset of the filter.
func levelsFault(filter string, base int) (Cause, int) {
	if filter == "" {
		return CauseTopicFilterEmpty, base
	}
	for at := 0; at < len(filter); at++ {
		c := filter[at]
		if c != '+' && c != '#' {
			continue
		}
		isLast := at+1 == len(filter)
		startsLevel := at == 0 || filter[at-1] == '/'
		endsLevel := isLast || filter[at+1] == '/'
		if !startsLevel || !endsLevel {
			return CauseTopicFilterWildcard, base + at
		}
		if c == '#' && !isLast {
			return CauseTopicFilterMultiLevel, base + at
		}
	}
	return causeNone, 0
}

// SplitShare splits the filter of a shared subscription, $share/NAME/FILTER, into its share name and topic filter (section
// 4.8.2). For other filters shared is false and topicFilter is the filter itself.
func SplitShare(filter string) (shareName, topicFilter string, shared bool) {
	rest, isShared := strings.CutPrefix(filter, sharePrefix)
	if isShared {
		if shareName, topicFilter, found := strings.Cut(rest, "/"); found {
			return shareName, topicFilter, true
		}
	}
	return "", filter, false
}

// HasWildcard reports whether the filter contains + or #.
func HasWildcard(filter string) bool { return strings.ContainsAny(filter, "+#") }

// MatchTopic reports whether a topic name matches a filter (section 4.7). A filter of a shared subscription is matched
// without its $share/NAME/. Levels are compared byte by byte [MQTT-4.7.3-4]. "a/#" matches "a" too. A filter that starts
// with a wildcard does not match a name that starts with $ [MQTT-4.7.2-1]. Both must be valid.
func MatchTopic(filter, name string) bool {
	_, filter, _ = SplitShare(filter)
	if filter == "" || name == "" {
		return false
	}
	if name[0] == '$' && (filter[0] == '+' || filter[0] == '#') {
		return false
	}
	for {
		wanted, filterRest, filterGoesOn := strings.Cut(filter, "/")
		if wanted == "#" {
			return true
		}
		level, nameRest, nameGoesOn := strings.Cut(name, "/")
		if wanted != "+" && wanted != level {
			return false
		}
		switch {
		case !filterGoesOn && !nameGoesOn:
			return true
		case filterGoesOn && !nameGoesOn:
			return filterRest == "#"
		case !filterGoesOn:
			return false
		}
		filter, name = filterRest, nameRest
	}
}
