//! Compares both trees with the simplest correct implementation: a map, and the matching rule tried on every pair.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::collection::vec;
use proptest::prelude::*;
use tautwire_protocol::topic_matches;
use tautwire_topics::{FilterTree, NodeId, RetainedTree};

/// Few distinct levels, so that random filters and topics match; one is longer than a node holds.
fn topic_level() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "a", "b", "ab", "$", "$SYS", "é", "a-level-of-25-bytes-length"])
}

fn topic() -> impl Strategy<Value = String> {
    vec(topic_level(), 1..6).prop_map(|levels| not_empty(levels.join("/")))
}

fn filter() -> impl Strategy<Value = String> {
    let level = prop_oneof![2 => topic_level(), 1 => Just("+")];
    (vec(level, 0..5), any::<bool>()).prop_map(|(mut levels, multi_level)| {
        if multi_level {
            levels.push("#");
        }
        not_empty(levels.join("/"))
    })
}

/// Topics and filters have at least one character [MQTT-4.7.3-1].
fn not_empty(text: String) -> String {
    if text.is_empty() { "a".to_string() } else { text }
}

#[derive(Debug, Clone)]
enum FilterStep {
    Add(String, u8),
    Remove(prop::sample::Index),
    Match(String),
}

fn filter_step() -> impl Strategy<Value = FilterStep> {
    prop_oneof![
        4 => (filter(), 0..4_u8).prop_map(|(filter, value)| FilterStep::Add(filter, value)),
        2 => any::<prop::sample::Index>().prop_map(FilterStep::Remove),
        3 => topic().prop_map(FilterStep::Match),
    ]
}

#[derive(Debug, Clone)]
enum TopicStep {
    Insert(String, u32),
    Remove(prop::sample::Index),
    Search(String),
}

fn topic_step() -> impl Strategy<Value = TopicStep> {
    prop_oneof![
        4 => (topic(), any::<u32>()).prop_map(|(topic, value)| TopicStep::Insert(topic, value)),
        2 => any::<prop::sample::Index>().prop_map(TopicStep::Remove),
        3 => filter().prop_map(TopicStep::Search),
    ]
}

fn matches_of(tree: &FilterTree<u8>, topic: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    tree.matches(topic, &mut |node, values| {
        let mut filter = String::new();
        tree.filter_of(node, &mut filter);
        found.push((filter, values.to_vec()));
    });
    found.sort();
    found
}

fn search_in(tree: &RetainedTree<u32>, filter: &str) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    let _: ControlFlow<()> = tree.for_each_match(filter, |topic, &value| {
        found.push((topic.to_string(), value));
        ControlFlow::Continue(())
    });
    found.sort();
    found
}

