//! Extreme input: as deep, as many and as large as the protocol allows.

use std::ops::ControlFlow;

use tautwire_topics::{FilterTree, RetainedTree};

/// Longest text MQTT can carry: 65,536 empty levels.
const DEEPEST_BYTES: usize = 65_535;

/// A stack too small for recursion by level.
const SMALL_STACK_BYTES: usize = 64 << 10;

/// A record of the size of a subscription in the broker.
type Subscription = [u32; 4];

fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK_BYTES).spawn(run).expect("a thread starts");
    assert!(thread.join().is_ok());
}

#[test]
fn filters_and_topics_of_65536_levels_are_safe() {
    on_a_small_stack(|| {
        let deepest = "/".repeat(DEEPEST_BYTES);
        let mut other = deepest.clone();
        other.replace_range(DEEPEST_BYTES - 1.., "x");
        let all_plus = "+/".repeat(DEEPEST_BYTES / 2) + "#";
        let filters = [deepest.as_str(), &other, &all_plus, "#", "/#", "+"];

        let mut tree = FilterTree::new();
        for filter in filters {
            tree.insert(filter, 1_u8);
        }
        let count = |tree: &FilterTree<u8>, topic: &str| {
            let mut count = 0;
            tree.matches(topic, &mut |_, _| count += 1);
            count
        };
        assert_eq!(count(&tree, &deepest), 4);
        assert_eq!(count(&tree, &other), 4);
        assert_eq!(count(&tree, &"a/".repeat(DEEPEST_BYTES / 2)), 2);

        for filter in filters {
            let node = tree.find(filter).expect("it was inserted");
            let mut text = String::new();
            tree.filter_of(node, &mut text);
            assert_eq!(text, filter);
            assert_eq!(tree.remove_value(node, |_| true), Some(1));
            assert!(tree.prune(node));
        }
        assert_eq!(tree.node_count(), 0);
    });
}

#[test]
fn retained_topics_of_65536_levels_are_safe() {
    on_a_small_stack(|| {
        let deepest = "/".repeat(DEEPEST_BYTES);
        let mut other = deepest.clone();
        other.replace_range(DEEPEST_BYTES - 1.., "x");
        let all_plus = "+/".repeat(DEEPEST_BYTES / 2) + "#";
        let mut tree = RetainedTree::new();
        for topic in [deepest.as_str(), &other, "/", "a"] {
            tree.insert(topic, 1_u8);
        }
        for (filter, expected) in [("#", 4), ("/#", 3), (&deepest, 1), (&all_plus, 2), ("+/+", 1)] {
            let mut count = 0;
            let _: ControlFlow<()> = tree.for_each_match(filter, |_, _| {
                count += 1;
                ControlFlow::Continue(())
            });
            assert_eq!(count, expected, "{filter:.10}");
        }
        for topic in [deepest.as_str(), &other, "/", "a"] {
            assert_eq!(tree.remove(topic), Some(1));
        }
        assert_eq!(tree.node_count(), 0);
    });
}

#[test]
fn a_hundred_thousand_wildcard_filters_take_under_110_bytes_each() {
    let shapes: [fn(u32) -> String; 3] =
        [|i| format!("w/{i}/+/x"), |i| format!("w/+/{i}"), |i| format!("plant/{}/+/machine-{i}/#", i % 100)];
    for shape in shapes {
        let mut tree: FilterTree<Subscription> = FilterTree::new();
        let count = 100_000;
        for i in 0..count {
            tree.insert(&shape(i), [i; 4]);
        }
        assert_eq!(tree.len(), count as usize);
        let bytes = tree.memory_bytes() / count as usize;
        assert!(bytes < 110, "{bytes} bytes for filters like {}", shape(0));
    }
}

#[test]
fn an_empty_tree_takes_under_a_kilobyte() {
    assert!(FilterTree::<Subscription>::new().memory_bytes() < 1024);
    assert!(RetainedTree::<Box<[u8]>>::new().memory_bytes() < 1024);
}

