package packets_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tautwire/tautwire/clients/go/packets"
)

type topicVector struct {
	ID          string  `json:"id"`
	Topic       *string `json:"topic"`
	TopicParts  []part  `json:"topic_parts"`
	Filter      *string `json:"filter"`
	FilterParts []part  `json:"filter_parts"`
	Result      string  `json:"result"`
	Cause       string  `json:"cause"`
	Matches     bool    `json:"matches"`
	HasWildcard bool    `json:"has_wildcard"`
	Share       *struct {
		Group       *string `json:"group"`
		GroupParts  []part  `json:"group_parts"`
		Filter      *string `json:"filter"`
		FilterParts []part  `json:"filter_parts"`
	} `json:"share"`
}

func topicVectors(t *testing.T, name string) (all []topicVector) {
	t.Helper()
	readVectors(t, "topics/"+name, func(file []byte) {
		var content struct{ Vectors []topicVector }
		if err := json.Unmarshal(file, &content); err != nil {
			t.Fatal(err)
		}
		all = content.Vectors
	})
	return all
}

func TestTopicNamesAreValidatedLikeTheVectors(t *testing.T) {
	for _, v := range topicVectors(t, "names.json") {
		name := *text(v.Topic, v.TopicParts)
		err := packets.CheckTopicName(name)
		if (err == nil) != (v.Result == "valid") || err != nil && causeOf(err).Code() != v.Cause {
			t.Errorf("%s: %v", v.ID, err)
		}
		if _, err := packets.NewPublish(name, nil); (err == nil) != (v.Result == "valid") {
			t.Errorf("%s, NewPublish: %v", v.ID, err)
		}
		if _, err := packets.NewWill(name, nil); (err == nil) != (v.Result == "valid") {
			t.Errorf("%s, NewWill: %v", v.ID, err)
		}
	}
}

func TestTopicFiltersAreValidatedLikeTheVectors(t *testing.T) {
	for _, v := range topicVectors(t, "filters.json") {
		filter := *text(v.Filter, v.FilterParts)
		err := packets.CheckTopicFilter(filter)
		if (err == nil) != (v.Result == "valid") || err != nil && causeOf(err).Code() != v.Cause {
			t.Errorf("%s: %v", v.ID, err)
		}
		if err := new(packets.Subscribe).Add(filter, packets.SubscriptionOptions{}); (err == nil) != (v.Result == "valid") {
			t.Errorf("%s, Subscribe.Add: %v", v.ID, err)
		}
		if v.Result != "valid" {
			continue
		}
		if packets.HasWildcard(filter) != v.HasWildcard {
			t.Errorf("%s: HasWildcard is wrong", v.ID)
		}
		name, matched, shared := packets.SplitShare(filter)
		if shared != (v.Share != nil) {
			t.Errorf("%s: SplitShare says %v", v.ID, shared)
		} else if shared {
			group, rest := text(v.Share.Group, v.Share.GroupParts), text(v.Share.Filter, v.Share.FilterParts)
			if name != *group || matched != *rest {
				t.Errorf("%s: split into %q and %q", v.ID, name, matched)
			}
		}
	}
}

func TestTopicsMatchLikeTheVectors(t *testing.T) {
	for _, v := range topicVectors(t, "matching.json") {
		filter, topic := *text(v.Filter, v.FilterParts), *text(v.Topic, v.TopicParts)
		if packets.MatchTopic(filter, topic) != v.Matches {
			t.Errorf("%s: %q and %q match: %v", v.ID, filter, topic, !v.Matches)
		}
		if packets.MatchTopic("$share/group/"+filter, topic) != v.Matches {
			t.Errorf("%s: shared, %q and %q match: %v", v.ID, filter, topic, !v.Matches)
		}
	}
}

func TestTopicErrorsHaveAPosition(t *testing.T) {
	long := strings.Repeat("a", 65_536)
	for _, c := range []struct {
		check func(string) error
		text  string
		cause packets.Cause
		at    int
	}{
		{packets.CheckTopicName, "", packets.CauseTopicMissing, 0},
		{packets.CheckTopicName, "a/+/b", packets.CauseTopicWildcard, 2},
		{packets.CheckTopicName, "sensors/kitchen/#", packets.CauseTopicWildcard, 16},
		{packets.CheckTopicName, "a\x00#", packets.CauseUTF8Null, 1},
		{packets.CheckTopicName, "ab\xff", packets.CauseUTF8Invalid, 2},
		{packets.CheckTopicName, long, packets.CauseFieldTooLong, 65_535},
		{packets.CheckTopicFilter, "", packets.CauseTopicFilterEmpty, 0},
		{packets.CheckTopicFilter, "a/b#", packets.CauseTopicFilterWildcard, 3},
		{packets.CheckTopicFilter, "+a", packets.CauseTopicFilterWildcard, 0},
		{packets.CheckTopicFilter, "#/a", packets.CauseTopicFilterMultiLevel, 0},
		{packets.CheckTopicFilter, "$share//f", packets.CauseShareNameInvalid, 7},
		{packets.CheckTopicFilter, "$share/g+/f", packets.CauseShareNameInvalid, 8},
		{packets.CheckTopicFilter, "$share/g", packets.CauseShareFilterMissing, 8},
		{packets.CheckTopicFilter, "$share/g/a#", packets.CauseTopicFilterWildcard, 10},
		{packets.CheckTopicFilter, "a/\x00", packets.CauseUTF8Null, 2},
		{packets.CheckTopicFilter, long, packets.CauseFieldTooLong, 65_535},
	} {
		var problem *packets.Error
		if err := c.check(c.text); !errors.As(err, &problem) || problem.Cause != c.cause || problem.Offset != c.at {
			t.Errorf("%.20q: %v, not %s at %d", c.text, err, c.cause.Code(), c.at)
		}
	}
}