/// Picks one of the keys, if there are any.
fn pick<V>(model: &BTreeMap<String, V>, index: &prop::sample::Index) -> Option<String> {
    (!model.is_empty()).then(|| model.keys().nth(index.index(model.len())).cloned()).flatten()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn filter_tree_behaves_like_a_map_of_filters(steps in vec(filter_step(), 1..80)) {
        let mut tree = FilterTree::new();
        let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut nodes: BTreeMap<String, NodeId> = BTreeMap::new();
        for step in steps {
            match step {
                FilterStep::Add(filter, value) => {
                    let node = tree.entry(&filter);
                    let replaced = tree.insert_sorted_by_key(node, value, |&value| value);
                    let values = model.entry(filter.clone()).or_default();
                    prop_assert_eq!(replaced, values.contains(&value).then_some(value));
                    if replaced.is_none() {
                        values.push(value);
                        values.sort_unstable();
                    }
                    let known = nodes.insert(filter, node);
                    prop_assert!(known.is_none_or(|known| known == node), "a filter moved to another node");
                }
                FilterStep::Remove(index) => {
                    let Some(filter) = pick(&model, &index) else { continue };
                    let node = nodes[&filter];
                    let values = model.get_mut(&filter).expect("picked from the model");
                    let value = values.pop().expect("the model keeps no empty lists");
                    prop_assert_eq!(tree.remove_by_key(node, &value, |&value| value), Some(value));
                    prop_assert_eq!(tree.prune(node), values.is_empty());
                    if values.is_empty() {
                        model.remove(&filter);
                        nodes.remove(&filter);
                    }
                }
                FilterStep::Match(topic) => {
                    let expected: Vec<_> = model
                        .iter()
                        .filter(|(filter, _)| topic_matches(filter, &topic))
                        .map(|(filter, values)| (filter.clone(), values.clone()))
                        .collect();
                    prop_assert_eq!(matches_of(&tree, &topic), expected);
                }
            }
            prop_assert_eq!(tree.len(), model.len());
            prop_assert_eq!(tree.value_count(), model.values().map(Vec::len).sum::<usize>());
            for (filter, &node) in &nodes {
                prop_assert_eq!(tree.find(filter), Some(node));
                prop_assert_eq!(tree.values(node), &model[filter][..]);
            }
        }
    }

    #[test]
    fn retained_tree_behaves_like_a_map_of_topics(steps in vec(topic_step(), 1..80)) {
        let mut tree = RetainedTree::new();
        let mut model: BTreeMap<String, u32> = BTreeMap::new();
        for step in steps {
            match step {
                TopicStep::Insert(topic, value) => {
                    prop_assert_eq!(tree.insert(&topic, value), model.insert(topic, value));
                }
                TopicStep::Remove(index) => {
                    let Some(topic) = pick(&model, &index) else { continue };
                    prop_assert_eq!(tree.remove(&topic), model.remove(&topic));
                    prop_assert_eq!(tree.remove(&topic), None);
                }
                TopicStep::Search(filter) => {
                    let expected: Vec<_> = model
                        .iter()
                        .filter(|(topic, _)| topic_matches(&filter, topic))
                        .map(|(topic, &value)| (topic.clone(), value))
                        .collect();
                    let is_exact = !filter.contains(['+', '#']);
                    prop_assert!(tree.may_cover(&filter) || expected.is_empty(), "{} may cover", filter);
                    prop_assert!(!(is_exact && tree.may_cover(&filter) && expected.is_empty()), "{} does not", filter);
                    prop_assert_eq!(search_in(&tree, &filter), expected);
                }
            }
            prop_assert_eq!(tree.len(), model.len());
            for (topic, value) in &model {
                prop_assert_eq!(tree.get(topic), Some(value));
            }
        }
    }

    /// Resumed searches, with changes between the steps.
    #[test]
    fn a_resumed_search_finds_stable_entries_once_and_no_phantoms(
        start in vec((topic(), any::<u32>()), 0..40),
        changes in vec(topic_step(), 0..40),
        searched in vec(filter(), 1..4),
        max_steps in 1..4_u64,
    ) {
        let mut tree = RetainedTree::new();
        let mut model: BTreeMap<String, u32> = BTreeMap::new();
        for (topic, value) in start {
            tree.insert(&topic, value);
            model.insert(topic, value);
        }
        let mut ever = model.clone();
        let mut stayed = model.clone();
        let mut searches: Vec<_> = searched.iter().map(|filter| (tree.cursor(filter), Vec::new())).collect();
        let mut changes = changes.into_iter();
        while searches.iter().any(|(cursor, _)| !cursor.is_finished()) {
            for (cursor, found) in &mut searches {
                let _: ControlFlow<()> = tree.resume(cursor, &mut { max_steps }, |node, _| {
                    let mut topic = String::new();
                    tree.topic_of(node, &mut topic);
                    found.push(topic);
                    ControlFlow::Continue(())
                });
            }
            match changes.next() {
                Some(TopicStep::Insert(topic, value)) => {
                    tree.insert(&topic, value);
                    model.insert(topic.clone(), value);
                    ever.insert(topic, value);
                }
                Some(TopicStep::Remove(index)) => {
                    let Some(topic) = pick(&model, &index) else { continue };
                    tree.remove(&topic);
                    model.remove(&topic);
                    stayed.remove(&topic);
                }
                _ => {}
            }
        }
        for (cursor, found) in searches {
            for topic in stayed.keys().filter(|topic| topic_matches(cursor.filter(), topic)) {
                prop_assert_eq!(found.iter().filter(|found| *found == topic).count(), 1, "{}", topic);
            }
            for topic in &found {
                prop_assert!(ever.contains_key(topic) && topic_matches(cursor.filter(), topic));
            }
        }
        for topic in model.keys() {
            tree.remove(topic);
        }
        tree.prune_deferred();
        prop_assert!(tree.is_empty());
        prop_assert_eq!(tree.node_count(), 0, "finished searches leave nothing behind");
    }
}