#[test]
fn a_filter_with_many_subscribers_frees_memory_when_they_leave() {
    let mut tree: FilterTree<Subscription> = FilterTree::new();
    let node = tree.entry("news/#");
    let session = |subscription: &Subscription| subscription[0];
    let alone_bytes = tree.memory_bytes();
    for i in 0..10_000_u32 {
        assert_eq!(tree.insert_sorted_by_key(node, [i.wrapping_mul(7919) % 10_000; 4], session), None);
    }
    assert_eq!(tree.insert_sorted_by_key(node, [5, 9, 9, 9], session), Some([5; 4]));
    assert_eq!(tree.get_by_key(node, &5, session), Some(&[5, 9, 9, 9]));
    assert!(tree.values(node).is_sorted());
    assert_eq!(tree.value_count(), 10_000);
    for i in 0..9_999_u32 {
        assert!(tree.remove_by_key(node, &i, session).is_some());
        assert!(tree.remove_by_key(node, &i, session).is_none());
    }
    assert_eq!(tree.values(node), [[9_999; 4]]);
    assert!(!tree.prune(node));
    assert!(tree.memory_bytes() < alone_bytes + 1024);
    tree.remove_by_key(node, &9_999, session);
    assert!(tree.prune(node));
    assert_eq!((tree.len(), tree.node_count(), tree.value_count()), (0, 0, 0));
}

/// 2ⁿ filters of n levels, each level `a` or `+`: each matches the topic exactly once, and with one level fewer none matches.
#[test]
fn every_combination_of_plus_and_literal_is_found_once() {
    let levels = 10;
    let mut tree = FilterTree::new();
    for bits in 0..1_u32 << levels {
        let filter: Vec<&str> = (0..levels).map(|level| if bits >> level & 1 == 1 { "+" } else { "a" }).collect();
        tree.insert(&filter.join("/"), bits);
    }
    let mut found = Vec::new();
    tree.matches(&vec!["a"; levels].join("/"), &mut |_, values| found.extend_from_slice(values));
    found.sort_unstable();
    assert_eq!(found, (0..1 << levels).collect::<Vec<u32>>());
    tree.matches(&vec!["a"; levels - 1].join("/"), &mut |_, _| panic!("too short to be covered"));
}

/// Such text is rejected before it gets here, but must do no harm.
#[test]
fn a_malformed_filter_matches_nothing_and_is_found_again() {
    let mut tree = FilterTree::new();
    let malformed = ["#/a", "a/#/b", "a/#/c", "a+", "a#", ""];
    for filter in malformed {
        tree.insert(filter, 1_u8);
    }
    for topic in ["a", "a/b", "a/x/b", "b"] {
        tree.matches(topic, &mut |_, _| panic!("{topic} is not covered"));
    }
    for filter in malformed {
        assert!(tree.find(filter).is_some());
    }
}

/// A caller with a stale number must not crash the broker.
#[test]
fn a_pruned_node_has_no_values_and_accepts_none() {
    let mut tree = FilterTree::new();
    let node = tree.insert("a/b", 1_u8);
    assert_eq!(tree.remove_value(node, |_| true), Some(1));
    assert!(tree.prune(node));
    tree.push_value(node, 2);
    assert_eq!(tree.insert_sorted_by_key(node, 3, |&value| value), None);
    assert!(tree.values(node).is_empty() && tree.values_mut(node).is_empty());
    assert_eq!(tree.remove_value(node, |_| true), None);
    assert!(tree.prune(node));
    let mut text = String::new();
    tree.filter_of(node, &mut text);
    assert_eq!((text.as_str(), tree.node_count(), tree.value_count()), ("", 0, 0));
}

#[test]
fn a_search_continues_where_its_visitor_stopped() {
    let mut tree = RetainedTree::new();
    for i in 0..100 {
        tree.insert(&format!("a/{i}"), i);
    }
    let mut cursor = tree.cursor("a/+");
    let mut found = Vec::new();
    while !cursor.is_finished() {
        let _ = tree.resume(&mut cursor, &mut { u64::MAX }, |_, &value| {
            found.push(value);
            if found.len() % 7 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
    assert_eq!(found, (0..100).collect::<Vec<i32>>());
}

#[test]
fn a_search_without_matches_respects_its_limit() {
    const TOPICS: u64 = 10_000;
    const PORTION: u64 = 100;
    let mut tree = RetainedTree::new();
    for i in 0..TOPICS {
        tree.insert(&format!("d{i}/state"), i);
    }
    let mut cursor = tree.cursor("+/none");
    let mut portions = 0;
    while !cursor.is_finished() {
        let mut steps = PORTION;
        let _: ControlFlow<()> = tree.resume(&mut cursor, &mut steps, |_, _| panic!("no topic is covered"));
        assert!(steps == 0 || cursor.is_finished(), "a portion is used up or the last");
        portions += 1;
    }
    assert_eq!(portions, TOPICS / PORTION + 1, "every node takes a step");
    let _: ControlFlow<()> = tree.resume(&mut tree.cursor("#"), &mut 0, |_, _| panic!("nothing may be visited"));
}

#[test]
fn long_text_takes_more_steps() {
    let mut tree = RetainedTree::new();
    for i in 0..10 {
        tree.insert(&format!("{i}/{}", "x".repeat(10_000)), i);
    }
    let mut steps = 1_000;
    let _: ControlFlow<()> = tree.resume(&mut tree.cursor("+/y"), &mut steps, |_, _| ControlFlow::Continue(()));
    assert!(steps < 1_000 - 10 * 30, "{steps} are left");
}

#[test]
fn an_abandoned_search_leaves_nothing() {
    let mut tree = RetainedTree::new();
    tree.insert("a/b/c", 1);
    tree.insert("a/b/d", 2);
    let mut cursors = [tree.cursor("#"), tree.cursor("a/b/+")];
    for cursor in &mut cursors {
        let _: ControlFlow<()> = tree.resume(cursor, &mut 3, |_, _| ControlFlow::Continue(()));
        assert!(!cursor.is_finished());
    }
    tree.remove("a/b/c");
    tree.remove("a/b/d");
    assert!(tree.is_empty());
    assert_ne!(tree.node_count(), 0, "the searches pin their node");
    assert!(!tree.needs_pruning());
    drop(cursors);
    assert!(tree.needs_pruning());
    tree.prune_deferred();
    assert_eq!((tree.node_count(), tree.needs_pruning()), (0, false));
}

#[test]
fn a_cursor_of_another_tree_finds_nothing() {
    let mut tree = RetainedTree::new();
    tree.insert("a", 1);
    let mut cursor = RetainedTree::<i32>::new().cursor("#");
    let _: ControlFlow<()> = tree.resume(&mut cursor, &mut 10, |_, _| panic!("it belongs to the other tree"));
    assert!(cursor.is_finished());
}

/// Entries that stay must not hold the memory of many that were added and removed.
#[test]
fn trees_free_the_memory_of_removed_entries() {
    const CROWD: u32 = 100_000;
    let topic = |i: u32| format!("site/{}/a-device-with-a-long-name-{i}", i / 100);
    let mut topics = RetainedTree::new();
    let mut filters: FilterTree<Subscription> = FilterTree::new();
    for i in 0..100 {
        topics.insert(&format!("$SYS/{i}"), i);
        filters.insert(&format!("stays/{i}"), [i; 4]);
    }
    let few_bytes = (topics.memory_bytes(), filters.memory_bytes());
    for i in 0..CROWD {
        topics.insert(&topic(i), i);
        filters.insert(&topic(i), [i; 4]);
    }
    assert!(topics.memory_bytes() > 5 << 20 && filters.memory_bytes() > 5 << 20);
    for i in 0..CROWD {
        topics.remove(&topic(i));
        let node = filters.find(&topic(i)).expect("it was inserted");
        filters.remove_value(node, |_| true);
        filters.prune(node);
    }
    let kept_bytes = (topics.memory_bytes() - few_bytes.0, filters.memory_bytes() - few_bytes.1);
    assert!(kept_bytes.0 < 128 << 10 && kept_bytes.1 < 128 << 10, "{kept_bytes:?} bytes remain");
    for i in 0..100 {
        assert_eq!(topics.get(&format!("$SYS/{i}")), Some(&i));
    }
}

#[test]
fn values_are_replaced_by_position() {
    let mut tree = FilterTree::new();
    let node = tree.insert("a", 0);
    for value in 1..5 {
        tree.push_value(node, value);
    }
    assert_eq!(tree.swap_remove_value(node, 1), Some(1));
    assert_eq!(tree.values(node), [0, 4, 2, 3]);
    assert_eq!(tree.swap_remove_value(node, 3), Some(3));
    assert_eq!(tree.swap_remove_value(node, 3), None);
    assert_eq!(tree.value_count(), 3);
}
